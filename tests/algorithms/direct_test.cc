// SPDX-License-Identifier: Apache-2.0
// one_shot and two_shot.
#include <gtest/gtest.h>

#include <set>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(Direct, first_targets_are_all_different) {
  for (const char* name : {"one_shot", "two_shot"}) {
    auto schedules = build_all(*find_algorithm(TUTTI_ALL_REDUCE, name), 6, 0);
    ASSERT_TRUE(schedules.is_ok());
    std::set<int> targets;
    for (const Schedule& schedule : *schedules) targets.insert(schedule.steps.front().peer);
    EXPECT_EQ(targets.size(), 6u) << name;
  }
}

TEST(Direct, lowers_to_one_reduction_over_borrowed_messages) {
  for (const int ranks : {2, 3, 8}) {
    auto schedules = build_all(*find_algorithm(TUTTI_ALL_REDUCE, "one_shot"), ranks, 0);
    ASSERT_TRUE(schedules.is_ok());
    auto plans = lower_all(*schedules, {.reducing = true, .fuse = true, .credits = 1});
    ASSERT_TRUE(plans.is_ok());
    for (const LoweredPlan& plan : *plans) {
      int reductions = 0;
      for (const Action& action : plan.lanes.at(0)) {
        EXPECT_NE(action.kind, ActionKind::receive) << "a message was copied";
        if (action.kind != ActionKind::reduce) continue;
        ++reductions;
        EXPECT_EQ(action.operand_count, static_cast<std::uint32_t>(ranks));
        int borrowed = 0;
        for (std::uint32_t k = 0; k < action.operand_count; ++k)
          if (plan.operands[action.first_operand + k].edge >= 0) ++borrowed;
        EXPECT_EQ(borrowed, ranks - 1);
      }
      EXPECT_EQ(reductions, 1);
    }
  }
}

TEST(Direct, one_shot_takes_one_round_and_two_shot_two) {
  for (int ranks = 2; ranks <= 12; ++ranks) {
    EXPECT_EQ(find_algorithm(TUTTI_ALL_REDUCE, "one_shot")->cost(ranks).rounds, 1);
    EXPECT_EQ(find_algorithm(TUTTI_ALL_REDUCE, "two_shot")->cost(ranks).rounds, 2);
    EXPECT_LE(find_algorithm(TUTTI_ALL_REDUCE, "two_shot")->cost(ranks).sent, 2.0);
  }
}

}  // namespace
}  // namespace tutti::core
