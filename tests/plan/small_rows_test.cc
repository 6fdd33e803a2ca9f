// SPDX-License-Identifier: Apache-2.0
// Everything that handles plans, over small rows of reduce, gather, scatter and all_to_all: proofs, texts, drawings,
// lowering, mixes, and what is wrong with bad variants.
#include "tests/plan/small_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "src/base/types.h"
#include "src/plan/builder.h"
#include "src/plan/check.h"
#include "src/plan/contract.h"
#include "src/plan/interpret.h"
#include "src/plan/render.h"
#include "src/plan/serialize.h"

namespace tutti::core {
namespace {

constexpr int kMostRanks = 12;

std::vector<Schedule> schedules_of(tutti_collective what, const char* name, int ranks, int root = 0) {
  auto schedules = build_all(row_of(small_row(what, name)), ranks, root);
  EXPECT_TRUE(schedules.is_ok()) << schedules.status().to_string();
  return std::move(*schedules);
}

std::vector<LoweredPlan> plans_of(tutti_collective what, const std::vector<Schedule>& schedules) {
  auto plans = lower_all(schedules, lower_options(what, 1));
  EXPECT_TRUE(plans.is_ok()) << plans.status().to_string();
  return std::move(*plans);
}

TEST(SmallRows, are_proved_for_every_root) {
  for (const SmallRow& small : small_rows()) {
    const Algorithm row = row_of(small);
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      auto proof = check_row(row, ranks);
      ASSERT_TRUE(proof.is_ok()) << proof.status().to_string();
      EXPECT_EQ(proof->proofs, 9 * (is_rooted(row.what) ? ranks : 1)) << small.name;
    }
  }
}

TEST(SmallRows, mix_with_each_other_in_a_window_of_slots) {
  std::vector<Algorithm> rows;
  for (const SmallRow& small : small_rows()) rows.push_back(row_of(small));
  for (const int ranks : {1, 2, 3, 5, 8}) {
    auto proof = check_mixes(rows, ranks, 40, 3);
    ASSERT_TRUE(proof.is_ok()) << proof.status().to_string();
    EXPECT_EQ(proof->mixes, 40);
  }
}

TEST(SmallRows, give_the_interpreter_what_the_contract_says) {
  for (const SmallRow& small : small_rows()) {
    for (const bool in_place : {false, true}) {
      const int ranks = 4, root = is_rooted(small.what) ? 2 : 0;
      const auto schedules = schedules_of(small.what, small.name, ranks, root);
      const InterpretOptions options{small.what, root, small.credits, in_place};
      const RunResult run = interpret(schedules, options, 11);
      ASSERT_EQ(run.end, RunEnd::finished) << collective_name(small.what) << " " << small.name;
      // What rank 0's input chunk 0 is, and so on, comes from runs of other collectives: a broadcast from each rank.
      const Contract contract(small.what, ranks, root, schedules.front().chunks);
      std::vector<std::vector<std::uint64_t>> inputs;
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<Schedule> spread;
        for (int other = 0; other < ranks; ++other) {
          const Placement placement{.rank = other, .ranks = ranks, .levels = {}};
          ScheduleBuilder steps({.placement = &placement}, {.chunks = contract.chunks(), .scratch_chunks = 0});
          for (std::uint32_t chunk = 0; other == rank && chunk < contract.chunks(); ++chunk)
            steps.copy(input(chunk), output(chunk));
          spread.push_back(std::move(*steps.finish()));
        }
        const RunResult copied = interpret(spread, {TUTTI_BROADCAST, rank, 1, false}, 1);
        inputs.emplace_back();
        for (const Element& element : copied.outputs[static_cast<std::size_t>(rank)])
          inputs.back().push_back(element.word);
      }
      for (int rank = 0; rank < ranks; ++rank)
        for (std::uint32_t chunk = 0; chunk < contract.chunks(); ++chunk) {
          if (!contract.has_output(rank, chunk)) continue;
          std::uint64_t expected = 0;
          for (int other = 0; other < ranks; ++other)
            if (contract.contributes(other, chunk))
              expected += inputs[static_cast<std::size_t>(other)][contract.contributed_chunk(rank, chunk)];
          EXPECT_EQ(run.outputs[static_cast<std::size_t>(rank)][chunk].word, expected)
              << collective_name(small.what) << " " << small.name << " rank " << rank << " chunk " << chunk;
        }
    }
  }
}

