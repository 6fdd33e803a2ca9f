// SPDX-License-Identifier: Apache-2.0
// Pairwise exchange: all_to_all in p-1 rounds of disjoint pairs, so that every rank sends one block and receives one at
// a time, and no receiver is crowded. A round starts when the one before is over here; nobody waits for the whole
// machine. In round k rank r meets r xor k if the number of ranks is a power of two: both exchange with each other.
// Otherwise it sends to r+k and receives from r-k. Four ranks:
//
//   round 1   0 ◄──► 1      2 ◄──► 3
//   round 2   0 ◄──► 2      1 ◄──► 3
//   round 3   0 ◄──► 3      1 ◄──► 2
//
// Every block goes straight from its input to its output, so all_to_all_v runs this row too.
// Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
// 2005, section 4 (complete exchange of long messages).
#include <bit>

#include "src/plan/builder.h"

namespace tutti::core {

Result<Schedule> build_pairwise_all_to_all(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const auto own = static_cast<std::uint32_t>(rank);
  const bool in_pairs = std::has_single_bit(static_cast<unsigned>(ranks));
  ScheduleBuilder steps(request, {.chunks = static_cast<std::uint32_t>(ranks), .scratch_chunks = 0});
  steps.copy(input(own), output(own));
  for (int round = 1; round < ranks; ++round) {
    const int to = in_pairs ? rank ^ round : (rank + round) % ranks;
    const int from = in_pairs ? to : (rank - round + ranks) % ranks;
    steps.send(to, input(static_cast<std::uint32_t>(to)), output(own));
    steps.recv(from, input(own), output(static_cast<std::uint32_t>(from)));
  }
  return steps.finish();
}

RowCost cost_pairwise_all_to_all(int ranks) {
  const double rounds = ranks - 1.0;
  return {.rounds = rounds, .sent = rounds / ranks, .reduced = 0, .messages = rounds};
}

}  // namespace tutti::core
