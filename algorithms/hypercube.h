// SPDX-License-Identifier: Apache-2.0
// Flows over a hypercube: in each round a member exchanges with the one whose number differs in one bit. Powers of two.
#pragma once

#include "algorithms/block_flow.h"

namespace tutti::core {

/// Bit 0 first: a member's blocks are a run of neighbours that doubles. Far messages carry most.
Flow doubling_flow(int member, int members);
/// Highest bit first: a member has every 2d-th block when it exchanges over distance d, so that the far messages are
/// the small ones. Backwards: distance 1 first, and block r ends at member r as the sum ((0+1)+(2+3))+...
Flow far_first_flow(int member, int members);

}  // namespace tutti::core
