// SPDX-License-Identifier: Apache-2.0
#include "algorithms/block_flow.h"

#include <algorithm>

namespace tutti::core {

void LaneOrder::enter(std::uint8_t lane) {
  steps_.on_lane(lane);
  for (std::uint8_t other = 0; other < kFlowLanes; ++other) {
    if (other == lane || before_[other] <= awaited_[lane][other]) continue;
    awaited_[lane][other] = before_[other];
    steps_.wait(other, before_[other] - 1);
  }
}

SumSlots::SumSlots(const Flow& flow, std::size_t members, std::size_t member, bool primed)
    : places_(members), primed_(primed ? 1 : 0) {
  for (std::size_t round = 0; round < flow.size(); ++round)
    for (const Transfer& send : flow[round].sends) places_[send.block].rounds |= std::uint64_t{1} << round;
  for (std::size_t block = 0; block < members; ++block) {
    Place& place = places_[block];
    std::uint32_t additions = static_cast<std::uint32_t>(std::popcount(place.rounds)) + primed_;
    if (block == member && additions > 0) --additions;  // the last one's result is the output
    place.first = end_;
    place.count = std::min(additions, 2u);
    end_ += place.count;
  }
}

Slot SumSlots::after(std::uint32_t additions, std::uint32_t block) const {
  const Place& place = places_[block];
  return additions == 0 ? input(block) : scratch(place.first + (additions - 1) % place.count);
}

Slot SumSlots::before(std::size_t round, std::uint32_t block) const {
  return after(static_cast<std::uint32_t>(std::popcount(places_[block].rounds >> (round + 1))) + primed_, block);
}

FlowSchedule::FlowSchedule(ScheduleBuilder& steps, FlowOf flow_of, const Fold& members, int rank)
    : steps_(steps),
      flow_of_(flow_of),
      members_(members),
      member_(members.core_number(rank)),
      own_(static_cast<std::uint32_t>(member_)),
      flow_(flow_of(member_, members.core)),
      order_(steps),
      additions_(static_cast<std::size_t>(members.core), 0) {}

SumSlots FlowSchedule::slots_of(FlowOf flow_of, const Fold& members, int member) {
  return {flow_of(member, members.core), static_cast<std::size_t>(members.core), static_cast<std::size_t>(member),
          members.is_host(members.rank_of(member))};
}

const SumSlots& FlowSchedule::slots_of_peer(int peer) {
  const auto known = slots_.find(peer);
  if (known != slots_.end()) return known->second;
  return slots_.emplace(peer, slots_of(flow_of_, members_, peer)).first->second;
}

void FlowSchedule::take_in_guest(int guest) {
  const auto blocks = static_cast<std::uint32_t>(members_.core);
  const SumSlots& slots = slots_of_peer(member_);
  order_.enter(0);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const Slot sum = slots.after(1, block);
    steps_.recv(guest, input(block), SumSlots::arrival(0));
    steps_.copy(input(block), sum).reduce(SumSlots::arrival(0), sum);
    additions_[block] = 1;
  }
  order_.mark_received(0);
}

void FlowSchedule::add_partial(const Transfer& transfer, std::size_t round, bool completes) {
  const std::uint32_t block = transfer.block;
  const SumSlots& slots = slots_of_peer(member_);
  const Slot sum = completes ? output(block) : slots.after(additions_[block] + 1, block);
  const Slot arrival = SumSlots::arrival(transfer.lane);
  order_.enter(transfer.lane);
  steps_.recv(members_.rank_of(transfer.peer), slots_of_peer(transfer.peer).before(round, block), arrival);
  steps_.copy(slots.after(additions_[block], block), sum).reduce(arrival, sum);
  ++additions_[block];
}

void FlowSchedule::reduce_scatter() {
  // Backwards, the own block is complete when the message of its first send has come back.
  std::size_t missing = 0;
  for (const FlowRound& round : flow_)
    for (const Transfer& send : round.sends) missing += send.block == own_ ? 1 : 0;
  if (missing == 0) steps_.copy(input(own_), output(own_));
  const SumSlots& slots = slots_of_peer(member_);

  for (std::size_t r = flow_.size(); r-- > 0;) {
    order_.begin_round();
    for (const Transfer& transfer : flow_[r].receives) {
      order_.enter(transfer.lane);
      steps_.send(members_.rank_of(transfer.peer), slots.after(additions_[transfer.block], transfer.block),
                  SumSlots::arrival(transfer.lane));
    }
    std::array<bool, kFlowLanes> receives{};
    for (const Transfer& transfer : flow_[r].sends) {
      const bool completes = transfer.block == own_ && --missing == 0;
      add_partial(transfer, r, completes);
      receives[transfer.lane] = true;
    }
    mark_received(receives);
  }
}

