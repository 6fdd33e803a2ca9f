// SPDX-License-Identifier: Apache-2.0
// Circulant graph: reduce-scatter, all-gather and all-reduce in ceil(log2 p) rounds each for any number of ranks, with
// as few bytes as the ring: what recursive halving does for powers of two. In every round of the reduce-scatter a rank
// works on a run of w blocks that begins with its own (w = p at first). With h = ceil(w/2) it sends its partial sums of
// the last w - h blocks of the run to the rank h to the right, whose run of next round begins with just these, adds
// what it receives from the rank h to the left to the first w - h, and goes on with a run of h. Five ranks, rank 0:
//
//   run 0 1 2 3 4   h = 3   sends 3 4 to rank 3, adds rank 2's sums of 0 1
//   run 0 1 2       h = 2   sends 2   to rank 2, adds rank 3's sum  of 0
//   run 0 1         h = 1   sends 1   to rank 1, adds rank 4's sum  of 0
//   run 0                   is complete
//
// The all-gather is the same backwards, and the all-reduce is both. The expression tree of a block is the same for all
// blocks, with the ranks counted from its owner; each is computed in one place, so all ranks receive identical bits.
// Source: Traeff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", arXiv 2410.14234, 2024.
#include <algorithm>

#include "algorithms/circular.h"

namespace tutti::core {

namespace {

Flow circulant_flow(int member, int members) {
  std::vector<ShiftRound> rounds;
  for (int run = members; run > 1; run = (run + 1) / 2) {
    const int half = (run + 1) / 2;
    rounds.push_back({{half, offsets_below(run - half)}});
  }
  std::reverse(rounds.begin(), rounds.end());
  return circular_flow(member, members, rounds);
}

}  // namespace

Result<Schedule> build_circulant_reduce_scatter(const BuildRequest& request) {
  return build_flow_reduce_scatter(request, circulant_flow);
}
RowCost cost_circulant_reduce_scatter(int ranks) { return cost_flow_reduce_scatter(ranks, ceil_log2(ranks)); }

Result<Schedule> build_circulant_all_gather(const BuildRequest& request) {
  return build_flow_all_gather(request, circulant_flow);
}
RowCost cost_circulant_all_gather(int ranks) { return cost_flow_all_gather(ranks, ceil_log2(ranks)); }

Result<Schedule> build_circulant_all_reduce(const BuildRequest& request) {
  return build_flow_all_reduce(request, circulant_flow);
}
RowCost cost_circulant_all_reduce(int ranks) { return cost_flow_all_reduce(ranks, ceil_log2(ranks)); }

}  // namespace tutti::core
