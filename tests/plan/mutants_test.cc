// SPDX-License-Identifier: Apache-2.0
// Every harmful mutant of every row is refused. Small rank counts here; mutants_nightly_test.cc has all of them.
#include "tests/plan/mutants.h"

#include <gtest/gtest.h>

#include <iostream>

#include "src/base/types.h"
#include "src/plan/builder.h"
#include "src/plan/check.h"
#include "src/plan/interpret.h"
#include "src/plan/mutate.h"

namespace tutti::core {
namespace {

TEST(Mutants, harmful_ones_are_refused_up_to_5_ranks) {
  for (const Algorithm& row : algorithms()) {
    MutantCount count;
    for (int ranks = 1; ranks <= 5; ++ranks)
      if (admits(row, ranks)) count.add(count_mutants(row, ranks, {.interleavings = 60, .at_most = 0, .seed = 1}));
    const std::string label = std::string(collective_name(row.what)) + "/" + std::string(row.name);
    std::cout << summary(label, count) << "\n";
    EXPECT_GT(count.harmful, 0u);
    EXPECT_TRUE(count.survivors.empty()) << label << ": " << count.survivors.front();
  }
}

TEST(Mutants, sampled_ones_are_refused_over_more_ranks) {
  MutantCount count;
  for (const Algorithm& row : algorithms())
    for (const int ranks : {8, 13, 24})
      if (admits(row, ranks)) count.add(count_mutants(row, ranks, {.interleavings = 20, .at_most = 40, .seed = 7}));
  std::cout << summary("8, 13, 24 ranks, sampled", count) << "\n";
  EXPECT_TRUE(count.survivors.empty()) << count.survivors.front();
}

// ---- the interpreter is a judge in its own right -------------------------------------------------------------------

std::vector<Schedule> ring_of(int ranks) {
  return std::move(*build_all(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), ranks, 0));
}

TEST(Interpreter, agrees_with_arithmetic) {
  // What a broadcast from each rank delivers, added up, is what an all_reduce must deliver.
  std::uint64_t expected = 0;
  for (int root = 0; root < 3; ++root) {
    const auto chain = std::move(*build_all(*find_algorithm(TUTTI_BROADCAST, "chain"), 3, root));
    const RunResult copied = interpret(chain, {.what = TUTTI_BROADCAST, .root = root}, 9);
    ASSERT_EQ(copied.end, RunEnd::finished);
    EXPECT_EQ(copied.outputs[0][0].word, copied.outputs[2][0].word);
    expected += copied.outputs[0][0].word;
  }
  const RunResult summed = interpret(ring_of(3), {.what = TUTTI_ALL_REDUCE}, 5);
  ASSERT_EQ(summed.end, RunEnd::finished);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(summed.outputs[rank][0].word, expected);
}

TEST(Interpreter, results_do_not_depend_on_the_interleaving) {
  const auto schedules = ring_of(5);
  const RunResult first = interpret(schedules, {.what = TUTTI_ALL_REDUCE}, 1);
  for (std::uint64_t seed = 2; seed < 30; ++seed) {
    const RunResult other =
        interpret(schedules, {.what = TUTTI_ALL_REDUCE, .root = 0, .credits = 1, .in_place = seed % 2 == 0}, seed);
    ASSERT_EQ(other.end, RunEnd::finished);
    for (std::size_t rank = 0; rank < 5; ++rank)
      EXPECT_EQ(other.outputs[rank][rank].word, first.outputs[rank][rank].word);
  }
}

TEST(Interpreter, sees_a_race_that_one_order_hides) {
  // Lane 0 reads what lane 1 may or may not have written yet.
  std::vector<Schedule> schedules;
  const Placement placement{.rank = 0, .ranks = 1, .levels = {}};
  ScheduleBuilder steps({.placement = &placement}, {.chunks = 1, .scratch_chunks = 1});
  steps.on_lane(1).copy(input(0), scratch(0));
  steps.on_lane(0).copy(scratch(0), output(0));
  schedules.push_back(std::move(*steps.finish()));
  const std::vector<Schedule> good = std::move(*build_all(*find_algorithm(TUTTI_ALL_REDUCE, "one_shot"), 1, 0));
  EXPECT_TRUE(Judge(good, {.what = TUTTI_ALL_REDUCE}).is_harmful(schedules, 50));
}

TEST(Interpreter, sees_deadlocks_leftovers_and_early_exits) {
  auto schedules = ring_of(3);
  const Judge judge(schedules, {.what = TUTTI_ALL_REDUCE});
  EXPECT_EQ(interpret(schedules, {.what = TUTTI_ALL_REDUCE, .root = 0, .credits = 0}, 1).end, RunEnd::deadlock);
  schedules[1].steps.push_back(schedules[1].steps.front());
  EXPECT_EQ(interpret(schedules, {.what = TUTTI_ALL_REDUCE}, 1).end, RunEnd::left_over);
  EXPECT_TRUE(judge.is_harmful(schedules, 1));

  auto barrier = std::move(*build_all(*find_algorithm(TUTTI_BARRIER, "dissemination"), 4, 0));
  const Judge barrier_judge(barrier, {.what = TUTTI_BARRIER});
  EXPECT_FALSE(barrier_judge.is_harmful(barrier, 100));
  for (Schedule& schedule : barrier) schedule.steps.resize(2);
  EXPECT_TRUE(barrier_judge.is_harmful(barrier, 100));
}

TEST(Interpreter, sees_ranks_with_different_bits) {
  // Rank 2 adds in the other order: the integers agree, the floats do not.
  auto schedules = std::move(*build_all(*find_algorithm(TUTTI_ALL_REDUCE, "one_shot"), 3, 0));
  const Judge judge(schedules, {.what = TUTTI_ALL_REDUCE});
  auto& steps = schedules[2].steps;
  const auto is_reduce = [](const Step& step) { return step.op == StepOp::reduce; };
  const auto first = std::find_if(steps.begin(), steps.end(), is_reduce);
  ASSERT_TRUE(first != steps.end() && is_reduce(first[1]));
  std::swap(first[0], first[1]);
  EXPECT_TRUE(judge.is_harmful(schedules, 1));
  EXPECT_FALSE(check_schedules(schedules, {TUTTI_ALL_REDUCE, 0, 1}).ok());
}

TEST(Mutation, list_covers_every_kind) {
  const auto schedules = ring_of(4);
  std::vector<bool> seen(10, false);
  for (const Mutation& mutation : list_mutations(schedules)) {
    seen[static_cast<std::size_t>(mutation.kind)] = true;
    const Schedule mutant = mutate(schedules, mutation);
    const Schedule& original = schedules[static_cast<std::size_t>(mutation.rank)];
    const auto delta = static_cast<int>(mutant.steps.size()) - static_cast<int>(original.steps.size());
    const int expected = mutation.kind == MutationKind::drop ? -1 : mutation.kind == MutationKind::duplicate ? 1 : 0;
    EXPECT_EQ(delta, expected) << describe(schedules, mutation);
  }
  // The ring has a single scratch chunk and many input chunks, so every kind occurs.
  for (std::size_t kind = 0; kind < seen.size(); ++kind)
    EXPECT_TRUE(seen[kind]) << mutation_name(static_cast<MutationKind>(kind));
}

}  // namespace
}  // namespace tutti::core
