// SPDX-License-Identifier: Apache-2.0
// Recursive halving (reduce_scatter, powers of two): in the round of distance d = 1, 2, 4, ... a rank and the one whose
// number differs in that bit split the blocks that both still work on: each sends its partial sums of the other's half
// and adds what it receives to its own. log2(p) rounds, and every rank sends each foreign block once. Four ranks, the
// blocks whose sums a rank has afterwards:
//
//   rank            0               1               2               3
//   distance 1   0 2 of 0+1      1 3 of 0+1      0 2 of 2+3      1 3 of 2+3
//   distance 2   0 of (0+1)+     1 of (0+1)+     2 of (0+1)+     3 of (0+1)+
//                 (2+3)           (2+3)           (2+3)           (2+3)
//
// Distance 1 goes first, so block r ends at rank r, its sum is the balanced tree over the ranks for every block, and
// half of all bytes go to a neighbour. It is the backward run of an all-gather that goes over the highest bit first
// (block_flow.h), which is also the second half of Rabenseifner's all-reduce (halving_doubling.cc).
// Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
// 2005, section 4.
#include "algorithms/hypercube.h"

namespace tutti::core {

Result<Schedule> build_recursive_halving_reduce_scatter(const BuildRequest& request) {
  return build_flow_reduce_scatter(request, far_first_flow);
}

RowCost cost_recursive_halving_reduce_scatter(int ranks) { return cost_flow_reduce_scatter(ranks, ceil_log2(ranks)); }

}  // namespace tutti::core
