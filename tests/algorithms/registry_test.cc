// SPDX-License-Identifier: Apache-2.0
// What every row of the registry promises, asserted against the schedules it builds.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/base/types.h"
#include "src/plan/algorithm.h"
#include "src/plan/check.h"
#include "src/plan/validate.h"

namespace tutti::core {
namespace {

constexpr int kMostRanks = 64;

std::string row_label(const Algorithm& row) {
  return std::string(collective_name(row.what)) + "_" + std::string(row.name);
}

class Row : public testing::TestWithParam<const Algorithm*> {};

std::vector<const Algorithm*> all_rows() {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& row : algorithms()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Row, testing::ValuesIn(all_rows()),
                         [](const auto& row) { return row_label(*row.param); });

/// Bytes of a message as a share of n, the larger user buffer.
double share_of_message(const Algorithm& row, const Schedule& schedule) {
  return row.what == TUTTI_BARRIER ? 0.0 : 1.0 / schedule.chunks;
}

TEST_P(Row, costs_what_its_formula_says) {
  const Algorithm& row = *GetParam();
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    if (!admits(row, ranks)) continue;
    const auto schedules = build_all(row, ranks, 0);
    ASSERT_TRUE(schedules.is_ok()) << schedules.status().to_string();
    const CheckOutcome outcome = check_schedules(*schedules, {row.what, 0, row.needs.credits});
    ASSERT_TRUE(outcome.ok()) << outcome.violation->to_string("");
    RowCost measured;
    measured.rounds = outcome.rounds;
    for (const Schedule& schedule : *schedules) {
      const auto count = [&](StepOp op) {
        return static_cast<double>(std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                                 [op](const Step& step) { return step.op == op; }));
      };
      measured.messages = std::max(measured.messages, count(StepOp::send));
      measured.sent = std::max(measured.sent, count(StepOp::send) * share_of_message(row, schedule));
      measured.reduced = std::max(measured.reduced, count(StepOp::reduce) * share_of_message(row, schedule));
    }
    const RowCost cost = row.cost(ranks);
    EXPECT_DOUBLE_EQ(cost.rounds, measured.rounds) << ranks << " ranks";
    EXPECT_DOUBLE_EQ(cost.messages, measured.messages) << ranks << " ranks";
    EXPECT_NEAR(cost.sent, measured.sent, 1e-9) << ranks << " ranks";
    EXPECT_NEAR(cost.reduced, measured.reduced, 1e-9) << ranks << " ranks";
  }
}

TEST_P(Row, is_proved_for_every_rank_count_up_to_64) {
  const Algorithm& row = *GetParam();
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    if (!admits(row, ranks)) continue;
    auto proof = check_row(row, ranks);
    ASSERT_TRUE(proof.is_ok()) << proof.status().to_string();
    EXPECT_GE(proof->proofs, 1);
  }
}

TEST_P(Row, needs_every_credit_it_states) {
  const Algorithm& row = *GetParam();
  if (row.needs.credits == 0) return;
  // Somewhere up to 9 ranks one credit fewer must stand still: otherwise the row asks for too much.
  bool stuck = false;
  for (int ranks = 2; ranks <= 9 && !stuck; ++ranks) {
    if (!admits(row, ranks)) continue;
    const auto schedules = build_all(row, ranks, 0);
    ASSERT_TRUE(schedules.is_ok());
    const CheckOutcome outcome = check_schedules(*schedules, {row.what, 0, row.needs.credits - 1});
    stuck = !outcome.ok() && outcome.violation->rule == Rule::deadlock;
  }
  EXPECT_TRUE(stuck) << "one credit fewer would do";
}

bool keeps_tree(Algorithm row, Tree tree) {
  row.tree = tree;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    if (!admits(row, ranks)) continue;
    for (int root = 0; root < (is_rooted(row.what) ? ranks : 1); ++root) {
      const auto schedules = build_all(row, ranks, root);
      if (!schedules.is_ok() || !check_schedules(*schedules, {row.what, root, row.needs.credits, tree}).ok())
        return false;
    }
  }
  return true;
}

TEST_P(Row, declares_the_tree_it_keeps) {
  const Algorithm& row = *GetParam();
  if (!is_reduction(row.what)) {
    EXPECT_EQ(row.tree, Tree::any) << "it adds nothing";
    return;
  }
  for (const Tree tree : {Tree::rank_order, Tree::balanced})
    EXPECT_EQ(keeps_tree(row, tree), row.tree == tree) << tree_name(tree);
}

