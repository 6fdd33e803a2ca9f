// SPDX-License-Identifier: Apache-2.0
// The checker against hand-made rows: good ones pass, and every kind of fault is refused at its rank, lane and step.
#include "src/plan/check.h"

#include <gtest/gtest.h>

#include "src/plan/builder.h"

namespace tutti::core {
namespace {

/// Builds the schedules of all ranks with a function (steps, rank).
template <class Write>
std::vector<Schedule> make(int ranks, ScheduleBuilder::Shape shape, Write write) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank) {
    const Placement placement{.rank = rank, .ranks = ranks, .levels = {}};
    ScheduleBuilder steps({.placement = &placement}, shape);
    write(steps, rank);
    auto result = steps.finish();
    EXPECT_TRUE(result.is_ok()) << result.status().to_string();
    schedules.push_back(std::move(*result));
  }
  return schedules;
}

/// Two ranks exchange their inputs and add: the smallest correct all_reduce.
void write_pair(ScheduleBuilder& steps, int rank) {
  steps.send(1 - rank, input(0), scratch(0));
  steps.recv(1 - rank, input(0), scratch(0));
  steps.copy(input(0), output(0)).reduce(scratch(0), output(0));
}

void expect_violation(const CheckOutcome& outcome, Rule rule, int rank, int lane, int step) {
  ASSERT_TRUE(outcome.violation.has_value()) << "expected: " << rule_name(rule);
  const Violation& violation = *outcome.violation;
  EXPECT_EQ(rule_name(violation.rule), rule_name(rule)) << violation.to_string("");
  EXPECT_EQ(violation.rank, rank) << violation.to_string("");
  EXPECT_EQ(violation.lane, lane) << violation.to_string("");
  EXPECT_EQ(violation.step, step) << violation.to_string("");
}

TEST(Check, accepts_the_smallest_all_reduce) {
  const auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  const CheckOutcome outcome = check_schedules(schedules, {.credits = 1});
  EXPECT_TRUE(outcome.ok()) << outcome.violation->to_string("");
  EXPECT_EQ(outcome.rounds, 1u);
  EXPECT_EQ(outcome.messages, 2u);
  EXPECT_EQ(outcome.steps, 8u);
  EXPECT_EQ(outcome.trees.size(), 1u);
}

TEST(Check, finds_the_deadlock_of_two_sends_under_rendezvous) {
  const auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  const CheckOutcome outcome = check_schedules(schedules, {.credits = 0});
  expect_violation(outcome, Rule::deadlock, 0, 0, 0);
  EXPECT_NE(outcome.violation->text.find("waits to send to rank 1"), std::string::npos) << outcome.violation->text;
  EXPECT_NE(outcome.violation->text.find("which in step 0"), std::string::npos) << outcome.violation->text;
}

/// Every rank sends two messages to its right before it receives two: needs 2 credits.
void write_two_ahead(ScheduleBuilder& steps, int rank) {
  const int peer = 1 - rank;
  steps.send(peer, input(0), scratch(0)).send(peer, input(1), scratch(1));
  steps.recv(peer, input(0), scratch(0)).recv(peer, input(1), scratch(1));
  for (std::uint32_t chunk = 0; chunk < 2; ++chunk)
    steps.copy(input(chunk), output(chunk)).reduce(scratch(chunk), output(chunk));
}

TEST(Check, finds_the_credit_deadlock_and_accepts_enough_credit) {
  const auto schedules = make(2, {.chunks = 2, .scratch_chunks = 2}, write_two_ahead);
  const CheckOutcome refused = check_schedules(schedules, {.credits = 1});
  expect_violation(refused, Rule::deadlock, 0, 0, 1);
  EXPECT_NE(refused.violation->text.find("credits 1"), std::string::npos) << refused.violation->text;
  EXPECT_GT(refused.violation->site, 0);
  const CheckOutcome accepted = check_schedules(schedules, {.credits = 2});
  EXPECT_TRUE(accepted.ok()) << accepted.violation->to_string("");
  EXPECT_EQ(accepted.most_in_flight, 2u);
}

TEST(Check, names_missing_and_repeated_contributions) {
  auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[1].steps[3].src = output(0);  // adds its own again
  schedules[1].steps[3].src = scratch(0);
  schedules[1].steps.pop_back();
  const CheckOutcome missing = check_schedules(schedules, {});
  expect_violation(missing, Rule::contribution, 1, 0, 2);
  EXPECT_NE(missing.violation->text.find("misses rank 0's contribution"), std::string::npos) << missing.violation->text;

  schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[0].steps.push_back(schedules[0].steps.back());
  const CheckOutcome repeated = check_schedules(schedules, {});
  expect_violation(repeated, Rule::contribution, 0, 0, 4);
  EXPECT_NE(repeated.violation->text.find("rank 1's contribution 2 times"), std::string::npos)
      << repeated.violation->text;
}

