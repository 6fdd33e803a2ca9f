// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: in round k every rank exchanges its whole partial sum with the rank whose number differs in bit
// k, and both add. log2(p) rounds, at the price of sending the whole message each time: for small messages. Four ranks:
//
//   rank 0 ◄──► rank 1      rank 2 ◄──► rank 3       both hold 0+1         both hold 2+3
//   rank 0 ◄──────────────► rank 2                   both hold (0+1)+(2+3)
//               rank 1 ◄──────────────► rank 3       both hold (0+1)+(2+3)
//
// Partners compute the same sum with its operands swapped, which gives the same bits, so all ranks hold the same
// expression tree up to commutation.
//
// With p = 2^k + s ranks, the first 2s ranks form pairs (2i, 2i+1): the even one gives its data to the odd one before
// the first round and receives the result after the last. The s odd ones and the p - 2s ranks above are the 2^k that
// take part (fold.h).
//
// all_gather (powers of two): the same exchanges, with all the blocks that a rank has: 1, 2, 4, ... of them. log2(p)
// rounds, and every rank sends p-1 blocks, half of them over the largest distance.
// Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
// 2005, section 4.
#include "algorithms/hypercube.h"

namespace tutti::core {

Result<Schedule> build_recursive_doubling_all_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank;
  const Fold fold(request.placement->ranks);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 1});
  if (request.placement->ranks == 1) return steps.copy(input(0), output(0)).finish();
  if (fold.is_guest(rank)) {
    steps.send(rank + 1, input(0), scratch(0));
    steps.recv(rank + 1, output(0), output(0));
    return steps.finish();
  }

  Slot partial = input(0);  // where this rank's sum so far lies
  const auto add_message_of = [&](int peer, Slot peer_partial) {
    steps.recv(peer, peer_partial, scratch(0));
    if (partial == input(0)) steps.copy(input(0), output(0));
    steps.reduce(scratch(0), output(0));
    partial = output(0);
  };
  if (fold.is_host(rank)) add_message_of(rank - 1, input(0));
  const int number = fold.core_number(rank);
  for (int round = 0; round < fold.rounds(); ++round) {
    const int peer = fold.rank_of(number ^ (1 << round));
    const bool peer_has_input = round == 0 && !fold.is_host(peer);
    steps.send(peer, partial, scratch(0));
    add_message_of(peer, peer_has_input ? input(0) : output(0));
  }
  if (fold.is_host(rank)) steps.send(rank - 1, output(0), output(0));
  return steps.finish();
}

RowCost cost_recursive_doubling_all_reduce(int ranks) {
  const Fold fold(ranks);
  const double rounds = fold.rounds();
  const double folded = fold.surplus > 0 ? 1 : 0;  // a host reduces its guest's data, and sends it the result
  // A chain that uses every round ends at the complement of the number it began with. Both ends can be hosts, and add a
  // message each, only if more than half of the numbers are.
  const double both_ends = 2 * fold.surplus > fold.core ? 1 : 0;
  return {.rounds = rounds + folded + both_ends,
          .sent = rounds + folded,
          .reduced = rounds + folded,
          .messages = rounds + folded};
}

Result<Schedule> build_recursive_doubling_all_gather(const BuildRequest& request) {
  return build_flow_all_gather(request, doubling_flow);
}

RowCost cost_recursive_doubling_all_gather(int ranks) { return cost_flow_all_gather(ranks, ceil_log2(ranks)); }

}  // namespace tutti::core
