// SPDX-License-Identifier: Apache-2.0
// Chain: the root sends to its right neighbour, which keeps the data and passes it on. Every rank sends at most once
// and the executor slices the message, so all links of the chain work at the same time: for large messages the time
// tends to that of one link. Four ranks, root 1:
//
//   rank 1 (root) ──► rank 2 ──► rank 3 ──► rank 0
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

}  // namespace tutti::core
