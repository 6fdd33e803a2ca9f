// SPDX-License-Identifier: Apache-2.0
#include "src/plan/algorithm.h"

#include <bit>

namespace tutti::core {

// The rows themselves are in algorithms/registry.cc.
bool admits(const Algorithm& row, int ranks) {
  if (ranks < 1) return false;
  if (row.needs.max_ranks > 0 && ranks > row.needs.max_ranks) return false;
  return !row.needs.power_of_two || std::has_single_bit(static_cast<unsigned>(ranks));
}

}  // namespace tutti::core
