// SPDX-License-Identifier: Apache-2.0
// Dissemination barrier: in round k every rank tells the rank 2^k to its right that it is here, and waits for the one
// 2^k to its left. After round k it has heard of 2^(k+1) ranks, itself included; after ceil(log2 p) rounds of all.
// Works for any number of ranks. Messages are empty. Four ranks:
//
//   round 0   0 ──► 1 ──► 2 ──► 3 ──► 0      rank 0 has heard of 3
//   round 1   0 ──► 2,  1 ──► 3,  2 ──► 0,  3 ──► 1      rank 0 has heard of 2, which had heard of 1
//
// Source: Hensgen, Finkel & Manber, "Two algorithms for barrier synchronization", IJPP 17(1), 1988.
#include <bit>

#include "src/plan/builder.h"

namespace tutti::core {

Result<Schedule> build_dissemination_barrier(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
  for (int distance = 1; distance < ranks; distance *= 2) {
    steps.send((rank + distance) % ranks, input(0), output(0));
    steps.recv((rank - distance + ranks) % ranks, input(0), output(0));
  }
  return steps.finish();
}

RowCost cost_dissemination_barrier(int ranks) {
  const auto rounds = static_cast<double>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  return {.rounds = rounds, .sent = 0, .reduced = 0, .messages = rounds};
}

}  // namespace tutti::core
