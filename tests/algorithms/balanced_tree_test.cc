// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <utility>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

/// What every output of a collective is made of, as text: sums in parentheses, operands sorted by their first rank.
/// A tiny interpreter of schedules: runs ranks in turn until nothing moves.
class Expressions {
 public:
  explicit Expressions(const std::vector<Schedule>& schedules) : schedules_(schedules) {
    const std::size_t ranks = schedules.size();
    slots_.resize(ranks);
    next_.resize(ranks);
    edges_.resize(ranks * ranks * kLanes);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          while (advance(rank, lane)) moved = true;
    }
  }
  std::string output(int rank, std::uint32_t chunk) {
    return slot(static_cast<std::size_t>(rank), Slot::of(Space::output, chunk));
  }

 private:
  static constexpr std::size_t kLanes = 2;
  struct Queue {
    std::vector<std::string> messages;
    std::size_t taken = 0;
  };

  std::string& slot(std::size_t rank, Slot which) {
    std::string& text = slots_[rank][which.space * 100000 + which.chunk];
    if (text.empty() && which.where() == Space::input) text = std::to_string(rank);
    return text;
  }
  static int first_rank(const std::string& text) { return std::stoi(text.substr(text.find_first_not_of('('))); }

  bool advance(std::size_t rank, std::size_t lane) {
    std::vector<const Step*> steps;
    for (const Step& step : schedules_[rank].steps)
      if (step.lane == lane) steps.push_back(&step);
    std::size_t& position = next_[rank][lane];
    if (position == steps.size()) return false;
    const Step& step = *steps[position];
    const auto edge = [&](std::size_t from, std::size_t to) -> Queue& {
      return edges_[(from * schedules_.size() + to) * kLanes + lane];
    };
    switch (step.op) {
      case StepOp::send:
        edge(rank, static_cast<std::size_t>(step.peer)).messages.push_back(slot(rank, step.src));
        break;
      case StepOp::recv: {
        Queue& queue = edge(static_cast<std::size_t>(step.peer), rank);
        if (queue.taken == queue.messages.size()) return false;
        slot(rank, step.dst) = queue.messages[queue.taken++];
        break;
      }
      case StepOp::copy: slot(rank, step.dst) = slot(rank, step.src); break;
      case StepOp::reduce: {
        std::string a = slot(rank, step.dst), b = slot(rank, step.src);
        if (first_rank(b) < first_rank(a)) std::swap(a, b);
        slot(rank, step.dst) = "(" + a + "+" + b + ")";
        break;
      }
      case StepOp::wait:
        if (next_[rank][step.src.chunk] <= step.dst.chunk) return false;
        break;
    }
    ++position;
    return true;
  }

  const std::vector<Schedule>& schedules_;
  std::vector<std::map<std::uint32_t, std::string>> slots_;
  std::vector<std::array<std::size_t, kLanes>> next_;
  std::vector<Queue> edges_;
};

/// Over `leaves` leaves from `leaf` on; the first `surplus` of all leaves are pairs of ranks.
std::string tree_over(int leaf, int leaves, int surplus) {
  if (leaves > 1)
    return "(" + tree_over(leaf, leaves / 2, surplus) + "+" + tree_over(leaf + leaves / 2, leaves / 2, surplus) + ")";
  if (leaf >= surplus) return std::to_string(leaf + surplus);
  return "(" + std::to_string(2 * leaf) + "+" + std::to_string(2 * leaf + 1) + ")";
}
std::string tree_of(int ranks) {
  int leaves = 1;
  while (2 * leaves <= ranks) leaves *= 2;
  return tree_over(0, leaves, ranks - leaves);
}

std::vector<Schedule> schedules_of(tutti_collective what, int ranks, int root) {
  auto schedules = build_all(*find_algorithm(what, "balanced_tree"), ranks, root);
  EXPECT_TRUE(schedules.is_ok());
  return schedules.is_ok() ? *schedules : std::vector<Schedule>{};
}

TEST(BalancedTreeRow, is_what_its_file_says) {
  EXPECT_EQ(tree_of(4), "((0+1)+(2+3))");
  EXPECT_EQ(tree_of(6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(tree_of(7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(BalancedTreeRow, is_the_same_for_every_chunk_and_rank_of_all_reduce) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const auto schedules = schedules_of(TUTTI_ALL_REDUCE, ranks, 0);
    Expressions expressions(schedules);
    for (int rank = 0; rank < ranks; ++rank)
      for (std::uint32_t chunk = 0; chunk < static_cast<std::uint32_t>(ranks); ++chunk)
        ASSERT_EQ(expressions.output(rank, chunk), tree_of(ranks)) << "rank " << rank << " chunk " << chunk;
  }
}

TEST(BalancedTreeRow, is_the_same_for_every_block_of_reduce_scatter) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const auto schedules = schedules_of(TUTTI_REDUCE_SCATTER, ranks, 0);
    Expressions expressions(schedules);
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_EQ(expressions.output(rank, static_cast<std::uint32_t>(rank)), tree_of(ranks)) << "rank " << rank;
  }
}

TEST(BalancedTreeRow, is_the_same_for_every_root_of_reduce) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int root = 0; root < ranks; ++root) {
      const auto schedules = schedules_of(TUTTI_REDUCE, ranks, root);
      Expressions expressions(schedules);
      ASSERT_EQ(expressions.output(root, 0), tree_of(ranks)) << "root " << root;
    }
}

// Reduces into one slot that follow each other, but for receives, are one reduction with one rounding: the tree's node
// between them would not be rounded to the type.
TEST(BalancedTreeRow, rounds_every_node) {
  for (const tutti_collective what : {TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER, TUTTI_REDUCE})
    for (int ranks = 1; ranks <= 64; ++ranks)
      for (const Schedule& schedule : schedules_of(what, ranks, ranks - 1)) {
        std::array<const Step*, 2> last{};  // by lane, receives left out
        for (const Step& step : schedule.steps) {
          if (step.op == StepOp::recv) continue;
          const Step* before = std::exchange(last[step.lane], &step);
          if (step.op != StepOp::reduce || before == nullptr || before->op != StepOp::reduce) continue;
          ASSERT_FALSE(before->dst == step.dst)
              << "rank " << schedule.rank << " of " << ranks << ", line " << step.site;
        }
      }
}

TEST(BalancedTreeRow, costs_what_halving_and_doubling_does_over_powers_of_two) {
  for (const int ranks : {1, 2, 8, 64}) {
    const RowCost cost = find_algorithm(TUTTI_ALL_REDUCE, "balanced_tree")->cost(ranks);
    const RowCost same = find_algorithm(TUTTI_ALL_REDUCE, "halving_doubling")->cost(ranks);
    EXPECT_DOUBLE_EQ(cost.sent, same.sent);
    EXPECT_DOUBLE_EQ(cost.rounds, same.rounds);
    EXPECT_DOUBLE_EQ(cost.messages, same.messages);
  }
}

}  // namespace
}  // namespace tutti::core
