// SPDX-License-Identifier: Apache-2.0
// What the direct algorithms share: who sends to whom first, where foreign pieces wait, and the order they are added.
#pragma once

#include "src/plan/builder.h"

namespace tutti::core {

/// Peers in staggered order: rank+1, rank+2, ... so that no rank is everybody's first target.
class StaggeredPeers {
 public:
  StaggeredPeers(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  int count() const { return ranks_ - 1; }
  /// `k`-th rank to send to, k = 0 .. count()-1.
  int to(int k) const { return (rank_ + 1 + k) % ranks_; }
  /// `k`-th rank to receive from: the one whose k-th send goes here.
  int from(int k) const { return (rank_ + 2 * ranks_ - 1 - k) % ranks_; }

 private:
  int rank_;
  int ranks_;
};

/// Where `receiver` keeps the piece of `sender` until it is added.
inline Slot piece_slot(int sender, int receiver) {
  return scratch(static_cast<std::uint32_t>(sender < receiver ? sender : sender - 1));
}
/// Scratch chunks that reduce_in_rank_order needs: the pieces, and a sum.
inline std::uint32_t rank_order_scratch(int ranks) { return static_cast<std::uint32_t>(ranks); }

/// result = piece of rank 0 + piece of rank 1 + ..., left to right, where rank `rank`'s own piece is `own` (an input
/// slot) and the others lie in their piece_slot. The order does not depend on the rank, so whoever computes it gets the
/// same bits. Ranks 0 and 1 start with their own piece, because a + b = b + a; the others build the sum in scratch,
/// because in place the result overwrites their own piece, which is not first.
inline void reduce_in_rank_order(ScheduleBuilder& steps, const Placement& placement, Slot own, Slot result) {
  const int rank = placement.rank;
  const auto slot_of = [&](int other) { return other == rank ? own : piece_slot(other, rank); };
  const int first = rank <= 1 ? rank : 0;
  const Slot sum = rank <= 1 ? result : scratch(rank_order_scratch(placement.ranks) - 1);
  steps.copy(slot_of(first), sum);
  for (int other = 0; other < placement.ranks; ++other)
    if (other != first) steps.reduce(slot_of(other), sum);
  if (!(sum == result)) steps.copy(sum, result);
}

}  // namespace tutti::core
