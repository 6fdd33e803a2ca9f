// SPDX-License-Identifier: Apache-2.0
// What is special about the rows of all_to_all.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/plan/check.h"

namespace tutti::core {
namespace {

const Algorithm& row_named(std::string_view name) { return *find_algorithm(TUTTI_ALL_TO_ALL, name); }

TEST(AllToAll, rows_of_one_hop_use_no_scratch_and_suit_blocks_of_any_size) {
  for (const char* name : {"one_shot", "pairwise"})
    for (const int ranks : {1, 2, 5, 8}) {
      const auto schedules = build_all(row_named(name), ranks, 0);
      ASSERT_TRUE(schedules.is_ok());
      for (const Schedule& schedule : *schedules) EXPECT_EQ(schedule.scratch_chunks, 0u);
      const auto plans = lower_all(*schedules, lower_options(TUTTI_ALL_TO_ALL, 1));
      ASSERT_TRUE(plans.is_ok());
      for (const LoweredPlan& plan : *plans) EXPECT_FALSE(plan.equal_chunks) << name;
    }
}

TEST(Pairwise, every_round_is_a_matching) {
  for (const int ranks : {2, 3, 6, 8, 9}) {
    const auto schedules = build_all(row_named("pairwise"), ranks, 0);
    ASSERT_TRUE(schedules.is_ok());
    for (int round = 0; round < ranks - 1; ++round) {
      std::set<int> receivers;
      for (const Schedule& schedule : *schedules) {
        const Step& send = schedule.steps[1 + 2 * static_cast<std::size_t>(round)];
        const Step& recv = schedule.steps[2 + 2 * static_cast<std::size_t>(round)];
        ASSERT_EQ(send.op, StepOp::send);
        ASSERT_EQ(recv.op, StepOp::recv);
        receivers.insert(send.peer);
        EXPECT_EQ(send.peer == recv.peer, ranks == 2 || ranks == 8 || 2 * (round + 1) == ranks) << "exchanges";
      }
      EXPECT_EQ(receivers.size(), static_cast<std::size_t>(ranks)) << "round " << round;
    }
  }
}

TEST(Bruck, takes_log2_rounds_up_to_eight_ranks_and_sends_half_of_them_times_the_blocks) {
  EXPECT_EQ(row_named("bruck").cost(1).rounds, 0);
  EXPECT_EQ(row_named("bruck").cost(3).rounds, 2);
  EXPECT_EQ(row_named("bruck").cost(8).rounds, 3);
  EXPECT_DOUBLE_EQ(row_named("bruck").cost(8).sent, 1.5);
  EXPECT_EQ(row_named("bruck").cost(16).rounds, 8);
  EXPECT_LT(row_named("bruck").cost(16).rounds, row_named("pairwise").cost(16).rounds);
}

TEST(Bruck, no_block_is_copied_but_a_rank_s_own) {
  const auto schedules = build_all(row_named("bruck"), 13, 0);
  ASSERT_TRUE(schedules.is_ok());
  for (const Schedule& schedule : *schedules)
    EXPECT_EQ(std::count_if(schedule.steps.begin(), schedule.steps.end(),
                            [](const Step& step) { return step.op == StepOp::copy; }),
              1);
}

}  // namespace
}  // namespace tutti::core
