// SPDX-License-Identifier: Apache-2.0
// Built and lowered plans of one communicator. The key never holds counts or types: one plan serves all sizes.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "src/plan/algorithm.h"
#include "src/plan/lower.h"

namespace tutti::core {

struct Plan {
  const Algorithm* row = nullptr;
  int root = -1;
  LoweredPlan lowered;
};

class PlanCache {
 public:
  explicit PlanCache(Placement placement) : placement_(std::move(placement)) {}
  /// Builds, checks bounds and lowers on first use. The pointer stays valid while pinned, else until `generation`
  /// changes.
  Result<Plan*> get(const Algorithm& row, int root);
  /// Raised whenever a plan was thrown away: pointers taken earlier are stale.
  std::uint64_t generation() const { return generation_; }

 private:
  /// More than the rows times a few roots; a broadcast from every root of a large communicator cycles through.
  static constexpr std::size_t kCapacity = 64;

  Placement placement_;
  std::list<std::unique_ptr<Plan>> plans_;  // most recently used first
  std::uint64_t generation_ = 0;
};

}  // namespace tutti::core
