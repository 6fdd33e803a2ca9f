// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(Ring, talks_to_its_neighbours_only) {
  for (const tutti_collective what : {TUTTI_ALL_REDUCE, TUTTI_ALL_GATHER, TUTTI_REDUCE_SCATTER}) {
    auto schedules = build_all(*find_algorithm(what, "ring"), 7, 0);
    ASSERT_TRUE(schedules.is_ok());
    for (const Schedule& schedule : *schedules)
      for (const Step& step : schedule.steps) {
        const int expected = step.op == StepOp::send   ? (schedule.rank + 1) % 7
                             : step.op == StepOp::recv ? (schedule.rank + 6) % 7
                                                       : -1;
        EXPECT_EQ(step.peer, expected);
      }
  }
}

TEST(Ring, keeps_partial_sums_out_of_the_output) {
  auto schedules = build_all(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), 5, 0);
  ASSERT_TRUE(schedules.is_ok());
  for (const Schedule& schedule : *schedules) {
    int reduces_into_output = 0;
    for (const Step& step : schedule.steps)
      if (step.op == StepOp::reduce && step.dst.where() == Space::output) ++reduces_into_output;
    EXPECT_EQ(reduces_into_output, 1) << "only the chunk that this rank completes";
    EXPECT_EQ(schedule.scratch_chunks, 1u);
  }
}

TEST(Ring, lowers_to_one_action_per_message) {
  auto schedules = build_all(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), 8, 0);
  ASSERT_TRUE(schedules.is_ok());
  auto plans = lower_all(*schedules, {.reducing = true, .fuse = true, .credits = 1});
  ASSERT_TRUE(plans.is_ok());
  // The first send; 7 receives that reduce, of which the last forwards the complete chunk; 7 receives of complete ones.
  for (const LoweredPlan& plan : *plans) EXPECT_EQ(plan.lanes.at(0).size(), 15u);
}

}  // namespace
}  // namespace tutti::core