void FlowSchedule::copy_own_input(const FlowRound& first_round) {
  // In place the copy writes what is sent: after the sends of this round, and before those of later ones.
  const std::uint8_t lane = first_round.sends.empty() ? 0 : first_round.sends.back().lane;
  std::array<bool, kFlowLanes> sends{};
  for (const Transfer& send : first_round.sends) sends[send.lane] = true;
  for (std::uint8_t other = 0; other < kFlowLanes; ++other) {
    if (!sends[other] || other == lane) continue;
    const std::uint32_t sent = steps_.on_lane(other).here();
    steps_.on_lane(lane).wait(other, sent - 1);
  }
  steps_.on_lane(lane).copy(input(own_), output(own_));
  order_.mark_received(lane);
}

void FlowSchedule::all_gather(Space own) {
  if (flow_.empty() && own == Space::input) copy_own_input({});
  for (std::size_t r = 0; r < flow_.size(); ++r) {
    order_.begin_round();
    for (const Transfer& send : flow_[r].sends) {
      order_.enter(send.lane);
      steps_.send(members_.rank_of(send.peer), Slot::of(send.block == own_ ? own : Space::output, send.block),
                  output(send.block));
    }
    if (r == 0 && own == Space::input) copy_own_input(flow_[r]);
    std::array<bool, kFlowLanes> receives{};
    for (const Transfer& receive : flow_[r].receives) {
      const bool owner_sends = receive.block == static_cast<std::uint32_t>(receive.peer);
      order_.enter(receive.lane);
      steps_.recv(members_.rank_of(receive.peer), Slot::of(owner_sends ? own : Space::output, receive.block),
                  output(receive.block));
      receives[receive.lane] = true;
    }
    mark_received(receives);
  }
}

void FlowSchedule::mark_received(const std::array<bool, kFlowLanes>& lanes) {
  for (std::uint8_t lane = 0; lane < kFlowLanes; ++lane)
    if (lanes[lane]) order_.mark_received(lane);
}

void FlowSchedule::see_off_guest(int guest) {
  order_.begin_round();
  order_.enter(0);
  for (std::uint32_t block = 0; block < static_cast<std::uint32_t>(members_.core); ++block)
    steps_.send(guest, output(block), output(block));
}

Result<Schedule> build_flow_all_gather(const BuildRequest& request, FlowOf flow_of) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  ScheduleBuilder steps(request, {.chunks = static_cast<std::uint32_t>(ranks), .scratch_chunks = 0});
  FlowSchedule(steps, flow_of, Fold::none(ranks), rank).all_gather(Space::input);
  return steps.finish();
}

Result<Schedule> build_flow_reduce_scatter(const BuildRequest& request, FlowOf flow_of) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const Fold all = Fold::none(ranks);
  ScheduleBuilder steps(request, {.chunks = static_cast<std::uint32_t>(ranks),
                                  .scratch_chunks = FlowSchedule::scratch_chunks(flow_of, all, rank)});
  FlowSchedule(steps, flow_of, all, rank).reduce_scatter();
  return steps.finish();
}

Result<Schedule> build_flow_all_reduce(const BuildRequest& request, FlowOf flow_of) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const Fold all = Fold::none(ranks);
  ScheduleBuilder steps(request, {.chunks = static_cast<std::uint32_t>(ranks),
                                  .scratch_chunks = FlowSchedule::scratch_chunks(flow_of, all, rank)});
  FlowSchedule schedule(steps, flow_of, all, rank);
  schedule.reduce_scatter();
  schedule.all_gather(Space::output);
  return steps.finish();
}

RowCost cost_flow_all_gather(int ranks, double rounds) {
  const double messages = ranks - 1.0;
  return {.rounds = rounds, .sent = messages / ranks, .reduced = 0, .messages = messages};
}

RowCost cost_flow_reduce_scatter(int ranks, double rounds) {
  const double messages = ranks - 1.0;
  return {.rounds = rounds, .sent = messages / ranks, .reduced = messages / ranks, .messages = messages};
}

RowCost cost_flow_all_reduce(int ranks, double rounds) {
  const double messages = ranks - 1.0;
  return {.rounds = 2 * rounds, .sent = 2 * messages / ranks, .reduced = messages / ranks, .messages = 2 * messages};
}

double ceil_log2(int ranks) { return static_cast<double>(std::bit_width(static_cast<unsigned>(ranks - 1))); }

}  // namespace tutti::core