TEST(SmallRows, survive_text_and_are_drawn) {
  for (const SmallRow& small : small_rows()) {
    const auto schedules = schedules_of(small.what, small.name, 5, is_rooted(small.what) ? 3 : 0);
    const std::string text = to_text(std::span<const Schedule>(schedules));
    const auto parsed = parse_schedules(text);
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
    EXPECT_EQ(to_text(std::span<const Schedule>(parsed.value())), text);
    const auto says = schedules.front().scratch_holds;
    EXPECT_EQ(parsed.value().front().scratch_holds, says);
    const PlanTitle title{std::string(collective_name(small.what)), small.name, 3};
    EXPECT_EQ(to_json(std::span<const Schedule>(schedules), title).find("scratch_holds") != std::string::npos,
              says != kFollowsData);
    const Drawing drawing = draw(schedules, title);
    for (const Drawing::Arrow& arrow : drawing.arrows)
      EXPECT_LT(drawing.boxes[arrow.from].time, drawing.boxes[arrow.to].time);
  }
}

// ---- lowering ------------------------------------------------------------------------------------------------------

TEST(SmallRows, only_the_root_of_a_reduce_finishes) {
  for (const char* name : {"direct", "relay"}) {
    for (int root = 0; root < 5; ++root) {
      const auto plans = plans_of(TUTTI_REDUCE, schedules_of(TUTTI_REDUCE, name, 5, root));
      for (const LoweredPlan& plan : plans) {
        const auto finals = std::count_if(plan.lanes.at(0).begin(), plan.lanes.at(0).end(),
                                          [](const Action& action) { return action.final; });
        EXPECT_EQ(finals, plan.rank == root ? 1 : 0) << name << " rank " << plan.rank << " root " << root;
      }
    }
  }
}

TEST(SmallRows, a_result_that_arrives_unfinished_is_finished_on_arrival) {
  const auto plans = plans_of(TUTTI_REDUCE, schedules_of(TUTTI_REDUCE, "relay", 4, 1));
  const Action& arrival = plans[1].lanes.at(0).back();
  EXPECT_EQ(arrival.kind, ActionKind::reduce) << "receives have no final touch";
  EXPECT_EQ(arrival.operand_count, 1u);
  EXPECT_TRUE(arrival.final);
  EXPECT_TRUE(arrival.dst == output(0));
}

TEST(SmallRows, direct_reduce_is_one_reduction_over_borrowed_messages) {
  const auto plans = plans_of(TUTTI_REDUCE, schedules_of(TUTTI_REDUCE, "direct", 6, 2));
  EXPECT_EQ(plans[2].lanes.at(0).size(), 1u);
  EXPECT_EQ(plans[2].lanes.at(0).front().operand_count, 6u);
}

TEST(SmallRows, relays_forward_in_one_pass) {
  // Everybody between the ends of the line only passes on: per foreign block one receive that forwards.
  const auto plans = plans_of(TUTTI_GATHER, schedules_of(TUTTI_GATHER, "relay", 5, 0));
  for (const Action& action : plans[2].lanes.at(0)) {
    if (action.kind == ActionKind::send) continue;
    EXPECT_EQ(action.kind, ActionKind::receive);
    EXPECT_GE(action.forward, 0);
    EXPECT_FALSE(action.keep) << "nobody reads the scratch slot again";
  }
}

/// The size of every piece, found as an executor finds it: from the action alone.
TEST(SmallRows, sizes_follow_from_actions_where_blocks_differ) {
  constexpr int kRanks = 6, kRoot = 4;
  const auto bytes_of = [](std::uint32_t sender, std::uint32_t receiver) { return 1000 * sender + receiver; };
  for (const SmallRow& small : small_rows()) {
    if (!has_blocks(small.what)) continue;
    const bool is_all_to_all = small.what == TUTTI_ALL_TO_ALL;
    const auto plans = plans_of(small.what, schedules_of(small.what, small.name, kRanks, is_all_to_all ? 0 : kRoot));
    // Bytes of each message by edge, in the order they are sent and received.
    std::map<std::pair<int, int>, std::vector<std::uint32_t>> sent, received;
    for (const LoweredPlan& plan : plans) {
      EXPECT_EQ(plan.equal_chunks, is_all_to_all && small.forwards) << small.name;
      const auto own = static_cast<std::uint32_t>(plan.rank);
      for (const Action& action : plan.lanes.at(0)) {
        const std::uint32_t bytes = !is_all_to_all                       ? bytes_of(action.chunk, action.chunk)
                                    : action.chunk_space == Space::input ? bytes_of(own, action.chunk)
                                                                         : bytes_of(action.chunk, own);
        const auto peer = [](const std::vector<Edge>& edges, std::int32_t edge) {
          return edges.at(static_cast<std::size_t>(edge)).peer;
        };
        if (action.kind == ActionKind::send) sent[{plan.rank, peer(plan.tx, action.edge)}].push_back(bytes);
        if (action.kind == ActionKind::receive) received[{peer(plan.rx, action.edge), plan.rank}].push_back(bytes);
        if (action.forward >= 0) sent[{plan.rank, peer(plan.tx, action.forward)}].push_back(bytes);
      }
    }
    if (is_all_to_all && small.forwards) continue;  // says that it is not for blocks of different sizes
    EXPECT_FALSE(sent.empty());
    EXPECT_EQ(sent, received) << collective_name(small.what) << " " << small.name;
  }
}

