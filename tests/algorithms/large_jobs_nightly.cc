// SPDX-License-Identifier: Apache-2.0
// The proofs that take too long for every commit: all of them at a few large sizes, and plans of a thousand ranks.
#include <gtest/gtest.h>

#include "src/base/types.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(LargeJobs, every_proof_holds_at_chosen_sizes) {
  for (const Algorithm& row : algorithms())
    for (const int ranks : {96, 128, 257}) {
      if (!admits(row, ranks)) continue;
      const auto proof = check_row(row, ranks);
      EXPECT_TRUE(proof.is_ok()) << proof.status().to_string();
    }
}

TEST(LargeJobs, a_thousand_ranks_are_proved_as_schedules_and_as_lowered_plans) {
  constexpr int kRanks = 1000;
  for (const Algorithm& row : algorithms()) {
    if (!admits(row, kRanks)) continue;
    for (const int root : {0, kRanks / 3}) {
      if (root > 0 && !is_rooted(row.what)) continue;
      const auto schedules = build_all(row, kRanks, root);
      ASSERT_TRUE(schedules.is_ok()) << schedules.status().to_string();
      const CheckOutcome plain = check_schedules(*schedules, {row.what, root, row.needs.credits});
      ASSERT_TRUE(plain.ok()) << row.name << ": " << plain.violation->to_string("");
      const auto plans = lower_all(*schedules, lower_options(row.what, row.needs.credits));
      ASSERT_TRUE(plans.is_ok()) << plans.status().to_string();
      const int credits = lowered_credits(*plans, row.needs.credits);
      const CheckOutcome lowered = check_lowered(*plans, {row.what, root, credits});
      ASSERT_TRUE(lowered.ok()) << row.name << ": " << lowered.violation->to_string("");
      EXPECT_EQ(lowered.trees, plain.trees) << row.name;
    }
  }
}

}  // namespace
}  // namespace tutti::core
