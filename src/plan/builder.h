// SPDX-License-Identifier: Apache-2.0
// The words algorithms are written in.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/plan/algorithm.h"
#include "src/plan/schedule.h"

namespace tutti::core {

constexpr Slot input(std::uint32_t chunk) { return Slot::of(Space::input, chunk); }
constexpr Slot output(std::uint32_t chunk) { return Slot::of(Space::output, chunk); }
constexpr Slot scratch(std::uint32_t chunk) { return Slot::of(Space::scratch, chunk); }

/// Writes one rank's schedule, step after step. Every call remembers the source line it stands on, which errors and
/// drawings show as the step's site. Nothing fails before finish().
///
///   ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 1});
///   steps.send(peer, input(0), scratch(0)).recv(peer, input(0), scratch(0));
///   steps.copy(input(0), output(0)).reduce(scratch(0), output(0));
///   return steps.finish();
class ScheduleBuilder {
 public:
  struct Shape {
    std::uint32_t chunks = 1;
    std::uint32_t scratch_chunks = 0;
    std::uint32_t scratch_holds = kFollowsData;  ///< chunk whose pieces scratch 0 holds: Schedule::scratch_holds
  };
  ScheduleBuilder(const BuildRequest& request, Shape shape);

  /// Following steps go to this lane (0 at first). Lanes run concurrently; only wait() and messages order them.
  ScheduleBuilder& on_lane(std::uint8_t lane);
  /// Sends `src` to `peer`, whose matching recv writes it to `dst`, a slot of `peer`.
  ScheduleBuilder& send(int peer, Slot src, Slot dst, int line = __builtin_LINE());
  /// Receives the next message of `peer` on this lane, which `peer` sends from `src`, a slot of `peer`.
  ScheduleBuilder& recv(int peer, Slot src, Slot dst, int line = __builtin_LINE());
  /// dst = src
  ScheduleBuilder& copy(Slot src, Slot dst, int line = __builtin_LINE());
  /// dst = dst (+) src
  ScheduleBuilder& reduce(Slot src, Slot dst, int line = __builtin_LINE());
  /// Continues this lane after step `step` (index among that lane's steps) of `lane` is done.
  ScheduleBuilder& wait(std::uint8_t lane, std::uint32_t step, int line = __builtin_LINE());

  /// Steps written to the current lane so far: the index of the next one, for wait().
  std::uint32_t here() const;

  /// The schedule, or invalid_argument naming the first step with an impossible slot, peer or wait.
  Result<Schedule> finish();

 private:
  ScheduleBuilder& add(Step step, int line);

  Schedule schedule_;
  std::uint8_t lane_ = 0;
};

}  // namespace tutti::core
