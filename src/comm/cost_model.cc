// SPDX-License-Identifier: Apache-2.0
#include "src/comm/cost_model.h"

#include <algorithm>

namespace tutti::core {

LinkCost shared_memory_cost(int local_ranks, int cores) {
  // alpha: hand-over of a cache line between cores, 132-170 ns measured on the Xeon kind, 75-300 on others
  //   (shared/baselines.md, performance.md 0; 2026-11-30).
  // overhead: one line written or read and checked, about 35-45 ns of instructions for a whole operation
  //   (performance.md 7).
  // beta: stores into lines that the peer has read, 7-20 GB/s (performance.md 0 fact 7, 0.1).
  // gamma, delta: reading lines that the peer has just written, 10-20 GB/s, which is slower than the arithmetic or the
  //   local stores that go with it (performance.md 0.1).
  LinkCost cost{"shm", 150.0, 25.0, 0.06, 0.06, 0.06};
  if (local_ranks > cores) {
    // A receiver's wait costs a turn of the scheduler per round: yield hand-over on one core is 5.1-5.3 us
    // (performance.md 0, fact 6). Every byte is moved by one of the few cores, so the other terms stretch with the
    // crowd.
    const double crowd = static_cast<double>(local_ranks) / std::max(1, cores);
    cost.kind = "shm, more ranks than cores";
    cost.alpha_ns = 5200.0;
    cost.overhead_ns *= crowd;
    cost.beta_ns *= crowd;
    cost.gamma_ns *= crowd;
    cost.delta_ns *= crowd;
  }
  return cost;
}

double predict_ns(const RowCost& row, const LinkCost& link, std::uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  const double copied = std::max(0.0, row.sent - row.reduced);
  return row.rounds * link.alpha_ns + row.messages * link.overhead_ns +
         n * (row.sent * link.beta_ns + row.reduced * link.gamma_ns + copied * link.delta_ns);
}

}  // namespace tutti::core
