// SPDX-License-Identifier: Apache-2.0
#include "src/plan/builder.h"

#include <algorithm>
#include <limits>

#include "src/plan/validate.h"

namespace tutti::core {

ScheduleBuilder::ScheduleBuilder(const BuildRequest& request, Shape shape) {
  schedule_.rank = request.placement->rank;
  schedule_.ranks = request.placement->ranks;
  schedule_.chunks = shape.chunks;
  schedule_.scratch_chunks = shape.scratch_chunks;
  schedule_.scratch_holds = shape.scratch_holds;
}

ScheduleBuilder& ScheduleBuilder::add(Step step, int line) {
  constexpr int kLastLine = std::numeric_limits<std::uint16_t>::max();
  step.lane = lane_;
  step.site = static_cast<std::uint16_t>(std::clamp(line, 0, kLastLine));
  schedule_.steps.push_back(step);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::on_lane(std::uint8_t lane) {
  lane_ = lane;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::send(int peer, Slot src, Slot dst, int line) {
  return add({.op = StepOp::send, .lane = 0, .site = 0, .peer = peer, .src = src, .dst = dst}, line);
}

ScheduleBuilder& ScheduleBuilder::recv(int peer, Slot src, Slot dst, int line) {
  return add({.op = StepOp::recv, .lane = 0, .site = 0, .peer = peer, .src = src, .dst = dst}, line);
}

ScheduleBuilder& ScheduleBuilder::copy(Slot src, Slot dst, int line) {
  return add({.op = StepOp::copy, .lane = 0, .site = 0, .peer = -1, .src = src, .dst = dst}, line);
}

ScheduleBuilder& ScheduleBuilder::reduce(Slot src, Slot dst, int line) {
  return add({.op = StepOp::reduce, .lane = 0, .site = 0, .peer = -1, .src = src, .dst = dst}, line);
}

ScheduleBuilder& ScheduleBuilder::wait(std::uint8_t lane, std::uint32_t step, int line) {
  const Slot which_lane = Slot::of(Space::input, lane);
  const Slot which_step = Slot::of(Space::input, step);
  return add({.op = StepOp::wait, .lane = 0, .site = 0, .peer = -1, .src = which_lane, .dst = which_step}, line);
}

std::uint32_t ScheduleBuilder::here() const {
  const auto on_this_lane = [this](const Step& step) { return step.lane == lane_; };
  return static_cast<std::uint32_t>(std::count_if(schedule_.steps.begin(), schedule_.steps.end(), on_this_lane));
}

Result<Schedule> ScheduleBuilder::finish() {
  if (auto violation = find_malformed(schedule_)) return to_status(*violation, "");
  return std::move(schedule_);
}

}  // namespace tutti::core
