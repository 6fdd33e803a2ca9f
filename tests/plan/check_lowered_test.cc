// SPDX-License-Identifier: Apache-2.0
// The checker on lowered plans: correct ones pass, and each thing that lowering could get wrong is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/types.h"
#include "src/plan/builder.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

constexpr int kRanks = 3;

std::vector<LoweredPlan> lowered(tutti_collective what, const char* name, int ranks = kRanks) {
  auto schedules = build_all(*find_algorithm(what, name), ranks, 0);
  EXPECT_TRUE(schedules.is_ok());
  auto plans = lower_all(*schedules, lower_options(what, 1));
  EXPECT_TRUE(plans.is_ok());
  return std::move(*plans);
}

CheckOutcome check(const std::vector<LoweredPlan>& plans, int credits = 2) {
  return check_lowered(plans, {TUTTI_ALL_REDUCE, 0, credits});
}

/// The first action of `rank` for which `is_wanted` holds.
template <class Wanted>
Action& find_action(std::vector<LoweredPlan>& plans, std::size_t rank, Wanted is_wanted) {
  auto& lane = plans[rank].lanes.at(0);
  const auto found = std::find_if(lane.begin(), lane.end(), is_wanted);
  EXPECT_TRUE(found != lane.end());
  return *found;
}

void expect_rule(const CheckOutcome& outcome, Rule rule, int rank) {
  ASSERT_TRUE(outcome.violation.has_value()) << "expected: " << rule_name(rule);
  EXPECT_EQ(rule_name(outcome.violation->rule), rule_name(rule)) << outcome.violation->to_string("");
  EXPECT_EQ(outcome.violation->rank, rank) << outcome.violation->to_string("");
  EXPECT_EQ(outcome.violation->lane, 0);
  EXPECT_GE(outcome.violation->step, 0);
}

TEST(CheckLowered, accepts_what_lowering_makes) {
  for (const char* name : {"ring", "one_shot", "two_shot", "recursive_doubling"}) {
    const CheckOutcome outcome = check(lowered(TUTTI_ALL_REDUCE, name));
    EXPECT_TRUE(outcome.ok()) << name << ": " << outcome.violation->to_string("");
  }
}

TEST(CheckLowered, forwarding_needs_one_credit_more) {
  const auto plans = lowered(TUTTI_ALL_REDUCE, "ring");
  EXPECT_EQ(lowered_credits(plans, 1), 2);
  expect_rule(check(plans, 1), Rule::deadlock, 0);
  EXPECT_EQ(lowered_credits(lowered(TUTTI_ALL_REDUCE, "one_shot"), 1), 1);
}

TEST(CheckLowered, finds_a_missing_first_touch) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "ring");
  find_action(plans, 1, [](const Action& action) { return action.kind == ActionKind::send; }).scale = false;
  expect_rule(check(plans), Rule::scale, 1);
  plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  find_action(plans, 2, [](const Action& action) { return action.kind == ActionKind::reduce; }).scale = false;
  expect_rule(check(plans), Rule::scale, 2);
}

TEST(CheckLowered, finds_a_missing_final_touch) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "recursive_doubling", 4);
  for (Action& action : plans[3].lanes[0]) action.final = false;
  expect_rule(check(plans), Rule::final_touch, 3);
}

TEST(CheckLowered, finds_a_final_touch_that_comes_too_early_or_twice) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "recursive_doubling", 4);
  find_action(plans, 0, [](const Action& action) { return action.kind == ActionKind::reduce; }).final = true;
  expect_rule(check(plans), Rule::final_touch, 2);  // the partner of rank 0's next round adds a finished value

  // The ring's complete chunks arrive finished; finishing them again would divide an average twice.
  plans = lowered(TUTTI_ALL_REDUCE, "ring");
  find_action(plans, 1, [](const Action& action) { return action.kind == ActionKind::receive; }).final = true;
  expect_rule(check(plans), Rule::final_touch, 1);
}

TEST(CheckLowered, finds_a_result_that_was_not_kept) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "ring");
  Action& last =
      find_action(plans, 0, [](const Action& action) { return action.kind == ActionKind::reduce && action.final; });
  ASSERT_GE(last.forward, 0);
  last.keep = false;
  expect_rule(check(plans), Rule::contribution, 0);
}

TEST(CheckLowered, finds_an_operand_order_of_its_own) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  const Action& action = find_action(plans, 1, [](const Action& a) { return a.kind == ActionKind::reduce; });
  std::swap(plans[1].operands[action.first_operand], plans[1].operands[action.first_operand + 2]);
  expect_rule(check(plans), Rule::association, 1);
}

