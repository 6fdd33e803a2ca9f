// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace tutti::core {

/// How ranks sit on the machine, as algorithms see it. `levels[k][r]` is the group of rank r at level k, from the
/// widest (hosts) to the narrowest (NUMA nodes); ranks with equal numbers share a group. Empty levels: one flat group.
struct Placement {
  int rank = 0;
  int ranks = 1;
  std::vector<std::vector<int>> levels;
};

}  // namespace tutti::core
