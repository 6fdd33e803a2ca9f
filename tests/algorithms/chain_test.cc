// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(Chain, every_rank_sends_at_most_once_whatever_the_root) {
  const Algorithm& row = *find_algorithm(TUTTI_BROADCAST, "chain");
  for (int root = 0; root < 5; ++root) {
    auto schedules = build_all(row, 5, root);
    ASSERT_TRUE(schedules.is_ok());
    int sends = 0;
    for (const Schedule& schedule : *schedules) {
      const auto is_send = [](const Step& step) { return step.op == StepOp::send; };
      const auto count = std::count_if(schedule.steps.begin(), schedule.steps.end(), is_send);
      EXPECT_LE(count, 1);
      sends += static_cast<int>(count);
    }
    EXPECT_EQ(sends, 4);
    EXPECT_TRUE(check_schedules(*schedules, {TUTTI_BROADCAST, root, 0}).ok()) << "a rendezvous suffices";
  }
}

}  // namespace
}  // namespace tutti::core