TEST(CheckLowered, finds_an_operand_too_many_or_too_few) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  --find_action(plans, 1, [](const Action& a) { return a.kind == ActionKind::reduce; }).operand_count;
  EXPECT_FALSE(check(plans).ok());
  plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  const Action& action = find_action(plans, 2, [](const Action& a) { return a.kind == ActionKind::reduce; });
  plans[2].operands[action.first_operand + 1] = plans[2].operands[action.first_operand];  // two of one edge
  expect_rule(check(plans), Rule::malformed, 2);
}

TEST(CheckLowered, finds_a_piece_counted_by_another_chunks_size) {
  auto plans = lowered(TUTTI_ALL_REDUCE, "ring");
  Action& action = find_action(plans, 1, [](const Action& a) { return a.kind == ActionKind::reduce; });
  action.chunk = (action.chunk + 1) % kRanks;
  expect_rule(check(plans), Rule::chunk_mixup, 1);
}

TEST(CheckLowered, refuses_indices_outside_the_plan) {
  const auto is_reduce = [](const Action& action) { return action.kind == ActionKind::reduce; };
  auto plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  find_action(plans, 1, is_reduce).first_operand = 1000;
  expect_rule(check(plans), Rule::malformed, 1);
  plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  find_action(plans, 1, is_reduce).forward = 17;
  expect_rule(check(plans), Rule::malformed, 1);
  plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  find_action(plans, 1, is_reduce).dst = scratch(99);
  expect_rule(check(plans), Rule::slot_range, 1);
  plans = lowered(TUTTI_ALL_REDUCE, "one_shot");
  find_action(plans, 1, is_reduce).dst = input(0);
  expect_rule(check(plans), Rule::input_written, 1);
}

TEST(CheckLowered, marks_belong_to_reductions_only) {
  auto plans = lowered(TUTTI_ALL_GATHER, "ring");
  EXPECT_TRUE(check_lowered(plans, {TUTTI_ALL_GATHER, 0, 2}).ok());
  plans[0].lanes[0][0].scale = true;
  expect_rule(check_lowered(plans, {TUTTI_ALL_GATHER, 0, 2}), Rule::final_touch, 0);
}

// ---- sequences -----------------------------------------------------------------------------------------------------

TEST(CheckSequence, a_message_left_over_meets_the_next_operation) {
  // Rank 0 sends twice and rank 1 receives once; in the next operation rank 0 sends nothing and rank 1 receives twice.
  // Counted over both everything matches; the second operation gets a message of the first.
  const auto make = [](int sends, int receives) {
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < 2; ++rank) {
      const Placement placement{.rank = rank, .ranks = 2, .levels = {}};
      ScheduleBuilder steps({.placement = &placement}, {.chunks = 1, .scratch_chunks = 1});
      for (int k = 0; rank == 0 && k < sends; ++k) steps.send(1, input(0), output(0));
      for (int k = 0; rank == 1 && k < receives; ++k) steps.recv(0, input(0), output(0));
      if (rank == 0) steps.copy(input(0), output(0));
      schedules.push_back(std::move(*steps.finish()));
    }
    return std::move(*lower_all(schedules, {.reducing = false, .fuse = true, .credits = 1}));
  };
  const auto first = make(2, 1), second = make(0, 1);
  const std::vector<SequencedOperation> operations{{first, TUTTI_BROADCAST, 0}, {second, TUTTI_BROADCAST, 0}};
  const CheckOutcome outcome = check_sequence(operations, {});
  expect_rule(outcome, Rule::unmatched, 1);
  EXPECT_NE(outcome.violation->text.find("message of operation 0 while in operation 1"), std::string::npos)
      << outcome.violation->text;
}

TEST(CheckSequence, a_window_that_is_too_small_for_the_mix_is_found) {
  const auto ring = lowered(TUTTI_ALL_REDUCE, "ring");
  const std::vector<SequencedOperation> operations(3, {ring, TUTTI_ALL_REDUCE, 0});
  EXPECT_TRUE(check_sequence(operations, {.window = 2, .return_every = 1, .slices = false}).ok());
  EXPECT_TRUE(check_sequence(operations, {.window = 2, .return_every = 1, .slices = true}).ok());
  const CheckOutcome outcome = check_sequence(operations, {.window = 1, .return_every = 1, .slices = false});
  expect_rule(outcome, Rule::deadlock, 0);
  // Credit that comes back in lots of the whole window may never come back: over 4 ranks, the fourth message of an edge
  // is consumed by the action that sends the fifth.
  const auto longer = lowered(TUTTI_ALL_REDUCE, "ring", 4);
  const std::vector<SequencedOperation> one{{longer, TUTTI_ALL_REDUCE, 0}};
  EXPECT_TRUE(check_sequence(one, {.window = 4, .return_every = 3, .slices = false}).ok());
  expect_rule(check_sequence(one, {.window = 4, .return_every = 4, .slices = false}), Rule::deadlock, 0);
}

}  // namespace
}  // namespace tutti::core