TEST(SmallRows, a_relay_that_does_not_say_what_it_carries_is_refused) {
  auto schedules = schedules_of(TUTTI_GATHER, "relay", 5, 0);
  EXPECT_TRUE(lower(schedules[2], lower_options(TUTTI_GATHER, 1)).is_ok());
  schedules[2].scratch_holds = kFollowsData;
  const auto refused = lower(schedules[2], lower_options(TUTTI_GATHER, 1));
  ASSERT_FALSE(refused.is_ok());
  // Rank 3's block comes from its input; step 3 receives rank 4's, which goes from scratch to scratch to scratch.
  EXPECT_NE(refused.status().message().find("rank 2 lane 0 step 3"), std::string::npos) << refused.status().message();
}

// ---- bad variants --------------------------------------------------------------------------------------------------

void expect_refused(const CheckOutcome& outcome, Rule rule, int rank, int step, const std::string& text) {
  ASSERT_TRUE(outcome.violation.has_value()) << "expected: " << rule_name(rule);
  const Violation& violation = *outcome.violation;
  EXPECT_EQ(rule_name(violation.rule), rule_name(rule)) << violation.to_string("");
  EXPECT_EQ(violation.rank, rank) << violation.to_string("");
  EXPECT_EQ(violation.lane, 0) << violation.to_string("");
  EXPECT_EQ(violation.step, step) << violation.to_string("");
  EXPECT_NE(violation.text.find(text), std::string::npos) << violation.text;
}

TEST(BadSmallRow, only_the_root_has_what_is_the_roots) {
  auto gather = schedules_of(TUTTI_GATHER, "direct", 3, 0);
  gather[2].steps.push_back(Step{StepOp::copy, 0, 0, -1, input(2), output(2)});
  expect_refused(check_schedules(gather, {TUTTI_GATHER, 0, 1}), Rule::slot_range, 2, 1,
                 "gather gives rank 2 no output 2");
  auto reduce = schedules_of(TUTTI_REDUCE, "direct", 3, 1);
  reduce[0].steps.push_back(Step{StepOp::copy, 0, 0, -1, input(0), output(0)});
  expect_refused(check_schedules(reduce, {TUTTI_REDUCE, 1, 1}), Rule::slot_range, 0, 1,
                 "reduce gives rank 0 no output 0");
  auto scatter = schedules_of(TUTTI_SCATTER, "direct", 3, 1);
  scatter[2].steps.insert(scatter[2].steps.begin(), Step{StepOp::copy, 0, 0, -1, input(2), output(2)});
  expect_refused(check_schedules(scatter, {TUTTI_SCATTER, 1, 1}), Rule::slot_range, 2, 0,
                 "scatter gives rank 2 no input 2");
  // A row written for another root: rank 1 sends where no output is.
  expect_refused(check_schedules(schedules_of(TUTTI_GATHER, "direct", 3, 0), {TUTTI_GATHER, 2, 1}), Rule::slot_range, 0,
                 0, "gather gives rank 0 no output 0");
}

TEST(BadSmallRow, a_missing_contribution_is_named) {
  auto reduce = schedules_of(TUTTI_REDUCE, "direct", 4, 0);
  reduce[0].steps.pop_back();
  expect_refused(check_schedules(reduce, {TUTTI_REDUCE, 0, 1}), Rule::contribution, 0, 5,
                 "misses rank 3's contribution");
  auto gather = schedules_of(TUTTI_GATHER, "direct", 3, 1);
  gather[1].steps.erase(gather[1].steps.begin());
  expect_refused(check_schedules(gather, {TUTTI_GATHER, 1, 1}), Rule::contribution, 1, 1,
                 "without having written output 1");
}

