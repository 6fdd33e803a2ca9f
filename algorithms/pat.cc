// SPDX-License-Identifier: Apache-2.0
// PAT (parallel aggregated trees): all-gather and reduce-scatter in ceil(log2 p) rounds for any number of ranks, like
// Bruck's, but over the largest distance first. A rank then sends one block far away and half of all blocks to its
// neighbour, where Bruck does the reverse: distant links, which are the thin ones, carry least. Eight ranks, the blocks
// of rank 0 and the tree that block 0 takes (each rank counted from its owner to the left):
//
//   distance 4   has 0        receives 4        from rank 4            0 ──┬── 4 ──┬── 6 ── 7
//   distance 2   has 0 4      receives 2 6      from rank 2                │       └── 5
//   distance 1   has 0 2 4 6  receives 1 3 5 7  from rank 1                ├── 2 ── 3
//                                                                          └── 1
// Subtrees are ranges of neighbours. That is what lets NCCL run its version depth first where a message is too large
// for its buffers: ranges are finished one after the other, with one partial sum per level alive. Here slices bound
// the buffers, so the trees always run breadth first, all of them at once, in logarithmically many rounds.
//
// The reduce-scatter is the same backwards: neighbours first.
// Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv 2506.20252,
// 2025.
#include <bit>

#include "algorithms/circular.h"

namespace tutti::core {

namespace {

Flow pat_flow(int member, int members) {
  std::vector<ShiftRound> rounds;
  for (int distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(members))) / 2; distance >= 1;
       distance /= 2) {
    Shift shift{distance, {}};
    for (int offset = 0; offset + distance < members; offset += 2 * distance) shift.offsets.push_back(offset);
    rounds.push_back({std::move(shift)});
  }
  return circular_flow(member, members, rounds);
}

}  // namespace

Result<Schedule> build_pat_all_gather(const BuildRequest& request) { return build_flow_all_gather(request, pat_flow); }
RowCost cost_pat_all_gather(int ranks) { return cost_flow_all_gather(ranks, ceil_log2(ranks)); }

Result<Schedule> build_pat_reduce_scatter(const BuildRequest& request) {
  return build_flow_reduce_scatter(request, pat_flow);
}
RowCost cost_pat_reduce_scatter(int ranks) { return cost_flow_reduce_scatter(ranks, ceil_log2(ranks)); }

}  // namespace tutti::core
