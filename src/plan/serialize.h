// SPDX-License-Identifier: Apache-2.0
// Schedules and lowered plans as text and JSON. The text of schedules parses back.
//
//   schedule rank 0 ranks 2 chunks 2 scratch 1
//   lane 0 send input 1 to rank 1 as scratch 0 line 49
//   lane 0 recv input 0 of rank 1 into scratch 0 line 52
//   lane 0 copy input 0 to output 0 line 57
//   lane 0 reduce scratch 0 into output 0 line 58
//   lane 1 wait for lane 0 step 3 line 60
//
// Behind "scratch 3", "holding 2" says that scratch 0 holds pieces of chunk 2 (Schedule::scratch_holds). In JSON it is
// "scratch_holds", left out where the schedule does not say.
//
// One schedule or several, one step a line; empty lines and everything behind a '#' are ignored.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/plan/lower.h"
#include "src/plan/schedule.h"

namespace tutti::core {

std::string to_text(std::span<const Schedule> schedules);
std::string to_text(std::span<const LoweredPlan> plans);

/// What to_text wrote, or any text of that grammar. Takes any bytes; every schedule it returns is within bounds
/// (validate.h). Errors: invalid_argument naming the line and what was expected there.
Result<std::vector<Schedule>> parse_schedules(std::string_view text);

/// What the schedules belong to, for the head of a JSON document or a drawing.
struct PlanTitle {
  std::string collective;
  std::string algorithm;
  int root = 0;
  bool with_lines = true;  ///< drawings: tooltips name the source line of a step
};
/// {"collective", "algorithm", "root", "schedules": [{"rank", "ranks", "chunks", "scratch_chunks", "steps": [{"lane",
/// "op", "peer", "src", "dst", "line"} ...]} ...]}. A wait has "awaited_lane" and "awaited_step" instead of slots.
std::string to_json(std::span<const Schedule> schedules, const PlanTitle& title);
/// {"collective", "algorithm", "root", "plans": [{"rank", ..., "lanes": [[{"kind", "from", "operands", "to", "forward",
/// "scale", "final", "line"} ...] ...]} ...]}.
std::string to_json(std::span<const LoweredPlan> plans, const PlanTitle& title);

/// "reduce message of rank 3, input 2 into output 2, forward to rank 1, scale, final".
std::string describe(const LoweredPlan& plan, const Action& action);

}  // namespace tutti::core