TEST(BadSmallRow, a_block_in_the_wrong_place_is_named) {
  // The root sends rank 2's block to rank 1, which believes it is its own.
  auto scatter = schedules_of(TUTTI_SCATTER, "direct", 3, 0);
  scatter[0].steps[0].src = input(2);
  scatter[1].steps[0].src = input(2);
  expect_refused(check_schedules(scatter, {TUTTI_SCATTER, 0, 1}), Rule::chunk_mixup, 1, 0,
                 "writes a piece of chunk 2 to output 1");
  // In all_to_all the same chunk number is right on neither side: input 1 of rank 0 belongs into output 0 of rank 1.
  auto all_to_all = schedules_of(TUTTI_ALL_TO_ALL, "direct", 3, 0);
  all_to_all[0].steps[0].dst = output(1);
  all_to_all[1].steps[3].dst = output(1);
  expect_refused(check_schedules(all_to_all, {TUTTI_ALL_TO_ALL, 0, 1}), Rule::chunk_mixup, 1, 3,
                 "writes rank 0's block for rank 1 to output 1");
  all_to_all = schedules_of(TUTTI_ALL_TO_ALL, "direct", 3, 0);
  all_to_all[0].steps[0].src = input(2);
  all_to_all[1].steps[3].src = input(2);
  expect_refused(check_schedules(all_to_all, {TUTTI_ALL_TO_ALL, 0, 1}), Rule::chunk_mixup, 1, 3,
                 "writes rank 0's block for rank 2 to output 0");
}

TEST(BadSmallRow, scratch_that_holds_something_else_is_named) {
  auto gather = schedules_of(TUTTI_GATHER, "relay", 4, 0);
  gather[1].scratch_holds = 3;
  expect_refused(check_schedules(gather, {TUTTI_GATHER, 0, 1}), Rule::chunk_mixup, 1, 1,
                 "moves a piece of chunk 2 into scratch 0, which the schedule says holds a piece of chunk 3");
  gather[1].scratch_holds = 4;
  EXPECT_EQ(check_schedules(gather, {TUTTI_GATHER, 0, 1}).violation->rule, Rule::malformed);
  auto plans = plans_of(TUTTI_GATHER, schedules_of(TUTTI_GATHER, "relay", 4, 0));
  plans[2].lanes[0][1].chunk = 1;
  const CheckOutcome outcome = check_lowered(plans, {TUTTI_GATHER, 0, 1});
  expect_refused(outcome, Rule::chunk_mixup, 2, 1, "counts its size as that of a piece of chunk 1");
}

TEST(BadSmallRow, a_block_counted_by_the_other_buffer_is_named) {
  auto plans = plans_of(TUTTI_ALL_TO_ALL, schedules_of(TUTTI_ALL_TO_ALL, "direct", 3, 0));
  EXPECT_TRUE(check_lowered(plans, {TUTTI_ALL_TO_ALL, 0, 1}).ok());
  plans[0].lanes[0][0].chunk_space = Space::output;
  expect_refused(check_lowered(plans, {TUTTI_ALL_TO_ALL, 0, 1}), Rule::chunk_mixup, 0, 0,
                 "moves rank 0's block for rank 1, but counts its size as that of rank 1's block for rank 0");
}

TEST(BadSmallRow, an_unfinished_root_is_named) {
  auto plans = plans_of(TUTTI_REDUCE, schedules_of(TUTTI_REDUCE, "relay", 4, 1));
  plans[1].lanes[0].back().final = false;
  expect_refused(check_lowered(plans, {TUTTI_REDUCE, 1, 2}), Rule::final_touch, 1, 1,
                 "leaves output 0 without a final touch");
  plans = plans_of(TUTTI_REDUCE, schedules_of(TUTTI_REDUCE, "relay", 4, 1));
  plans[0].lanes[0].front().final = true;
  const CheckOutcome early = check_lowered(plans, {TUTTI_REDUCE, 1, 2});
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.violation->rule, Rule::final_touch) << early.violation->to_string("");
}

TEST(BadSmallRow, an_in_place_gather_must_not_lose_the_roots_block) {
  // The root uses the place of its own block for a stranger's before it reads its own: in place that is gone.
  auto gather = schedules_of(TUTTI_GATHER, "direct", 2, 0);
  ASSERT_TRUE(check_schedules(gather, {TUTTI_GATHER, 0, 1}).ok());
  auto reduce = schedules_of(TUTTI_REDUCE, "direct", 2, 0);
  // recv, copy in->out, reduce scratch->out: turned round, the copy of the foreign piece destroys the own one.
  reduce[0].steps[1].src = scratch(0);
  reduce[0].steps[2].src = input(0);
  expect_refused(check_schedules(reduce, {TUTTI_REDUCE, 0, 1}), Rule::in_place, 0, 2, "overwritten by step 1");
}

}  // namespace
}  // namespace tutti::core
