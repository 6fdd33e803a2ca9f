// SPDX-License-Identifier: Apache-2.0
// Measures what the cost model needs to know about this machine: a few milliseconds, two helper threads, 200 KiB.
#pragma once

#include <cstdint>
#include <string>

#include "src/comm/cost_model.h"

namespace tutti::core {

struct CostProbe {
  CostConstants constants{};  ///< plausible; a term that could not be measured is the documented one
  bool complete = false;      ///< all terms measured while nobody disturbed: worth keeping
  std::string note;           ///< why not; empty if complete
  double took_ms = 0;
};

struct CostProbeLimits {
  /// Both parts together; what is not measured by then stays documented. A quiet machine needs a third.
  std::int64_t budget_ns = 16'000'000;
};

/// Blocks for about the budget at most. Never an error: what cannot be measured is documented. Only
/// cores that this thread or the process's first may use are used; their affinity is left as it is.
CostProbe measure_costs(const CostProbeLimits& limits = {});

}  // namespace tutti::core
