// SPDX-License-Identifier: Apache-2.0
#include "src/base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::core {

namespace {

// A counter is only useful if it ticks at one rate in all power states and on all cores: CPUID leaf 0x80000007,
// EDX bit 8, "invariant TSC" (Intel SDM vol. 2A, CPUID; AMD APM vol. 3 says the same).
bool has_invariant_tsc() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007U, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 8)) != 0;
#else
  return false;
#endif
}

// Each end of the calibration is good to the width of a clock_gettime, about 25 ns; 300 us makes that under 200 ppm.
constexpr std::int64_t kCalibrationNs = 300'000;
constexpr int kSampleTries = 5;

}  // namespace

ClockSample TickClock::sample() const {
  ClockSample best;
  std::uint64_t narrowest = UINT64_MAX;
  // An interrupt between the two reads would skew the pair: take the narrowest of a few.
  for (int attempt = 0; attempt < kSampleTries; ++attempt) {
    const std::uint64_t before = now();
    const std::int64_t ns = monotonic_ns();
    const std::uint64_t width = now() - before;
    if (width < narrowest) {
      narrowest = width;
      best = {before + width / 2, ns};
    }
  }
  return best;
}

TickClock TickClock::refined(const ClockSample& from, const ClockSample& to) const {
  TickClock clock = *this;
  if (uses_tsc_ && to.ns - from.ns >= 1'000'000 && to.ticks > from.ticks)
    clock.ns_per_tick_ = static_cast<double>(to.ns - from.ns) / static_cast<double>(to.ticks - from.ticks);
  return clock;
}

TickClock TickClock::calibrate() {
  TickClock clock;
  if (!has_invariant_tsc()) return clock;
  clock.uses_tsc_ = true;
  const ClockSample start = clock.sample();
  while (monotonic_ns() - start.ns < kCalibrationNs) {
  }
  const ClockSample end = clock.sample();
  if (end.ticks <= start.ticks) return nanoseconds();  // an emulator that does not advance the counter
  clock.ns_per_tick_ = static_cast<double>(end.ns - start.ns) / static_cast<double>(end.ticks - start.ticks);
  return clock;
}

const TickClock& tick_clock() {
  static const TickClock clock = TickClock::calibrate();
  return clock;
}

}  // namespace tutti::core