TEST(Check, names_chunks_that_were_mixed_up) {
  auto schedules = make(2, {.chunks = 2, .scratch_chunks = 2}, write_two_ahead);
  for (Schedule& schedule : schedules) std::swap(schedule.steps[5].src, schedule.steps[7].src);
  const CheckOutcome outcome = check_schedules(schedules, {.credits = 2});
  expect_violation(outcome, Rule::chunk_mixup, 1, 0, 5);
  EXPECT_NE(outcome.violation->text.find("adds a piece of chunk 1 to a piece of chunk 0"), std::string::npos)
      << outcome.violation->text;
}

TEST(Check, finds_an_output_that_nobody_writes) {
  auto schedules = make(2, {.chunks = 2, .scratch_chunks = 2}, write_two_ahead);
  schedules[1].steps.resize(6);
  const CheckOutcome outcome = check_schedules(schedules, {.credits = 2});
  expect_violation(outcome, Rule::contribution, 1, 0, 5);
  EXPECT_NE(outcome.violation->text.find("without having written output 1"), std::string::npos)
      << outcome.violation->text;
}

TEST(Check, finds_unmatched_messages_on_either_side) {
  auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[0].steps.erase(schedules[0].steps.begin());
  expect_violation(check_schedules(schedules, {}), Rule::unmatched, 1, 0, 1);

  schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[1].steps.insert(schedules[1].steps.begin(), schedules[1].steps.front());
  expect_violation(check_schedules(schedules, {.credits = 2}), Rule::unmatched, 1, 0, 1);
}

TEST(Check, compares_both_ends_of_a_message) {
  auto schedules = make(2, {.chunks = 2, .scratch_chunks = 2}, write_two_ahead);
  std::swap(schedules[0].steps[0], schedules[0].steps[1]);  // sends chunk 1 first
  const CheckOutcome outcome = check_schedules(schedules, {.credits = 2});
  expect_violation(outcome, Rule::slot_mismatch, 1, 0, 2);
  EXPECT_NE(outcome.violation->text.find("input 1 for scratch 1"), std::string::npos) << outcome.violation->text;
}

TEST(Check, finds_a_read_of_a_slot_never_written) {
  auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  std::swap(schedules[1].steps[2], schedules[1].steps[3]);  // reduce into the output before it is started
  expect_violation(check_schedules(schedules, {}), Rule::unwritten, 1, 0, 2);
}

TEST(Check, refuses_foreign_slots_and_writes_to_the_input) {
  auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[0].steps[2].dst = input(0);
  expect_violation(check_schedules(schedules, {}), Rule::input_written, 0, 0, 2);

  schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[1].steps[3].src = scratch(7);
  expect_violation(check_schedules(schedules, {}), Rule::slot_range, 1, 0, 3);

  const auto gather =
      make(2, {.chunks = 2, .scratch_chunks = 0}, [](ScheduleBuilder& steps, int) { steps.copy(input(1), output(1)); });
  expect_violation(check_schedules(gather, {.what = TUTTI_ALL_GATHER}), Rule::slot_range, 0, 0, 0);
  const auto broadcast =
      make(2, {.chunks = 1, .scratch_chunks = 0}, [](ScheduleBuilder& steps, int) { steps.copy(input(0), output(0)); });
  expect_violation(check_schedules(broadcast, {.what = TUTTI_BROADCAST, .root = 1}), Rule::slot_range, 0, 0, 0);
}

TEST(Check, finds_what_works_out_of_place_only) {
  // Rank 1 overwrites its output with the foreign piece before it reads its input: in place that is gone.
  const auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, [](ScheduleBuilder& steps, int rank) {
    if (rank == 0) return write_pair(steps, rank);
    steps.send(0, input(0), scratch(0)).recv(0, input(0), scratch(0));
    steps.copy(scratch(0), output(0)).reduce(input(0), output(0));
  });
  const CheckOutcome outcome = check_schedules(schedules, {});
  expect_violation(outcome, Rule::in_place, 1, 0, 3);
  EXPECT_NE(outcome.violation->text.find("overwritten by step 2"), std::string::npos) << outcome.violation->text;
}

