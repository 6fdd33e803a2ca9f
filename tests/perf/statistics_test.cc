// SPDX-License-Identifier: Apache-2.0
#include "perf/common/statistics.h"

#include <gtest/gtest.h>

namespace tutti::perf {
namespace {

TEST(Statistics, of_one_to_hundred) {
  std::vector<double> times;
  for (int k = 100; k >= 1; --k) times.push_back(k);
  const Statistics result = summarize(times);
  EXPECT_EQ(result.minimum, 1);
  EXPECT_EQ(result.maximum, 100);
  EXPECT_EQ(result.p10, 10);
  EXPECT_EQ(result.p50, 51);  // sorted[n/2]
  EXPECT_EQ(result.p95, 95);
  EXPECT_EQ(result.p99, 99);
  EXPECT_DOUBLE_EQ(result.mean, 50.5);
  EXPECT_NEAR(result.stdev, 28.866, 1e-3);
  EXPECT_NEAR(result.cv_percent(), 57.16, 1e-2);
}

TEST(Statistics, of_one_and_of_none) {
  const Statistics one = summarize({3});
  EXPECT_EQ(one.p10, 3);
  EXPECT_EQ(one.p99, 3);
  EXPECT_EQ(one.stdev, 0);
  EXPECT_EQ(summarize({}).cv_percent(), 0);
}

}  // namespace
}  // namespace tutti::perf
