// SPDX-License-Identifier: Apache-2.0
// Two clocks: monotonic_ns() for deadlines, TickClock for cheap time stamps on the hot path.
#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tutti::core {

/// CLOCK_MONOTONIC in nanoseconds. About 20 ns a call (vDSO).
inline std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// CLOCK_REALTIME in nanoseconds since 1970: for people and for comparing with other hosts, never for deadlines.
inline std::int64_t wall_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// One instant on both clocks, so that a reader of recorded ticks can convert them.
struct ClockSample {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
};

/// Counts the processor's invariant time-stamp counter where there is one, else monotonic nanoseconds. A plain value:
/// copy it once (tick_clock()) and keep it; now() is then a test and a counter read.
class TickClock {
 public:
  std::uint64_t now() const {
#if defined(__x86_64__)
    if (uses_tsc_) return __rdtsc();
#endif
    return static_cast<std::uint64_t>(monotonic_ns());
  }
  bool uses_tsc() const { return uses_tsc_; }
  double ns_per_tick() const { return ns_per_tick_; }
  /// A difference of ticks in nanoseconds. The rate is calibrated to about 200 ppm.
  std::int64_t to_ns(std::uint64_t ticks) const {
    return static_cast<std::int64_t>(static_cast<double>(ticks) * ns_per_tick_);
  }
  std::uint64_t from_ns(std::int64_t ns) const {
    return static_cast<std::uint64_t>(static_cast<double>(ns) / ns_per_tick_);
  }
  /// Both clocks at (nearly) one instant. Two samples far apart give the rate far better than calibration does.
  ClockSample sample() const;
  /// The same clock with the rate measured between two samples at least 1 ms apart, else unchanged.
  TickClock refined(const ClockSample& from, const ClockSample& to) const;

  /// A clock of nanoseconds, as used where no invariant counter exists.
  static TickClock nanoseconds() { return {}; }

 private:
  friend const TickClock& tick_clock();
  static TickClock calibrate();

  bool uses_tsc_ = false;
  double ns_per_tick_ = 1.0;
};

/// The process's clock, calibrated at first use (a 300 us spin, once).
const TickClock& tick_clock();

}  // namespace tutti::core
