// SPDX-License-Identifier: Apache-2.0
// Bounds checks of a single schedule: cheap enough to run on every plan that is used.
#pragma once

#include <optional>

#include "src/plan/contract.h"
#include "src/plan/lower.h"
#include "src/plan/schedule.h"
#include "src/plan/violation.h"

namespace tutti::core {

/// Lanes of the schedule: the highest lane number + 1, at least 1.
int lane_count(const Schedule& schedule);

/// The first step with a slot, peer, lane or wait that cannot be, whatever the collective.
std::optional<Violation> find_malformed(const Schedule& schedule);
/// Also: slots that this collective does not give the rank, and writes to the user's input.
std::optional<Violation> find_malformed(const Schedule& schedule, const Contract& contract);
/// The same of a lowered plan: edges, operands, slots and waits are within bounds.
std::optional<Violation> find_malformed(const LoweredPlan& plan, const Contract& contract);

}  // namespace tutti::core
