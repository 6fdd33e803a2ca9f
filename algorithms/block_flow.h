// SPDX-License-Identifier: Apache-2.0
// Block flows: what the algorithms with logarithmically many rounds share. A flow says how every block gets from its
// owner to all others, round by round: that is an all-gather. Run backwards, with every message turned round, the same
// flow collects partial sums of every block at its owner: that is a reduce-scatter, and one after the other are an
// all-reduce. So such an algorithm is its flow, and the steps are written here. Member 0 of four, recursive doubling:
//
//   flow             all_gather ───►                      reduce_scatter ◄───
//   round 0   send 0 to 1, receive 1 from 1        send sum of 1 to 1, add 1's sum of 0     (second and last)
//   round 1   send 0 1 to 2, receive 2 3 from 2    send 2 3 to 2, add 2's pieces 0 1        (first)
//
// A round sends up to half of all blocks to one peer, one message each. If everybody sent them all before receiving, an
// edge would have to hold all of these messages; if everybody sent and received in turn, every message would wait for
// the one before. So a round uses two lanes, one that sends and one that receives, and the messages of a round stream
// both ways at once, whatever an edge holds. The sending lane of a member must be the receiving lane of its peer:
// flows give every message a lane such that no member sends and receives on one lane in one round.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/fold.h"
#include "src/plan/builder.h"

namespace tutti::core {

/// One message of an all-gather as one of its ends sees it. Members and blocks have the same numbers: block b starts at
/// member b. Both ends list the messages of an edge and lane in the same order.
struct Transfer {
  int peer;
  std::uint32_t block;
  std::uint8_t lane;
};
struct FlowRound {
  std::vector<Transfer> sends, receives;
};
/// One member's view. Every member receives every block but its own exactly once, and sends what it had before.
using Flow = std::vector<FlowRound>;
/// The flow of `member` among `members`. All members have the same number of rounds, some of them empty.
using FlowOf = Flow (*)(int member, int members);

/// Lanes that a flow may use.
constexpr int kFlowLanes = 9;

/// Writes the waits between lanes: whatever a round received is there before the next round starts.
class LaneOrder {
 public:
  explicit LaneOrder(ScheduleBuilder& steps) : steps_(steps) {}

  void begin_round() { before_ = received_; }
  /// Following steps go to `lane`, after everything that earlier rounds received.
  void enter(std::uint8_t lane);
  /// The last step of `lane` is one that later rounds need.
  void mark_received(std::uint8_t lane) {
    steps_.on_lane(lane);
    received_[lane] = steps_.here();
  }

 private:
  using Counts = std::array<std::uint32_t, kFlowLanes>;  // steps of each lane

  ScheduleBuilder& steps_;
  Counts received_{}, before_{};
  std::array<Counts, kFlowLanes> awaited_{};
};

/// Writes the steps of one member.
class FlowSchedule {
 public:
  FlowSchedule(ScheduleBuilder& steps, FlowOf flow_of, const Fold& members, int rank);

  /// Scratch chunks that reduce_scatter needs over `members`: two for the sum of each block, and a message per lane.
  static std::uint32_t scratch_chunks(int members) { return static_cast<std::uint32_t>(2 * members + kFlowLanes); }
  /// Where a message of `lane` is received.
  static Slot arrival(int members, std::uint8_t lane) {
    return scratch(2 * static_cast<std::uint32_t>(members) + lane);
  }

  /// Hosts only, before anything else: adds the whole input of their guest to the own.
  void take_in_guest(int guest);
  /// Ends with the sum of the own block in its output.
  void reduce_scatter();
  /// `own`: where all members' own blocks are, the input or (after reduce_scatter) the output.
  void all_gather(Space own);
  /// Hosts only, after everything else: gives the guest all of the output.
  void see_off_guest(int guest);

 private:
  Slot arrival(std::uint8_t lane) const { return arrival(members_.core, lane); }
  /// Where a sum of `block` is after `additions`. Two slots take turns: reduces into the same slot would be one
  /// reduction, with one rounding of 16-bit floats where the expression tree has two nodes.
  static Slot sum_after(std::uint32_t additions, std::uint32_t block) {
    return additions == 0 ? input(block) : scratch(2 * block + additions % 2);
  }
  Slot partial(std::uint32_t block) const { return sum_after(additions_[block], block); }
  /// The same of `peer`, which has run the rounds above `round` backwards.
  Slot partial_of_peer(int peer, std::uint32_t block, std::size_t round);
  void add_partial(const Transfer& transfer, std::size_t round, bool completes);
  void copy_own_input(const FlowRound& first_round);
  void mark_received(const std::array<bool, kFlowLanes>& lanes);

  ScheduleBuilder& steps_;
  const FlowOf flow_of_;
  const Fold members_;
  const int member_;
  const std::uint32_t own_;
  const Flow flow_;
  LaneOrder order_;
  std::vector<std::uint32_t> additions_;  // by block: messages that the own piece has been added to
  /// By peer and block: bit r says that the peer sends the block in round r of the flow.
  std::map<int, std::vector<std::uint64_t>> sends_of_peer_;
};

/// The three collectives of a flow in which all ranks take part.
Result<Schedule> build_flow_all_gather(const BuildRequest& request, FlowOf flow_of);
Result<Schedule> build_flow_reduce_scatter(const BuildRequest& request, FlowOf flow_of);
Result<Schedule> build_flow_all_reduce(const BuildRequest& request, FlowOf flow_of);

/// Their costs where every member sends p - 1 blocks in `rounds` rounds.
RowCost cost_flow_all_gather(int ranks, double rounds);
RowCost cost_flow_reduce_scatter(int ranks, double rounds);
RowCost cost_flow_all_reduce(int ranks, double rounds);

/// ceil(log2 ranks)
double ceil_log2(int ranks);

}  // namespace tutti::core