TEST_P(Row, states_its_lanes) {
  const Algorithm& row = *GetParam();
  int most = 1;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    if (!admits(row, ranks)) continue;
    const auto schedules = build_all(row, ranks, 0);
    ASSERT_TRUE(schedules.is_ok());
    for (const Schedule& schedule : *schedules) most = std::max(most, lane_count(schedule));
  }
  EXPECT_EQ(row.needs.lanes, most);
}

TEST_P(Row, says_whether_it_forwards) {
  const Algorithm& row = *GetParam();
  if (!has_blocks(row.what)) return;
  bool forwards = false;
  for (const int ranks : {4, 5, 8, 9}) {
    if (!admits(row, ranks)) continue;
    const auto schedules = build_all(row, ranks, 0);
    ASSERT_TRUE(schedules.is_ok());
    for (const Schedule& schedule : *schedules)
      for (const Step& step : schedule.steps)
        if (step.op == StepOp::send && step.src.where() != Space::input) forwards = true;
  }
  EXPECT_EQ(row.needs.forwards, forwards);
}

TEST_P(Row, is_described) {
  const Algorithm& row = *GetParam();
  EXPECT_FALSE(row.steps.empty());
  EXPECT_FALSE(row.bytes.empty());
  EXPECT_FALSE(row.source.empty());
  EXPECT_EQ(find_algorithm(row.what, row.name), &row);
}

TEST(Registry, has_no_row_twice) {
  std::set<std::string> labels;
  for (const Algorithm& row : algorithms()) EXPECT_TRUE(labels.insert(row_label(row)).second) << row_label(row);
}

TEST(Registry, explains_unknown_names) {
  EXPECT_EQ(find_algorithm(TUTTI_ALL_REDUCE, "chain"), nullptr);
  const Status status = unknown_algorithm(TUTTI_ALL_REDUCE, "chain");
  EXPECT_NE(status.to_string().find("there are: ring, "), std::string::npos) << status.to_string();
}

TEST(Registry, one_shot_and_two_shot_give_the_same_bits) {
  const auto tree_of = [](tutti_collective what, std::string_view name, int ranks, int root) {
    const Algorithm& row = *find_algorithm(what, name);
    const auto schedules = build_all(row, ranks, root);
    EXPECT_TRUE(schedules.is_ok());
    const auto trees = check_schedules(*schedules, {what, root, row.needs.credits}).trees;
    EXPECT_FALSE(trees.empty());
    // The leaves of a tree are (rank, chunk) pairs, so trees of different chunks differ; chunk 0 is in all rows.
    return trees.empty() ? 0 : trees.front();
  };
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const std::uint64_t tree = tree_of(TUTTI_ALL_REDUCE, "one_shot", ranks, 0);
    EXPECT_EQ(tree_of(TUTTI_ALL_REDUCE, "two_shot", ranks, 0), tree) << ranks << " ranks";
    for (const int root : {0, ranks / 2, ranks - 1})
      EXPECT_EQ(tree_of(TUTTI_REDUCE, "one_shot", ranks, root), tree) << ranks << " ranks, root " << root;
  }
}

TEST(Registry, random_mixes_of_rows_share_a_window_of_slots) {
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    auto proof = check_mixes(algorithms(), ranks, 20, 1);
    ASSERT_TRUE(proof.is_ok()) << proof.status().to_string();
    EXPECT_EQ(proof->mixes, 20);
  }
}

// All proofs of these sizes, and 1000 ranks: large_jobs_nightly.cc.
TEST(Registry, builds_and_proves_large_jobs) {
  for (const Algorithm& row : algorithms())
    for (const int ranks : {96, 128, 257}) {
      if (!admits(row, ranks)) continue;
      const auto schedules = build_all(row, ranks, ranks / 2);
      ASSERT_TRUE(schedules.is_ok());
      const CheckOutcome outcome = check_schedules(*schedules, {row.what, ranks / 2, row.needs.credits});
      EXPECT_TRUE(outcome.ok()) << row_label(row) << ": " << outcome.violation->to_string("");
    }
}

}  // namespace
}  // namespace tutti::core
