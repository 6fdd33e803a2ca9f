// SPDX-License-Identifier: Apache-2.0
#include "src/plan/algorithm.h"

#include <bit>

#include "src/base/types.h"

namespace tutti::core {

// The rows themselves are in algorithms/registry.cc.
bool admits(const Algorithm& row, int ranks) {
  if (ranks < 1) return false;
  if (row.needs.max_ranks > 0 && ranks > row.needs.max_ranks) return false;
  return !row.needs.power_of_two || std::has_single_bit(static_cast<unsigned>(ranks));
}

int determinism_level(const Algorithm& row) {
  if (!is_reduction(row.what) || row.tree == Tree::balanced) return 4;
  return row.tree == Tree::rank_order ? 3 : 1;
}

}  // namespace tutti::core
