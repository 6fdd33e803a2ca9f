// SPDX-License-Identifier: Apache-2.0
// Chain: the root sends to its right neighbour, which keeps the data and passes it on. Every rank sends at most once
// and the executor slices the message, so all links of the chain work at the same time: for large messages the time
// tends to that of one link. Four ranks, root 1:
//
//   broadcast   rank 1 (root) ──► rank 2 ──► rank 3 ──► rank 0
//   reduce      rank 1 (root) ◄── rank 2 ◄── rank 3 ◄── rank 0
//
// reduce is the mirror image: partial sums come towards the root, and every rank adds its own input on the way, so the
// root holds x_root + (x_(root+1) + (x_(root+2) + ...)).
//
// Source: the "linear pipeline" of Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations",
// Cluster Computing 10(2), 2007.
#include <algorithm>

#include "src/plan/builder.h"

namespace tutti::core {

Result<Schedule> build_chain_broadcast(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const int position = (rank - request.root + ranks) % ranks;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
  if (position == 0) {
    if (ranks > 1) steps.send(next, input(0), output(0));
    steps.copy(input(0), output(0));
  } else {
    steps.recv(previous, position == 1 ? input(0) : output(0), output(0));
    if (position < ranks - 1) steps.send(next, output(0), output(0));
  }
  return steps.finish();
}

RowCost cost_chain_broadcast(int ranks) {
  const double sends = std::min(ranks - 1, 1);
  return {.rounds = ranks - 1.0, .sent = sends, .reduced = 0, .messages = sends};
}

Result<Schedule> build_chain_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const int position = (rank - request.root + ranks) % ranks, last = ranks - 1;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const Slot partial = scratch(0);
  if (position == last && ranks > 1) {
    ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
    return steps.send(previous, input(0), partial).finish();
  }
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = ranks > 1 ? 1u : 0u});
  if (ranks > 1) steps.recv(next, position + 1 == last ? input(0) : partial, partial);
  if (position > 0) return steps.reduce(input(0), partial).send(previous, partial, partial).finish();
  steps.copy(input(0), output(0));
  if (ranks > 1) steps.reduce(partial, output(0));
  return steps.finish();
}

RowCost cost_chain_reduce(int ranks) {
  const double once = std::min(ranks - 1, 1);
  return {.rounds = ranks - 1.0, .sent = once, .reduced = once, .messages = once};
}

}  // namespace tutti::core
