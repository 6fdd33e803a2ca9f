// SPDX-License-Identifier: Apache-2.0
// The tree of binomial, k_nomial and scatter_allgather, and what is special about their rows.
#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/rooted_tree.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(RootedTree, children_split_the_range_below_their_parent) {
  for (const int radix : {2, 3, 4, 8})
    for (const int ranks : {1, 2, 3, 5, 8, 13, 16, 64, 100}) {
      for (int number = 0; number < ranks; ++number) {
        const int root = ranks / 3;
        const Placement placement{.rank = (number + root) % ranks, .ranks = ranks, .levels = {}};
        const RootedTree tree({.placement = &placement, .root = root}, radix);
        EXPECT_EQ(tree.own().first, number);
        EXPECT_EQ(tree.is_root(), number == 0);
        int next = number + 1;
        for (const Subtree& child : tree.children()) {
          EXPECT_EQ(child.first, next) << "near to far, without gaps";
          const RootedTree below = tree.seen_by(child.first);
          EXPECT_EQ(below.parent(), number);
          EXPECT_EQ(below.own().size, child.size);
          next += child.size;
        }
        EXPECT_EQ(next, number + tree.own().size);
      }
    }
}

TEST(RootedTree, shape_is_that_of_the_tree) {
  for (const int radix : {2, 3, 4})
    for (int ranks = 1; ranks <= 130; ++ranks) {
      const RootedTreeShape shape(ranks, radix);
      int deepest = 0, largest = 0, most_children = 0;
      for (int number = 0; number < ranks; ++number) {
        const Placement placement{.rank = number, .ranks = ranks, .levels = {}};
        const RootedTree tree({.placement = &placement, .root = 0}, radix);
        most_children = std::max(most_children, static_cast<int>(tree.children().size()));
        if (number > 0) largest = std::max(largest, tree.own().size);
        int depth = 0;
        for (int at = number; at != 0; at = tree.seen_by(at).parent()) ++depth;
        deepest = std::max(deepest, depth);
      }
      EXPECT_EQ(shape.depth, deepest) << ranks << " ranks, radix " << radix;
      EXPECT_EQ(shape.largest_subtree, largest) << ranks << " ranks, radix " << radix;
      EXPECT_EQ(shape.children, most_children) << ranks << " ranks, radix " << radix;
    }
}

TEST(KNomial, radix_four_halves_the_rounds_for_more_messages) {
  const RowCost two = find_algorithm(TUTTI_BROADCAST, "binomial")->cost(64);
  const RowCost four = find_algorithm(TUTTI_BROADCAST, "k_nomial")->cost(64);
  EXPECT_EQ(two.rounds, 6);
  EXPECT_EQ(two.messages, 6);
  EXPECT_EQ(four.rounds, 3);
  EXPECT_EQ(four.messages, 9);
}

// Every rank adds its own value and its children's, near to far: one reduction.
TEST(KNomial, reduce_adds_in_rank_order_counted_from_the_root) {
  for (const char* name : {"binomial", "k_nomial"}) {
    const int ranks = 16, root = 5;
    const auto schedules = build_all(*find_algorithm(TUTTI_REDUCE, name), ranks, root);
    ASSERT_TRUE(schedules.is_ok());
    for (const Schedule& schedule : *schedules) {
      std::vector<int> sender_of_scratch(schedule.scratch_chunks, -1), order;
      for (const Step& step : schedule.steps) {
        if (step.op == StepOp::recv) sender_of_scratch[step.dst.chunk] = step.peer;
        if (step.op == StepOp::reduce) order.push_back((sender_of_scratch[step.src.chunk] - root + ranks) % ranks);
      }
      EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << name << " rank " << schedule.rank;
      EXPECT_EQ(order.empty(), schedule.scratch_chunks == 0);
    }
  }
}

TEST(KNomial, gather_and_scatter_move_every_block_once_a_level_and_copy_none_on_the_way) {
  for (const tutti_collective what : {TUTTI_GATHER, TUTTI_SCATTER})
    for (const char* name : {"binomial", "k_nomial"}) {
      const int ranks = 13, root = 5;
      const auto schedules = build_all(*find_algorithm(what, name), ranks, root);
      ASSERT_TRUE(schedules.is_ok());
      const auto plans = lower_all(*schedules, lower_options(what, 0));
      ASSERT_TRUE(plans.is_ok());
      for (const LoweredPlan& plan : *plans) {
        EXPECT_FALSE(plan.equal_chunks) << "blocks of any size";
        int into_memory = 0;
        for (const Action& action : plan.lanes.at(0))
          if (action.kind == ActionKind::receive && action.keep) ++into_memory;
        const bool receives_all = what == TUTTI_GATHER && plan.rank == root;
        const bool receives_one = what == TUTTI_SCATTER && plan.rank != root;
        EXPECT_EQ(into_memory, receives_all ? ranks - 1 : receives_one ? 1 : 0) << name << " rank " << plan.rank;
      }
    }
}

TEST(KNomial, a_rank_that_adds_and_sends_does_both_in_one_pass) {
  const auto schedules = build_all(*find_algorithm(TUTTI_REDUCE, "binomial"), 8, 0);
  ASSERT_TRUE(schedules.is_ok());
  const auto plans = lower_all(*schedules, {.reducing = true, .fuse = true, .credits = 1});
  ASSERT_TRUE(plans.is_ok());
  const LoweredPlan& inner = (*plans)[4];  // adds 5's, 6's (with 7's), and sends to 0
  ASSERT_EQ(inner.lanes.at(0).size(), 1u);
  const Action& action = inner.lanes[0][0];
  EXPECT_EQ(action.kind, ActionKind::reduce);
  EXPECT_EQ(action.operand_count, 3u);
  EXPECT_GE(action.forward, 0);
  EXPECT_FALSE(action.keep) << "nobody needs the partial sum here";
}

}  // namespace
}  // namespace tutti::core
