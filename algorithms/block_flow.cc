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

FlowSchedule::FlowSchedule(ScheduleBuilder& steps, FlowOf flow_of, const Fold& members, int rank)
    : steps_(steps),
      flow_of_(flow_of),
      members_(members),
      member_(members.core_number(rank)),
      own_(static_cast<std::uint32_t>(member_)),
      flow_(flow_of(member_, members.core)),
      order_(steps),
      has_sum_(static_cast<std::size_t>(members.core), false) {}

void FlowSchedule::take_in_guest(int guest) {
  const auto blocks = static_cast<std::uint32_t>(members_.core);
  order_.enter(0);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    steps_.recv(guest, input(block), staging(0));
    steps_.copy(input(block), scratch(block)).reduce(staging(0), scratch(block));
    has_sum_[block] = true;
  }
  order_.mark_received(0);
}

Slot FlowSchedule::partial_of_peer(int peer, std::uint32_t block, int round) {
  if (members_.is_host(members_.rank_of(peer))) return scratch(block);
  auto [entry, is_new] = last_round_of_peer_.try_emplace(peer);
  std::vector<int>& last_round = entry->second;
  if (is_new) {
    last_round.assign(static_cast<std::size_t>(members_.core), -1);
    const Flow flow = flow_of_(peer, members_.core);
    for (std::size_t r = 0; r < flow.size(); ++r)
      for (const Transfer& send : flow[r].sends) last_round[send.block] = static_cast<int>(r);
  }
  return last_round[block] > round ? scratch(block) : input(block);
}

void FlowSchedule::add_partial(const Transfer& transfer, int round, bool completes) {
  const std::uint32_t block = transfer.block;
  const Slot sum = completes ? output(block) : scratch(block);
  order_.enter(transfer.lane);
  steps_.recv(members_.rank_of(transfer.peer), partial_of_peer(transfer.peer, block, round), staging(transfer.lane));
  if (!(partial(block) == sum)) steps_.copy(partial(block), sum);
  steps_.reduce(staging(transfer.lane), sum);
  has_sum_[block] = true;
}

void FlowSchedule::reduce_scatter() {
  // Backwards, the own block is complete when the message of its first send has come back.
  std::size_t missing = 0;
  for (const FlowRound& round : flow_)
    for (const Transfer& send : round.sends) missing += send.block == own_ ? 1 : 0;
  if (missing == 0) steps_.copy(input(own_), output(own_));

  for (std::size_t r = flow_.size(); r-- > 0;) {
    order_.begin_round();
    for (const Transfer& transfer : flow_[r].receives) {
      order_.enter(transfer.lane);
      steps_.send(members_.rank_of(transfer.peer), partial(transfer.block), staging(transfer.lane));
    }
    std::array<bool, kFlowLanes> receives{};
    for (const Transfer& transfer : flow_[r].sends) {
      const bool completes = transfer.block == own_ && --missing == 0;
      add_partial(transfer, static_cast<int>(r), completes);
      receives[transfer.lane] = true;
    }
    for (std::uint8_t lane = 0; lane < kFlowLanes; ++lane)
      if (receives[lane]) order_.mark_received(lane);
  }
}

void FlowSchedule::all_gather(Space own) {
  const Slot source = Slot::of(own, own_);
  bool copied = own == Space::output;
  // In place the copy writes what later rounds send, on other lanes perhaps: they come after it.
  const auto copy_own = [&](std::uint8_t lane) {
    if (copied) return;
    steps_.on_lane(lane).copy(source, output(own_));
    order_.mark_received(lane);
    copied = true;
  };
  for (const FlowRound& round : flow_) {
    order_.begin_round();
    for (const Transfer& send : round.sends) {
      order_.enter(send.lane);
      steps_.send(members_.rank_of(send.peer), send.block == own_ ? source : output(send.block), output(send.block));
    }
    copy_own(round.sends.empty() ? 0 : round.sends.back().lane);
    std::array<bool, kFlowLanes> receives{};
    for (const Transfer& receive : round.receives) {
      const bool owner_sends = receive.block == static_cast<std::uint32_t>(receive.peer);
      order_.enter(receive.lane);
      steps_.recv(members_.rank_of(receive.peer), Slot::of(owner_sends ? own : Space::output, receive.block),
                  output(receive.block));
      receives[receive.lane] = true;
    }
    for (std::uint8_t lane = 0; lane < kFlowLanes; ++lane)
      if (receives[lane]) order_.mark_received(lane);
  }
  copy_own(0);
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
  ScheduleBuilder steps(
      request, {.chunks = static_cast<std::uint32_t>(ranks), .scratch_chunks = FlowSchedule::scratch_chunks(ranks)});
  FlowSchedule(steps, flow_of, Fold::none(ranks), rank).reduce_scatter();
  return steps.finish();
}

Result<Schedule> build_flow_all_reduce(const BuildRequest& request, FlowOf flow_of) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  ScheduleBuilder steps(
      request, {.chunks = static_cast<std::uint32_t>(ranks), .scratch_chunks = FlowSchedule::scratch_chunks(ranks)});
  FlowSchedule schedule(steps, flow_of, Fold::none(ranks), rank);
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
