// SPDX-License-Identifier: Apache-2.0
// The builders and cost formulas that algorithms/*.cc define and registry.cc lists: one pair of lines per row.
#pragma once

#include "src/base/status.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

#define TUTTI_ROW(row)                                       \
  Result<Schedule> build_##row(const BuildRequest& request); \
  RowCost cost_##row(int ranks);

TUTTI_ROW(ring_all_reduce)
TUTTI_ROW(ring_all_gather)
TUTTI_ROW(ring_reduce_scatter)
TUTTI_ROW(chain_broadcast)
TUTTI_ROW(recursive_doubling_all_reduce)
TUTTI_ROW(one_shot_all_reduce)
TUTTI_ROW(one_shot_all_gather)
TUTTI_ROW(one_shot_reduce_scatter)
TUTTI_ROW(one_shot_broadcast)
TUTTI_ROW(two_shot_all_reduce)
TUTTI_ROW(dissemination_barrier)

#undef TUTTI_ROW

}  // namespace tutti::core
