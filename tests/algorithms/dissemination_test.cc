// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(Dissemination, one_round_fewer_is_no_barrier) {
  const Algorithm& row = *find_algorithm(TUTTI_BARRIER, "dissemination");
  for (int ranks = 2; ranks <= 9; ++ranks) {
    auto schedules = build_all(row, ranks, 0);
    ASSERT_TRUE(schedules.is_ok());
    ASSERT_TRUE(check_schedules(*schedules, {TUTTI_BARRIER, 0, 1}).ok());
    for (Schedule& schedule : *schedules) schedule.steps.resize(schedule.steps.size() - 2);
    const CheckOutcome outcome = check_schedules(*schedules, {TUTTI_BARRIER, 0, 1});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.violation->rule, Rule::barrier);
  }
}

TEST(Dissemination, takes_ceil_log2_rounds) {
  const Algorithm& row = *find_algorithm(TUTTI_BARRIER, "dissemination");
  EXPECT_EQ(row.cost(1).rounds, 0);
  EXPECT_EQ(row.cost(2).rounds, 1);
  EXPECT_EQ(row.cost(5).rounds, 3);
  EXPECT_EQ(row.cost(8).rounds, 3);
  EXPECT_EQ(row.cost(9).rounds, 4);
}

}  // namespace
}  // namespace tutti::core
