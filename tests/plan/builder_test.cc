// SPDX-License-Identifier: Apache-2.0
#include "src/plan/builder.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

Placement placement_of(int rank, int ranks) { return {.rank = rank, .ranks = ranks, .levels = {}}; }

TEST(Builder, records_steps_in_order_with_their_lines) {
  const Placement placement = placement_of(1, 3);
  ScheduleBuilder steps({.placement = &placement}, {.chunks = 2, .scratch_chunks = 1});
  const int line = __LINE__ + 1;
  steps.send(2, input(0), scratch(0));
  steps.recv(0, input(0), scratch(0)).copy(input(1), output(1));
  auto result = steps.reduce(scratch(0), output(1)).finish();
  ASSERT_TRUE(result.is_ok()) << result.status().to_string();
  const Schedule& schedule = *result;
  EXPECT_EQ(schedule.rank, 1);
  EXPECT_EQ(schedule.ranks, 3);
  ASSERT_EQ(schedule.steps.size(), 4u);
  EXPECT_EQ(schedule.steps[0].op, StepOp::send);
  EXPECT_EQ(schedule.steps[0].peer, 2);
  EXPECT_EQ(schedule.steps[0].site, line);
  EXPECT_EQ(schedule.steps[1].site, line + 1);
  EXPECT_EQ(schedule.steps[2].peer, -1);
  EXPECT_EQ(schedule.steps[3].op, StepOp::reduce);
  EXPECT_TRUE(schedule.steps[3].dst == output(1));
}

TEST(Builder, counts_steps_by_lane_for_waits) {
  const Placement placement = placement_of(0, 1);
  ScheduleBuilder steps({.placement = &placement}, {.chunks = 1, .scratch_chunks = 1});
  steps.copy(input(0), scratch(0));
  EXPECT_EQ(steps.here(), 1u);
  EXPECT_EQ(steps.on_lane(3).here(), 0u);
  steps.wait(0, 0).copy(scratch(0), output(0));
  EXPECT_EQ(steps.here(), 2u);
  auto result = steps.finish();
  ASSERT_TRUE(result.is_ok());
  EXPECT_EQ(result->steps[1].op, StepOp::wait);
  EXPECT_EQ(result->steps[1].lane, 3);
}

/// finish() refuses a single bad step and says what is wrong with it.
template <class Write>
void expect_refused(Write write, const std::string& reason) {
  const Placement placement = placement_of(0, 2);
  ScheduleBuilder steps({.placement = &placement}, {.chunks = 2, .scratch_chunks = 1});
  write(steps);
  auto result = steps.finish();
  ASSERT_FALSE(result.is_ok()) << "expected: " << reason;
  EXPECT_EQ(result.status().failing_rank(), 0);
  EXPECT_NE(result.status().message().find(reason), std::string::npos) << result.status().message();
}

TEST(Builder, refuses_impossible_steps) {
  expect_refused([](ScheduleBuilder& steps) { steps.copy(input(0), scratch(1)); }, "scratch 1");
  expect_refused([](ScheduleBuilder& steps) { steps.copy(input(2), output(0)); }, "outside the 2 chunks");
  expect_refused([](ScheduleBuilder& steps) { steps.copy(output(0), input(0)); }, "belongs to the user");
  expect_refused([](ScheduleBuilder& steps) { steps.send(0, input(0), output(0)); }, "to itself");
  expect_refused([](ScheduleBuilder& steps) { steps.send(2, input(0), output(0)); }, "peers are 0..1");
  expect_refused([](ScheduleBuilder& steps) { steps.recv(-1, input(0), output(0)); }, "peers are 0..1");
  expect_refused([](ScheduleBuilder& steps) { steps.recv(1, input(0), input(0)); }, "belongs to the user");
  expect_refused([](ScheduleBuilder& steps) { steps.reduce(output(0), output(0)); }, "into itself");
  expect_refused([](ScheduleBuilder& steps) { steps.wait(0, 0); }, "wait for itself");
  expect_refused([](ScheduleBuilder& steps) { steps.wait(1, 0); }, "no steps");
  expect_refused([](ScheduleBuilder& steps) { steps.wait(1, 1).on_lane(1).copy(input(0), output(0)); },
                 "only steps 0..0");
}

}  // namespace
}  // namespace tutti::core