/// All ranks get all inputs, then add them in the order that `order` gives for the rank.
template <class Order>
std::vector<Schedule> make_three_way(Order order) {
  return make(3, {.chunks = 1, .scratch_chunks = 4}, [&](ScheduleBuilder& steps, int rank) {
    for (int hop = 1; hop < 3; ++hop) steps.send((rank + hop) % 3, input(0), scratch(static_cast<std::uint32_t>(rank)));
    for (int hop = 1; hop < 3; ++hop) {
      const int peer = (rank + 3 - hop) % 3;
      steps.recv(peer, input(0), scratch(static_cast<std::uint32_t>(peer)));
    }
    const auto piece = [rank](int other) {
      return other == rank ? input(0) : scratch(static_cast<std::uint32_t>(other));
    };
    const std::vector<int> ranks = order(rank);
    steps.copy(piece(ranks[0]), scratch(3)).reduce(piece(ranks[1]), scratch(3)).reduce(piece(ranks[2]), scratch(3));
    steps.copy(scratch(3), output(0));
  });
}

TEST(Check, accepts_swapped_operands_but_no_other_association) {
  const auto commuted = make_three_way([](int rank) {
    return rank == 1 ? std::vector{1, 0, 2} : std::vector{0, 1, 2};
  });
  const CheckOutcome same = check_schedules(commuted, {});
  EXPECT_TRUE(same.ok()) << same.violation->to_string("");

  const auto reassociated = make_three_way([](int rank) {
    return rank == 2 ? std::vector{2, 1, 0} : std::vector{0, 1, 2};
  });
  const CheckOutcome other = check_schedules(reassociated, {});
  expect_violation(other, Rule::association, 2, 0, 7);
  EXPECT_NE(other.violation->to_string("bad.cc").find("rank 2 lane 0 step 7 (bad.cc:"), std::string::npos)
      << other.violation->to_string("bad.cc");
}

TEST(Check, tells_one_rounding_from_two) {
  // Both ranks add a + b + c, but rank 2 sends its partial sum away in between, so 16-bit floats round twice there.
  const auto schedules = make(3, {.chunks = 1, .scratch_chunks = 4}, [](ScheduleBuilder& steps, int rank) {
    const auto piece = [rank](int other) {
      return other == rank ? input(0) : scratch(static_cast<std::uint32_t>(other));
    };
    for (int hop = 1; hop < 3; ++hop) steps.send((rank + hop) % 3, input(0), scratch(static_cast<std::uint32_t>(rank)));
    for (int hop = 1; hop < 3; ++hop) {
      const int peer = (rank + 3 - hop) % 3;
      steps.recv(peer, input(0), scratch(static_cast<std::uint32_t>(peer)));
    }
    steps.copy(piece(0), scratch(3)).reduce(piece(1), scratch(3));
    if (rank == 2) steps.copy(scratch(3), scratch(2));
    steps.reduce(piece(2), scratch(3)).copy(scratch(3), output(0));
  });
  expect_violation(check_schedules(schedules, {}), Rule::association, 2, 0, 8);
}

// ---- lanes ---------------------------------------------------------------------------------------------------------

/// Lane 1 exchanges, lane 0 adds what it received. `ordered`: lane 0 waits for the receive, else only for the send.
std::vector<Schedule> make_two_lanes(bool ordered) {
  return make(2, {.chunks = 1, .scratch_chunks = 1}, [&](ScheduleBuilder& steps, int rank) {
    steps.on_lane(1).send(1 - rank, input(0), scratch(0)).recv(1 - rank, input(0), scratch(0));
    steps.on_lane(0).wait(1, ordered ? 1 : 0).copy(input(0), output(0)).reduce(scratch(0), output(0));
  });
}

TEST(Check, finds_the_slot_hazard_between_lanes) {
  const CheckOutcome ordered = check_schedules(make_two_lanes(true), {});
  EXPECT_TRUE(ordered.ok()) << ordered.violation->to_string("");
  const CheckOutcome racy = check_schedules(make_two_lanes(false), {});
  ASSERT_FALSE(racy.ok());
  // Whichever lane the checker runs first, the pair of steps is found: as a race, or as a read before the write.
  EXPECT_TRUE(racy.violation->rule == Rule::race || racy.violation->rule == Rule::unwritten);
  EXPECT_EQ(racy.violation->lane, 0);
  EXPECT_EQ(racy.violation->step, 2);
}

