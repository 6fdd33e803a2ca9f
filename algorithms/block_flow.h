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

/// Lanes that a flow may use, and those that one may use that is run backwards as well.
constexpr int kFlowLanes = 9;
constexpr int kReducingLanes = 3;

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

/// Where a member has its partial sums while it runs a flow backwards. Both ends of a message must know.
class SumSlots {
 public:
  /// Of `member`, with that flow. `primed`: it has added something of a guest's to every block before.
  SumSlots(const Flow& flow, std::size_t members, std::size_t member, bool primed);

  /// After `additions` to the own piece. Two slots take turns: reduces into the same slot would be one reduction, with
  /// one rounding of 16-bit floats where the expression tree has two nodes.
  Slot after(std::uint32_t additions, std::uint32_t block) const;
  /// When the rounds above `round` have been run.
  Slot before(std::size_t round, std::uint32_t block) const;
  /// Scratch chunks of the member: sums, and a message per lane.
  std::uint32_t scratch_chunks() const { return end_; }
  /// Where a message of `lane` is received.
  static Slot arrival(std::uint8_t lane) { return scratch(lane); }

 private:
  struct Place {
    std::uint64_t rounds = 0;  ///< bit r: an addition of round r
    std::uint32_t first = 0;   ///< scratch chunk
    std::uint32_t count = 0;   ///< of scratch chunks
  };
  std::vector<Place> places_;  // by block
  std::uint32_t primed_;
  std::uint32_t end_ = kReducingLanes;
};

/// Writes the steps of one member.
class FlowSchedule {
 public:
  FlowSchedule(ScheduleBuilder& steps, FlowOf flow_of, const Fold& members, int rank);

  /// Scratch chunks that reduce_scatter of `rank` needs.
  static std::uint32_t scratch_chunks(FlowOf flow_of, const Fold& members, int rank) {
    return slots_of(flow_of, members, members.core_number(rank)).scratch_chunks();
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
  static SumSlots slots_of(FlowOf flow_of, const Fold& members, int member);
  const SumSlots& slots_of_peer(int peer);
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
  std::map<int, SumSlots> slots_;         // by member, this one included
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
