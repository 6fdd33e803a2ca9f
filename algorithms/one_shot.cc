// SPDX-License-Identifier: Apache-2.0
// One-shot (direct): everybody sends what everybody needs, in a single round. Unbeatable latency where all pairs are
// connected alike; p-1 messages per rank, and in all_reduce every rank sends and reduces everything, so it is for small
// messages or few ranks. Four ranks, what rank 0 does (the others likewise, rotated):
//
//            ┌──► rank 1     all_reduce:      its whole input to each; then 0 + 1 + 2 + 3 in this order
//   rank 0 ──┼──► rank 2     all_gather:      its block to each
//            └──► rank 3     reduce_scatter:  block q to rank q; then 0 + 1 + 2 + 3 of its own block
//                            all_to_all:      block q to rank q
//                            broadcast:       the root alone sends
//                            scatter:         the root alone sends, block q to rank q
//                            gather, reduce:  everybody sends to the root alone
//
// No rank forwards anything, and nothing but a reduction needs scratch, so the forms with a count per rank run these
// rows whatever a rank knows of the others' counts.
//
// Sends start with rank+1, so that they do not all hit rank 0 first. All messages are received before the reduction
// starts, which adds them in rank order whatever order they came in: every rank computes the same expression, so all
// hold identical bits.
// Source: the "direct" or "linear exchange" algorithms of Chan, Heimlich, Purkayastha & van de Geijn, "Collective
// communication: theory, practice, and experience", CCPE 19(13), 2007.
#include "algorithms/rank_order.h"

namespace tutti::core {

namespace {

double share_of(int ranks) { return (ranks - 1.0) / ranks; }
double round_of(int ranks) { return ranks > 1 ? 1 : 0; }

}  // namespace

Result<Schedule> build_one_shot_all_reduce(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = rank_order_scratch(placement.ranks)});
  for (int k = 0; k < peers.count(); ++k) steps.send(peers.to(k), input(0), piece_slot(placement.rank, peers.to(k)));
  for (int k = 0; k < peers.count(); ++k)
    steps.recv(peers.from(k), input(0), piece_slot(peers.from(k), placement.rank));
  reduce_in_rank_order(steps, placement, input(0), output(0));
  return steps.finish();
}

RowCost cost_one_shot_all_reduce(int ranks) {
  const double peers = ranks - 1.0;
  return {.rounds = round_of(ranks), .sent = peers, .reduced = peers, .messages = peers};
}

Result<Schedule> build_one_shot_reduce_scatter(const BuildRequest& request) {
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
  return steps.finish();
}

RowCost cost_one_shot_reduce_scatter(int ranks) {
  return {.rounds = round_of(ranks), .sent = share_of(ranks), .reduced = share_of(ranks), .messages = ranks - 1.0};
}

Result<Schedule> build_one_shot_all_gather(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks), own = static_cast<std::uint32_t>(placement.rank);
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = ranks, .scratch_chunks = 0});
  for (int k = 0; k < peers.count(); ++k) steps.send(peers.to(k), input(own), output(own));
  steps.copy(input(own), output(own));
  for (int k = 0; k < peers.count(); ++k) {
    const auto block = static_cast<std::uint32_t>(peers.from(k));
    steps.recv(peers.from(k), input(block), output(block));
  }
  return steps.finish();
}

RowCost cost_one_shot_all_gather(int ranks) {
  return {.rounds = round_of(ranks), .sent = share_of(ranks), .reduced = 0, .messages = ranks - 1.0};
}

Result<Schedule> build_one_shot_broadcast(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
  if (placement.rank == request.root) {
    for (int k = 0; k < peers.count(); ++k) steps.send(peers.to(k), input(0), output(0));
    steps.copy(input(0), output(0));
  } else {
    steps.recv(request.root, input(0), output(0));
  }
  return steps.finish();
}

RowCost cost_one_shot_broadcast(int ranks) {
  return {.rounds = round_of(ranks), .sent = ranks - 1.0, .reduced = 0, .messages = ranks - 1.0};
}

Result<Schedule> build_one_shot_all_to_all(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks), own = static_cast<std::uint32_t>(placement.rank);
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = ranks, .scratch_chunks = 0});
  for (int k = 0; k < peers.count(); ++k)
    steps.send(peers.to(k), input(static_cast<std::uint32_t>(peers.to(k))), output(own));
  steps.copy(input(own), output(own));
  for (int k = 0; k < peers.count(); ++k)
    steps.recv(peers.from(k), input(own), output(static_cast<std::uint32_t>(peers.from(k))));
  return steps.finish();
}

RowCost cost_one_shot_all_to_all(int ranks) {
  return {.rounds = round_of(ranks), .sent = share_of(ranks), .reduced = 0, .messages = ranks - 1.0};
}

Result<Schedule> build_one_shot_reduce(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const bool is_root = placement.rank == request.root;
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = is_root ? rank_order_scratch(placement.ranks) : 0});
  if (!is_root) return steps.send(request.root, input(0), piece_slot(placement.rank, request.root)).finish();
  for (int k = 0; k < peers.count(); ++k)
    steps.recv(peers.from(k), input(0), piece_slot(peers.from(k), placement.rank));
  reduce_in_rank_order(steps, placement, input(0), output(0));
  return steps.finish();
}

RowCost cost_one_shot_reduce(int ranks) {
  return {.rounds = round_of(ranks), .sent = round_of(ranks), .reduced = ranks - 1.0, .messages = round_of(ranks)};
}

Result<Schedule> build_one_shot_gather(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks), own = static_cast<std::uint32_t>(placement.rank);
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = ranks, .scratch_chunks = 0});
  if (placement.rank != request.root) return steps.send(request.root, input(own), output(own)).finish();
  steps.copy(input(own), output(own));
  for (int k = 0; k < peers.count(); ++k) {
    const auto block = static_cast<std::uint32_t>(peers.from(k));
    steps.recv(peers.from(k), input(block), output(block));
  }
  return steps.finish();
}

RowCost cost_one_shot_gather(int ranks) {
  return {.rounds = round_of(ranks), .sent = round_of(ranks) / ranks, .reduced = 0, .messages = round_of(ranks)};
}

Result<Schedule> build_one_shot_scatter(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks), own = static_cast<std::uint32_t>(placement.rank);
  const StaggeredPeers peers(placement.rank, placement.ranks);
  ScheduleBuilder steps(request, {.chunks = ranks, .scratch_chunks = 0});
  if (placement.rank != request.root) return steps.recv(request.root, input(own), output(own)).finish();
  for (int k = 0; k < peers.count(); ++k) {
    const auto block = static_cast<std::uint32_t>(peers.to(k));
    steps.send(peers.to(k), input(block), output(block));
  }
  return steps.copy(input(own), output(own)).finish();
}

RowCost cost_one_shot_scatter(int ranks) {
  return {.rounds = round_of(ranks), .sent = share_of(ranks), .reduced = 0, .messages = ranks - 1.0};
}

}  // namespace tutti::core
