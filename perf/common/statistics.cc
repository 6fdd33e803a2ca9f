// SPDX-License-Identifier: Apache-2.0
#include "perf/common/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti::perf {

Statistics summarize(std::vector<double> times) {
  Statistics result;
  if (times.empty()) return result;
  std::sort(times.begin(), times.end());
  const size_t count = times.size();
  const auto nearest_rank = [&](size_t percent) {
    return times[std::min(count - 1, (count * percent + 99) / 100 - 1)];
  };
  result.minimum = times.front();
  result.maximum = times.back();
  result.p10 = nearest_rank(10);
  result.p50 = times[count / 2];
  result.p95 = nearest_rank(95);
  result.p99 = nearest_rank(99);
  for (double time : times) result.mean += time;
  result.mean /= static_cast<double>(count);
  double squares = 0;
  for (double time : times) squares += (time - result.mean) * (time - result.mean);
  result.stdev = std::sqrt(squares / static_cast<double>(count));
  return result;
}

}  // namespace tutti::perf
