// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace tutti::perf {

/// Summary of iteration times, in their unit. p50 is sorted[n/2], the other percentiles are nearest rank.
struct Statistics {
  double minimum = 0, maximum = 0, mean = 0, stdev = 0;  // stdev of the population
  double p10 = 0, p50 = 0, p95 = 0, p99 = 0;
  double cv_percent() const { return mean > 0 ? stdev / mean * 100 : 0; }
};

/// Zeros for no times.
Statistics summarize(std::vector<double> times);

}  // namespace tutti::perf
