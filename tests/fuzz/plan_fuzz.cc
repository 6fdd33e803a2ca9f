// SPDX-License-Identifier: Apache-2.0
// The plan parser from arbitrary bytes. What it accepts must be within bounds, read back from its own text unchanged,
// and be safe to draw, lower and prove - whatever the proof says.
#include <cstdint>
#include <string_view>

#include "src/base/types.h"
#include "src/plan/check.h"
#include "src/plan/render.h"
#include "src/plan/serialize.h"
#include "src/plan/validate.h"

namespace tutti::core {
namespace {

// Larger plans are as valid, but the checker's and the lowering's memory grows with ranks^2 and with the chunks.
constexpr std::size_t kMostRanks = 8;
constexpr std::uint32_t kMostChunks = 64;
constexpr std::size_t kMostSteps = 512;

bool is_small(const std::vector<Schedule>& schedules) {
  if (schedules.size() > kMostRanks) return false;
  std::size_t steps = 0;
  for (const Schedule& schedule : schedules) {
    if (static_cast<std::size_t>(schedule.ranks) > kMostRanks || schedule.chunks > kMostChunks ||
        schedule.scratch_chunks > kMostChunks)
      return false;
    steps += schedule.steps.size();
  }
  return steps <= kMostSteps;
}

void check_all(const std::vector<Schedule>& schedules) {
  for (int what = 0; what < TUTTI_COLLECTIVE_COUNT; ++what) {
    const auto collective = static_cast<tutti_collective>(what);
    if (is_point_to_point(collective) || is_variable(collective)) continue;
    for (const int credits : {0, 1, 2}) {
      const CheckOutcome outcome = check_schedules(schedules, {collective, 0, credits});
      TUTTI_CHECK(outcome.ok() || !outcome.violation->to_string("fuzz").empty());
      const Result<std::vector<LoweredPlan>> plans = lower_all(schedules, lower_options(collective, credits));
      if (!plans.is_ok()) continue;
      const CheckOutcome lowered =
          check_lowered(plans.value(), {collective, 0, lowered_credits(plans.value(), credits)});
      // What the schedules promise, their lowered plans must keep.
      TUTTI_CHECK(!outcome.ok() || lowered.ok());
      (void)to_text(std::span<const LoweredPlan>(plans.value()));
    }
  }
}

void run(std::string_view input) {
  const Result<std::vector<Schedule>> parsed = parse_schedules(input);
  if (!parsed.is_ok()) {
    TUTTI_CHECK(parsed.status().code() == TUTTI_INVALID_ARGUMENT && !parsed.status().message().empty());
    return;
  }
  const std::vector<Schedule>& schedules = parsed.value();
  for (const Schedule& schedule : schedules) TUTTI_CHECK(!find_malformed(schedule));
  const std::string text = to_text(std::span<const Schedule>(schedules));
  const Result<std::vector<Schedule>> again = parse_schedules(text);
  TUTTI_CHECK(again.is_ok() && to_text(std::span<const Schedule>(again.value())) == text);
  if (!is_small(schedules)) return;
  const PlanTitle title{"fuzz", "fuzz", 0};
  (void)to_json(std::span<const Schedule>(schedules), title);
  (void)to_svg(draw(std::span<const Schedule>(schedules), title));
  if (!schedules.empty()) check_all(schedules);
}

}  // namespace
}  // namespace tutti::core

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tutti::core::run(std::string_view(reinterpret_cast<const char*>(data), bytes));
  return 0;
}