TEST(Check, finds_a_slot_overwritten_while_another_lane_reads_it) {
  // Lane 0 sends scratch 0 away; lane 1 overwrites it, ordered after the write but not after the send.
  const auto write = [](bool ordered) {
    return make(2, {.chunks = 1, .scratch_chunks = 2}, [&](ScheduleBuilder& steps, int rank) {
      const int peer = 1 - rank;
      steps.copy(input(0), scratch(0)).send(peer, scratch(0), scratch(1)).recv(peer, scratch(0), scratch(1));
      steps.copy(input(0), output(0)).reduce(scratch(1), output(0));
      steps.on_lane(1).wait(0, ordered ? 1 : 0).copy(input(0), scratch(0));
    });
  };
  // In place, lane 1 reads the input that lane 0 overwrites: order that as well by letting lane 0 wait.
  auto ordered = write(true);
  for (Schedule& schedule : ordered)
    schedule.steps.insert(schedule.steps.begin() + 3,
                          Step{StepOp::wait, 0, 0, -1, Slot::of(Space::input, 1), Slot::of(Space::input, 1)});
  const CheckOutcome good = check_schedules(ordered, {});
  EXPECT_TRUE(good.ok()) << good.violation->to_string("");
  const CheckOutcome bad = check_schedules(write(false), {});
  ASSERT_FALSE(bad.ok());
  EXPECT_TRUE(bad.violation->rule == Rule::race || bad.violation->rule == Rule::in_place)
      << bad.violation->to_string("");
  auto racy = write(false);
  for (Schedule& schedule : racy)
    schedule.steps.insert(schedule.steps.begin() + 3,
                          Step{StepOp::wait, 0, 0, -1, Slot::of(Space::input, 1), Slot::of(Space::input, 1)});
  const CheckOutcome race = check_schedules(racy, {});
  ASSERT_FALSE(race.ok());
  EXPECT_EQ(race.violation->rule, Rule::race) << race.violation->to_string("");
}

TEST(Check, orders_lanes_through_messages_of_other_ranks) {
  // Lane 0 of rank 0 fills scratch 0 and tells rank 1, which tells lane 1 of rank 0, which may then read it. (Messages
  // stay on their lane, so rank 1 hands over between its lanes with a wait.)
  const auto schedules = make(2, {.chunks = 1, .scratch_chunks = 2}, [](ScheduleBuilder& steps, int rank) {
    if (rank == 0) {
      steps.copy(input(0), scratch(0)).send(1, scratch(0), scratch(0));
      steps.on_lane(1).recv(1, scratch(0), scratch(1)).copy(scratch(0), output(0));
    } else {
      steps.recv(0, scratch(0), scratch(0));
      steps.on_lane(1).wait(0, 0).send(0, scratch(0), scratch(1)).copy(scratch(0), output(0));
    }
  });
  const CheckOutcome outcome = check_schedules(schedules, {.what = TUTTI_BROADCAST, .root = 0});
  EXPECT_TRUE(outcome.ok()) << outcome.violation->to_string("");
}

TEST(Check, finds_lanes_that_wait_for_each_other) {
  const auto schedules = make(1, {.chunks = 1, .scratch_chunks = 0}, [](ScheduleBuilder& steps, int) {
    steps.wait(1, 1).copy(input(0), output(0));
    steps.on_lane(1).wait(0, 1).wait(0, 0);
  });
  const CheckOutcome outcome = check_schedules(schedules, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.violation->rule, Rule::deadlock);
  EXPECT_EQ(outcome.violation->rank, 0);
  EXPECT_EQ(outcome.violation->step, 0);
}

// ---- barrier -------------------------------------------------------------------------------------------------------

TEST(Check, barrier_must_hear_of_everybody) {
  const auto ring = [](int rounds) {
    return make(3, {.chunks = 1, .scratch_chunks = 0}, [rounds](ScheduleBuilder& steps, int rank) {
      for (int round = 0; round < rounds; ++round)
        steps.send((rank + 1) % 3, input(0), output(0)).recv((rank + 2) % 3, input(0), output(0));
    });
  };
  const CheckOutcome good = check_schedules(ring(2), {.what = TUTTI_BARRIER});
  EXPECT_TRUE(good.ok()) << good.violation->to_string("");
  const CheckOutcome bad = check_schedules(ring(1), {.what = TUTTI_BARRIER});
  expect_violation(bad, Rule::barrier, 0, 0, 1);
  EXPECT_NE(bad.violation->text.find("rank 1 has entered"), std::string::npos) << bad.violation->text;
}

// ---- inputs that are not even schedules ----------------------------------------------------------------------------

TEST(Check, refuses_sets_of_schedules_that_do_not_fit_together) {
  EXPECT_FALSE(check_schedules({}, {}).ok());
  auto schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[1].rank = 0;
  EXPECT_FALSE(check_schedules(schedules, {}).ok());
  schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  schedules[1].chunks = 2;
  EXPECT_FALSE(check_schedules(schedules, {}).ok());
  schedules = make(2, {.chunks = 1, .scratch_chunks = 1}, write_pair);
  EXPECT_FALSE(check_schedules({schedules.data(), 1}, {}).ok());
}

}  // namespace
}  // namespace tutti::core
