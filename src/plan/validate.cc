// SPDX-License-Identifier: Apache-2.0
#include "src/plan/validate.h"

#include <algorithm>
#include <array>

namespace tutti::core {

namespace {

constexpr std::size_t kLanes = 256;

/// Complains about one step; `step_in_lane` and the site come from the caller's position.
class StepValidator {
 public:
  StepValidator(const Schedule& schedule, const Contract* contract) : schedule_(schedule), contract_(contract) {
    for (const Step& step : schedule.steps) ++lane_length_[step.lane];
  }

  std::optional<Violation> find() {
    std::array<std::uint32_t, kLanes> position{};
    for (const Step& step : schedule_.steps) {
      step_ = &step;
      step_in_lane_ = position[step.lane]++;
      if (auto violation = find_in_step()) return violation;
    }
    return std::nullopt;
  }

 private:
  Violation complain(Rule rule, const std::string& text) const {
    return {rule,        schedule_.rank,
            step_->lane, static_cast<int>(step_in_lane_),
            step_->site, describe(*step_) + ": " + text};
  }

  std::optional<Violation> find_in_step() const {
    const Step& step = *step_;
    switch (step.op) {
      case StepOp::send:
      case StepOp::recv: return find_in_message();
      case StepOp::copy:
        if (auto violation = find_in_slot(step.src, schedule_.rank, false)) return violation;
        return find_in_slot(step.dst, schedule_.rank, true);
      case StepOp::reduce:
        if (auto violation = find_in_slot(step.src, schedule_.rank, false)) return violation;
        if (step.src == step.dst) return complain(Rule::malformed, "a slot cannot be reduced into itself");
        return find_in_slot(step.dst, schedule_.rank, true);
      case StepOp::wait: return find_in_wait();
    }
    return complain(Rule::malformed, "there are only send, recv, copy, reduce and wait");
  }

  std::optional<Violation> find_in_message() const {
    const Step& step = *step_;
    if (step.peer < 0 || step.peer >= schedule_.ranks)
      return complain(Rule::malformed, "peers are 0.." + std::to_string(schedule_.ranks - 1));
    if (step.peer == schedule_.rank) return complain(Rule::malformed, "a rank sends no messages to itself; use copy");
    const bool is_send = step.op == StepOp::send;
    const int sender = is_send ? schedule_.rank : step.peer;
    const int receiver = is_send ? step.peer : schedule_.rank;
    if (auto violation = find_in_slot(step.src, sender, false)) return violation;
    return find_in_slot(step.dst, receiver, true);
  }

  std::optional<Violation> find_in_wait() const {
    const std::uint32_t lane = step_->src.chunk;
    if (lane >= kLanes || lane_length_[lane] == 0) return complain(Rule::malformed, "that lane has no steps");
    if (lane == step_->lane) return complain(Rule::malformed, "a lane cannot wait for itself");
    if (step_->dst.chunk >= lane_length_[lane])
      return complain(Rule::malformed, "that lane has only steps 0.." + std::to_string(lane_length_[lane] - 1));
    return std::nullopt;
  }

  std::optional<Violation> find_in_slot(Slot slot, int owner, bool written) const {
    const bool foreign = owner != schedule_.rank;
    if (slot.space > static_cast<std::uint32_t>(Space::scratch))
      return complain(Rule::slot_range, "there is no space " + std::to_string(slot.space));
    if (slot.where() == Space::scratch) {
      // A peer's scratch is bounded by its own schedule; the checker compares both ends of a message.
      if (!foreign && slot.chunk >= schedule_.scratch_chunks)
        return complain(Rule::slot_range, describe(slot) + " is outside the " +
                                              std::to_string(schedule_.scratch_chunks) + " scratch chunks");
      return std::nullopt;
    }
    if (slot.chunk >= schedule_.chunks)
      return complain(Rule::slot_range, describe(slot) + " of rank " + std::to_string(owner) + " is outside the " +
                                            std::to_string(schedule_.chunks) + " chunks");
    if (written && slot.where() == Space::input) return complain(Rule::input_written, "the input belongs to the user");
    if (contract_ == nullptr) return std::nullopt;
    const bool given = slot.where() == Space::input ? contract_->has_input(owner, slot.chunk)
                                                    : contract_->has_output(owner, slot.chunk);
    if (!given)
      return complain(Rule::slot_range, std::string(collective_name(contract_->what())) + " gives rank " +
                                            std::to_string(owner) + " no " + describe(slot));
    return std::nullopt;
  }

  const Schedule& schedule_;
  const Contract* contract_;
  std::array<std::uint32_t, kLanes> lane_length_{};
  const Step* step_ = nullptr;
  std::uint32_t step_in_lane_ = 0;
};

std::optional<Violation> find_malformed_header(const Schedule& schedule) {
  if (schedule.ranks < 1 || schedule.rank < 0 || schedule.rank >= schedule.ranks)
    return Violation{Rule::malformed,
                     schedule.rank,
                     -1,
                     -1,
                     0,
                     "rank must be 0..ranks-1; ranks is " + std::to_string(schedule.ranks)};
  if (schedule.chunks < 1)
    return Violation{Rule::malformed, schedule.rank, -1, -1, 0, "a schedule has at least 1 chunk"};
  if (schedule.scratch_holds != kFollowsData && schedule.scratch_holds >= schedule.chunks)
    return Violation{Rule::malformed,
                     schedule.rank,
                     -1,
                     -1,
                     0,
                     "scratch 0 cannot hold chunk " + std::to_string(schedule.scratch_holds) + " of " +
                         std::to_string(schedule.chunks)};
  return std::nullopt;
}

}  // namespace

int lane_count(const Schedule& schedule) {
  int lanes = 1;
  for (const Step& step : schedule.steps) lanes = std::max(lanes, step.lane + 1);
  return lanes;
}

std::optional<Violation> find_malformed(const Schedule& schedule) {
  if (auto violation = find_malformed_header(schedule)) return violation;
  return StepValidator(schedule, nullptr).find();
}

std::optional<Violation> find_malformed(const Schedule& schedule, const Contract& contract) {
  if (auto violation = find_malformed_header(schedule)) return violation;
  return StepValidator(schedule, &contract).find();
}

}  // namespace tutti::core
