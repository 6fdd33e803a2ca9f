// SPDX-License-Identifier: Apache-2.0
// Halving and doubling (Rabenseifner): a reduce-scatter by recursive halving, then an all-gather that takes the same
// way back. As few bytes as the ring, in 2 log2(p) rounds instead of 2(p-1). Four ranks, one chunk each, what rank 0
// sends and has:
//
//   distance 1   pieces of 1 3 to rank 1       has 0 2 of 0+1
//   distance 2   sum of 2 to rank 2            has 0 complete
//   distance 2   0 to rank 2                   has 0 2 complete
//   distance 1   0 2 to rank 1                 has 0 1 2 3 complete
//
// Half of all bytes go over distance 1 and a p-th over p/2. Each chunk is summed in one place, so all ranks receive
// identical bits; the sum is the balanced tree over the ranks if p is a power of two. Otherwise the ranks fold onto the
// power of two below (fold.h): guests hand their data to a host first and receive the result from it last.
// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur, Rabenseifner & Gropp,
// IJHPCA 19(1), 2005, section 4.5.
#include "algorithms/hypercube.h"

namespace tutti::core {

Result<Schedule> build_halving_doubling_all_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank;
  const Fold fold(request.placement->ranks);
  const auto chunks = static_cast<std::uint32_t>(fold.core);
  const bool is_guest = fold.is_guest(rank);
  const std::uint32_t scratch_chunks = is_guest ? 0 : FlowSchedule::scratch_chunks(far_first_flow, fold, rank);
  ScheduleBuilder steps(request, {.chunks = chunks, .scratch_chunks = scratch_chunks});
  if (is_guest) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) steps.send(rank + 1, input(chunk), SumSlots::arrival(0));
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) steps.recv(rank + 1, output(chunk), output(chunk));
    return steps.finish();
  }
  FlowSchedule schedule(steps, far_first_flow, fold, rank);
  if (fold.is_host(rank)) schedule.take_in_guest(rank - 1);
  schedule.reduce_scatter();
  schedule.all_gather(Space::output);
  if (fold.is_host(rank)) schedule.see_off_guest(rank - 1);
  return steps.finish();
}

RowCost cost_halving_doubling_all_reduce(int ranks) {
  const Fold fold(ranks);
  RowCost cost = cost_flow_all_reduce(fold.core, fold.rounds());
  if (fold.surplus == 0) return cost;
  // A host: takes all chunks of its guest in and gives them back.
  return {.rounds = cost.rounds + 2,
          .sent = cost.sent + 1,
          .reduced = cost.reduced + 1,
          .messages = cost.messages + fold.core};
}

}  // namespace tutti::core
