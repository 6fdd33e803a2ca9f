// SPDX-License-Identifier: Apache-2.0
// Flows that look alike from every rank: in a round everybody sends over the same distance, around the ring of numbers,
// the same blocks relative to its own. They need no power of two.
#pragma once

#include <vector>

#include "algorithms/block_flow.h"

namespace tutti::core {

/// One message round of everybody: member m sends its blocks m + offset, for every offset, to member m - distance, and
/// receives blocks m + distance + offset from member m + distance.
struct Shift {
  int distance;
  std::vector<int> offsets;
};
/// Shifts that do not depend on each other, at most kMostPorts.
using ShiftRound = std::vector<Shift>;

/// Three lanes each, and kFlowLanes in all.
constexpr int kMostPorts = kFlowLanes / 3;

Flow circular_flow(int member, int members, const std::vector<ShiftRound>& rounds);
/// 0, 1, ... count-1
std::vector<int> offsets_below(int count);

}  // namespace tutti::core
