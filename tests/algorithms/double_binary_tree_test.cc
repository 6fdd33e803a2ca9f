// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

std::vector<Schedule> schedules_of(tutti_collective what, int ranks, int root) {
  auto schedules = build_all(*find_algorithm(what, "double_binary_tree"), ranks, root);
  EXPECT_TRUE(schedules.is_ok());
  return schedules.is_ok() ? *schedules : std::vector<Schedule>{};
}

TEST(DoubleBinaryTree, a_rank_has_children_in_one_tree_only) {
  for (int ranks = 2; ranks <= 33; ++ranks)
    for (const Schedule& schedule : schedules_of(TUTTI_ALL_REDUCE, ranks, 0)) {
      // Who adds in a lane has children there.
      std::set<int> lanes;
      for (const Step& step : schedule.steps)
        if (step.op == StepOp::reduce) lanes.insert(step.lane);
      EXPECT_LE(lanes.size(), 1u) << "rank " << schedule.rank << " of " << ranks;
    }
}

TEST(DoubleBinaryTree, broadcast_and_reduce_send_every_byte_once) {
  for (int ranks = 2; ranks <= 17; ++ranks)
    for (const int root : {0, ranks / 2, ranks - 1}) {
      for (const Schedule& schedule : schedules_of(TUTTI_BROADCAST, ranks, root)) {
        const auto count = [&](StepOp op) {
          int steps = 0;
          for (const Step& step : schedule.steps) steps += step.op == op ? 1 : 0;
          return steps;
        };
        EXPECT_LE(count(StepOp::send), 2) << "two halves";
        EXPECT_EQ(count(StepOp::recv), schedule.rank == root ? 0 : 2);
      }
    }
}

TEST(DoubleBinaryTree, takes_logarithmic_rounds) {
  const Algorithm& row = *find_algorithm(TUTTI_ALL_REDUCE, "double_binary_tree");
  EXPECT_EQ(row.cost(7).rounds, 4);
  EXPECT_EQ(row.cost(8).rounds, 6);
  EXPECT_EQ(row.cost(1000).rounds, 18);
  EXPECT_EQ(row.cost(1000).sent, 2);
}

}  // namespace
}  // namespace tutti::core
