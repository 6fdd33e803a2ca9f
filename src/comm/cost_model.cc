// SPDX-License-Identifier: Apache-2.0
#include "src/comm/cost_model.h"

#include <algorithm>

namespace tutti::core {

LinkCost shared_memory_cost(int local_ranks, int cores) {
  // alpha: hand-over of a cache line between cores, 132-170 ns measured on the Xeon kind, 75-300 on others
  //   (shared/baselines.md, performance.md 0; 2026-11-30).
  // overhead: one line written or read and checked, about 35-45 ns of instructions for a whole operation
  // (performance.md 7). beta: one copy into the FIFO and one read out of it by another core, about 10-20 GB/s
  // (performance.md 0.1). gamma: a reduction that reads borrowed bytes, 12-28 GB/s out of cache (performance.md 1.1).
  LinkCost cost{"shm", 150.0, 25.0, 0.06, 0.03};
  if (local_ranks > cores) {
    // A receiver's wait costs a turn of the scheduler per round: yield hand-over on one core is 5.1-5.3 us
    // (performance.md 0, fact 6). Every byte is moved by one of the few cores, so the per-byte terms stretch with the
    // crowd.
    const double crowd = static_cast<double>(local_ranks) / std::max(1, cores);
    cost = {"shm, more ranks than cores", 5200.0, 25.0 * crowd, 0.06 * crowd, 0.03 * crowd};
  }
  return cost;
}

double predict_ns(const RowCost& row, const LinkCost& link, std::uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  return row.rounds * link.alpha_ns + row.messages * link.overhead_ns + row.sent * n * link.beta_ns +
         row.reduced * n * link.gamma_ns;
}

}  // namespace tutti::core
