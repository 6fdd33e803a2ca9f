// SPDX-License-Identifier: Apache-2.0
// Two-shot (direct reduce-scatter, then direct all-gather): rank q owns chunk q. First everybody sends chunk q to rank
// q, which adds the pieces; then every owner sends its sum to all. As few bytes as the ring in two rounds instead of
// 2(p-1), where all pairs are connected alike. Four ranks, what happens to chunk 0:
//
//   rank 1 ──┐                 ┌──► rank 1
//   rank 2 ──┼──►   rank 0   ──┼──► rank 2
//   rank 3 ──┘  0 + 1 + 2 + 3  └──► rank 3
//
// reduce: the owners send their sums to the root alone, so no rank sends more than the message once, and all add.
//
// The owner adds in rank order, exactly as one-shot does: both rows give the same bits, so the choice between them
// does not show in results.
// Source: direct exchange for both halves, Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication:
// theory, practice, and experience", CCPE 19(13), 2007; the split into halves is Rabenseifner's (ICCS 2004).
#include "algorithms/rank_order.h"

namespace tutti::core {

Result<Schedule> build_two_shot_all_reduce(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks), own = static_cast<std::uint32_t>(placement.rank);
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = ranks, .scratch_chunks = rank_order_scratch(placement.ranks)});
  for (int k = 0; k < peers.count(); ++k) {
    const int peer = peers.to(k);
    steps.send(peer, input(static_cast<std::uint32_t>(peer)), piece_slot(placement.rank, peer));
  }
  for (int k = 0; k < peers.count(); ++k)
    steps.recv(peers.from(k), input(own), piece_slot(peers.from(k), placement.rank));
  reduce_in_rank_order(steps, placement, input(own), output(own));
  for (int k = 0; k < peers.count(); ++k) steps.send(peers.to(k), output(own), output(own));
  for (int k = 0; k < peers.count(); ++k) {
    const auto chunk = static_cast<std::uint32_t>(peers.from(k));
    steps.recv(peers.from(k), output(chunk), output(chunk));
  }
  return steps.finish();
}

RowCost cost_two_shot_all_reduce(int ranks) {
  const double share = (ranks - 1.0) / ranks;
  return {.rounds = ranks > 1 ? 2.0 : 0.0, .sent = 2 * share, .reduced = share, .messages = 2 * (ranks - 1.0)};
}

Result<Schedule> build_two_shot_reduce(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks), own = static_cast<std::uint32_t>(placement.rank);
  const StaggeredPeers peers(placement.rank, placement.ranks);
  const bool is_root = placement.rank == request.root;
  const Slot sum = scratch(rank_order_scratch(placement.ranks) - 1);  // of a rank that has no output
  ScheduleBuilder steps(request, {.chunks = ranks, .scratch_chunks = rank_order_scratch(placement.ranks)});
  for (int k = 0; k < peers.count(); ++k) {
    const int peer = peers.to(k);
    steps.send(peer, input(static_cast<std::uint32_t>(peer)), piece_slot(placement.rank, peer));
  }
  for (int k = 0; k < peers.count(); ++k)
    steps.recv(peers.from(k), input(own), piece_slot(peers.from(k), placement.rank));
  reduce_in_rank_order(steps, placement, input(own), is_root ? output(own) : sum);
  if (!is_root) return steps.send(request.root, sum, output(own)).finish();
  for (int k = 0; k < peers.count(); ++k)
    steps.recv(peers.from(k), sum, output(static_cast<std::uint32_t>(peers.from(k))));
  return steps.finish();
}

RowCost cost_two_shot_reduce(int ranks) {
  if (ranks == 1) return {};
  return {.rounds = 2, .sent = 1, .reduced = (ranks - 1.0) / ranks, .messages = static_cast<double>(ranks)};
}

}  // namespace tutti::core
