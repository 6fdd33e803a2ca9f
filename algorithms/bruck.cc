// SPDX-License-Identifier: Apache-2.0
// Bruck's algorithms, for any number of ranks: all_gather, with one port and with three, and all_to_all.
//
// all_gather: ceil(log2 p) rounds. After round k a rank has the 2^(k+1) blocks that
// begin with its own; it sends all that it has to the rank 2^k to the left, and in the last round as many as are still
// missing there. Five ranks, rank 0:
//
//   has 0          receives 1    from rank 1, sends 0       to rank 4
//   has 0 1        receives 2 3  from rank 2, sends 0 1     to rank 3
//   has 0 1 2 3    receives 4    from rank 4, sends 0       to rank 1
//
// The original keeps the blocks in a buffer that begins with the own one and rotates it at the end; a schedule names
// blocks, so each is received where it belongs.
//
// bruck_k does so to base 4: in the round of distance d = 1, 4, 16, ... a rank sends to the ranks d, 2d and 3d to the
// left at once. ceil(log4 p) rounds, where a rank can feed three links at a time.
//
// all_to_all: ceil(log2 p) rounds. The block that must travel i ranks to the right
// makes the hops of i's binary digits: in round k every rank passes the blocks whose i has digit k to the rank 2^k to
// its right. So a block is sent as often as its i has ones, about (log2 p)/2 times, and rounds are few: for small
// blocks where a round costs more than the bytes. Four ranks, what leaves rank 0; "ab" is a's block for b:
//
//   i = 1 (to rank 1)   round 0: 01 ──► 1, which is its place
//   i = 2 (to rank 2)                                     round 1: 02 ──► 2, which is its place
//   i = 3 (to rank 3)   round 0: 03 ──► 1, into scratch   round 1: 1 sends it on ──► 3
//
// The paper's rotations, of the input before the first round and of the result after the last, cost nothing here: a
// block's first hop starts at its place in the input, its last hop ends at its place in the output, and between them it
// waits in scratch i.
//
// A block is a message of its own. A rank sends the blocks of a round in batches of four and receives as many after
// each batch, since more would not fit unconsumed into an edge. With m_k the number of i below p that have digit k (p/2
// if p is a power of two), round k costs ceil(m_k / 4) steps on the longest chain: one up to 8 ranks.
// Source: Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 8(11), 1997: concatenation (for 1 and for 3 ports) and index.
#include <algorithm>
#include <vector>

#include "algorithms/circular.h"

namespace tutti::core {

namespace {

/// Every round multiplies the blocks that a rank has by `radix`.
Flow concatenation(int member, int members, int radix) {
  std::vector<ShiftRound> rounds;
  for (int have = 1; have < members; have *= radix) {
    ShiftRound shifts;
    for (int port = 1; port < radix && port * have < members; ++port)
      shifts.push_back({port * have, offsets_below(std::min(have, members - port * have))});
    rounds.push_back(std::move(shifts));
  }
  return circular_flow(member, members, rounds);
}

constexpr int kRadix = kMostPorts + 1;  // of bruck_k

Flow binary(int member, int members) { return concatenation(member, members, 2); }
Flow k_ary(int member, int members) { return concatenation(member, members, kRadix); }

}  // namespace

Result<Schedule> build_bruck_all_gather(const BuildRequest& request) { return build_flow_all_gather(request, binary); }
RowCost cost_bruck_all_gather(int ranks) { return cost_flow_all_gather(ranks, ceil_log2(ranks)); }

Result<Schedule> build_bruck_k_all_gather(const BuildRequest& request) { return build_flow_all_gather(request, k_ary); }
RowCost cost_bruck_k_all_gather(int ranks) {
  int rounds = 0;
  for (int have = 1; have < ranks; have *= kRadix) ++rounds;
  return cost_flow_all_gather(ranks, rounds);
}

namespace {

constexpr std::size_t kBatch = 4;

/// The distances 1..ranks-1 that make a hop of `hop` = 2^k ranks.
std::vector<int> distances_with(int hop, int ranks) {
  std::vector<int> distances;
  for (int distance = hop; distance < ranks; ++distance)
    if ((distance & hop) != 0) distances.push_back(distance);
  return distances;
}

/// Where a block that travels `distance` ranks is before and after its hop of `hop`, at sender and receiver.
struct Hop {
  int distance, hop, ranks;

  Slot at_sender(int sender) const {
    const bool is_first = (distance & (hop - 1)) == 0;
    return is_first ? input(static_cast<std::uint32_t>((sender + distance) % ranks)) : place();
  }
  Slot at_receiver(int receiver) const {
    const bool is_last = distance < 2 * hop;
    return is_last ? output(static_cast<std::uint32_t>((receiver - distance + ranks) % ranks)) : place();
  }
  /// Distances 1 and 2 need none.
  Slot place() const { return scratch(static_cast<std::uint32_t>(distance - 3)); }
};

}  // namespace

Result<Schedule> build_bruck_all_to_all(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const auto own = static_cast<std::uint32_t>(rank);
  ScheduleBuilder steps(request, {.chunks = static_cast<std::uint32_t>(ranks),
                                  .scratch_chunks = static_cast<std::uint32_t>(std::max(ranks - 3, 0))});
  steps.copy(input(own), output(own));
  for (int hop = 1; hop < ranks; hop *= 2) {
    const int to = (rank + hop) % ranks, from = (rank - hop + ranks) % ranks;
    const std::vector<int> distances = distances_with(hop, ranks);
    for (std::size_t first = 0; first < distances.size(); first += kBatch) {
      const std::size_t end = std::min(first + kBatch, distances.size());
      for (std::size_t k = first; k < end; ++k) {
        const Hop block{.distance = distances[k], .hop = hop, .ranks = ranks};
        steps.send(to, block.at_sender(rank), block.at_receiver(to));
      }
      for (std::size_t k = first; k < end; ++k) {
        const Hop block{.distance = distances[k], .hop = hop, .ranks = ranks};
        steps.recv(from, block.at_sender(from), block.at_receiver(rank));
      }
    }
  }
  return steps.finish();
}

RowCost cost_bruck_all_to_all(int ranks) {
  double rounds = 0, messages = 0;
  for (int hop = 1; hop < ranks; hop *= 2) {
    const std::size_t blocks = distances_with(hop, ranks).size();
    const std::size_t batches = (blocks + kBatch - 1) / kBatch;
    rounds += static_cast<double>(batches);
    messages += static_cast<double>(blocks);
  }
  return {.rounds = rounds, .sent = messages / ranks, .reduced = 0, .messages = messages};
}

}  // namespace tutti::core
