// SPDX-License-Identifier: Apache-2.0
#include "perf/common/format.h"

#include <gtest/gtest.h>

namespace tutti::perf {
namespace {

TEST(NumberInWidth, loses_decimals_before_it_gets_longer) {
  EXPECT_EQ(number_in_width(0, 7), "   0.00");
  EXPECT_EQ(number_in_width(5.126, 7), "   5.13");
  EXPECT_EQ(number_in_width(1234.56, 7), "1234.56");
  EXPECT_EQ(number_in_width(12345.67, 7), "12345.7");
  EXPECT_EQ(number_in_width(123456.7, 7), " 123457");
  EXPECT_EQ(number_in_width(1234567.8, 7), "1234568");
  EXPECT_EQ(number_in_width(12345678.9, 7), "1.2e+07");
  EXPECT_EQ(number_in_width(123.45, 6), "123.45");
  EXPECT_EQ(number_in_width(1234.5, 6), "1234.5");
  EXPECT_EQ(number_in_width(123456.0, 6), "123456");
  EXPECT_EQ(number_in_width(1234567.0, 6), " 1e+06");
}

TEST(NumberInWidth, rounding_up_never_makes_it_too_long) {
  EXPECT_EQ(number_in_width(9999.999, 7), "10000.0");
  EXPECT_EQ(number_in_width(99999.96, 7), " 100000");
  EXPECT_EQ(number_in_width(999.996, 6), "1000.0");
}

TEST(MemoryText, units_and_decimals) {
  EXPECT_EQ(memory_text(0), "0.00 B");
  EXPECT_EQ(memory_text(1536), "1.50 KB");
  EXPECT_EQ(memory_text(64.0 * 1048576), "64.0 MB");
  EXPECT_EQ(memory_text(512.0 * 1048576), "512 MB");
  EXPECT_EQ(memory_text(3.0 * 1073741824), "3.00 GB");
  EXPECT_EQ(memory_text(-2048), "-2.00 KB");
}

}  // namespace
}  // namespace tutti::perf
