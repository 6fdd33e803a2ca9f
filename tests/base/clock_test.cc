// SPDX-License-Identifier: Apache-2.0
#include "src/base/clock.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti::core {
namespace {

TEST(Clock, ticks_measure_the_same_time_as_the_monotonic_clock) {
  const TickClock clock = tick_clock();
  const ClockSample start = clock.sample();
  while (monotonic_ns() - start.ns < 20'000'000) {
  }
  const ClockSample end = clock.sample();
  const double by_ticks = static_cast<double>(clock.to_ns(end.ticks - start.ticks));
  const double by_clock = static_cast<double>(end.ns - start.ns);
  // Calibrated to about 200 ppm; 1 % leaves room for a pause of a virtual machine inside the calibration.
  EXPECT_NEAR(by_ticks / by_clock, 1.0, 0.01);
  EXPECT_NEAR(clock.refined(start, end).ns_per_tick() * static_cast<double>(end.ticks - start.ticks), by_clock, 1000.0);
}

TEST(Clock, converts_both_ways) {
  const TickClock clock = tick_clock();
  for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{1'000'000}, std::int64_t{8'000'000'000}})
    EXPECT_NEAR(static_cast<double>(clock.to_ns(clock.from_ns(ns))), static_cast<double>(ns),
                2.0 + static_cast<double>(ns) * 1e-9);
}

TEST(Clock, nanosecond_clock_stands_in_where_no_counter_exists) {
  const TickClock clock = TickClock::nanoseconds();
  EXPECT_FALSE(clock.uses_tsc());
  const std::int64_t before = monotonic_ns();
  const std::uint64_t now = clock.now();
  const std::int64_t after = monotonic_ns();
  EXPECT_LE(static_cast<std::uint64_t>(before), now);
  EXPECT_GE(static_cast<std::uint64_t>(after), now);
  EXPECT_EQ(clock.to_ns(1234), 1234);
}

TEST(Clock, refining_over_too_short_a_time_changes_nothing) {
  const TickClock clock = tick_clock();
  const ClockSample start{1000, 1000};
  const ClockSample end{2000, 2000};
  EXPECT_DOUBLE_EQ(clock.refined(start, end).ns_per_tick(), clock.ns_per_tick());
}

}  // namespace
}  // namespace tutti::core
