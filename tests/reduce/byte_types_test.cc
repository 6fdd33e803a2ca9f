// SPDX-License-Identifier: Apache-2.0
// One-byte types over all 256 x 256 pairs of operands, on every target, against arithmetic of this file: tables of
// values, exact sums and products in double, and a search for the nearest value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reduce/reduce_testing.h"

namespace tutti::core {
namespace {

constexpr std::size_t kPairs = 256 * 256;

/// The values of an 8-bit float, in the order of its codes.
class ByteFloat {
 public:
  explicit ByteFloat(tutti_dtype type) : saturates_(type == TUTTI_FLOAT8_E4M3) {
    const int mantissa = saturates_ ? 3 : 2, bias = saturates_ ? 7 : 15;
    largest_ = saturates_ ? 0x7e : 0x7b;
    canonical_nan_ = saturates_ ? 0x7f : 0x7e;
    for (int code = 0; code < 128; ++code) {
      const int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
      const double significand = fraction / static_cast<double>(1 << mantissa) + (exponent > 0 ? 1 : 0);
      double value = significand * std::pow(2, std::max(exponent, 1) - bias);
      if (code > largest_) value = std::numeric_limits<double>::quiet_NaN();
      if (!saturates_ && code == 0x7c) value = std::numeric_limits<double>::infinity();
      values_.push_back(value);
    }
  }
  double value(int code) const {
    const double magnitude = values_[static_cast<std::size_t>(code & 0x7f)];
    return code < 128 ? magnitude : -magnitude;
  }
  int nearest(double value) const {
    if (std::isnan(value)) return canonical_nan_;
    const int sign = std::signbit(value) ? 128 : 0;
    const double magnitude = std::fabs(value);
    const double top = values_[static_cast<std::size_t>(largest_)];
    const double last_step = top - values_[static_cast<std::size_t>(largest_ - 1)];
    if (magnitude >= top + last_step / 2) return sign | (saturates_ ? largest_ : largest_ + 1);
    const auto end = values_.begin() + largest_ + 1;
    const int above = static_cast<int>(std::lower_bound(values_.begin(), end, magnitude) - values_.begin());
    if (above > largest_) return sign | largest_;
    if (above == 0) return sign;
    const double from_above = value_gap(above, magnitude), from_below = value_gap(above - 1, magnitude);
    const bool up = from_above < from_below || (from_above == from_below && above % 2 == 0);
    return sign | (up ? above : above - 1);
  }

 private:
  double value_gap(int code, double magnitude) const {
    return std::fabs(values_[static_cast<std::size_t>(code)] - magnitude);
  }
  bool saturates_;
  int largest_ = 0, canonical_nan_ = 0;  // largest finite
  std::vector<double> values_;
};

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return std::min(a, b);
}

/// `a` is the rank's own contribution of an average of two, `b` comes from the other rank.
int expected_float(const ByteFloat& format, tutti_op op, int a, int b) {
  const double x = format.value(a), y = format.value(b);
  switch (op) {
    case TUTTI_PROD: return format.nearest(x * y);
    case TUTTI_MIN: return format.nearest(minimum(x, y));
    case TUTTI_MAX: return format.nearest(-minimum(-x, -y));
    case TUTTI_AVG: return format.nearest(format.value(format.nearest(x / 2)) + y);
    default: return format.nearest(x + y);
  }
}

int expected_integer(tutti_op op, int a, int b) {
  switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return std::min(a, b);
    case TUTTI_MAX: return std::max(a, b);
    case TUTTI_BAND: return a & b;
    case TUTTI_BOR: return a | b;
    case TUTTI_BXOR: return a ^ b;
    default: return a + b;
  }
}

int expected_bool(tutti_op op, bool a, bool b) {
  switch (op) {
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_BAND: return a && b;
    case TUTTI_BXOR: return a != b;
    default: return a || b;
  }
}

std::uint8_t expected(tutti_dtype type, tutti_op op, int a, int b) {
  switch (type) {
    case TUTTI_INT8: {
      const int result = expected_integer(op, static_cast<std::int8_t>(a), static_cast<std::int8_t>(b));
      return static_cast<std::uint8_t>(op == TUTTI_AVG ? static_cast<std::int8_t>(result) / 2 : result);
    }
    case TUTTI_UINT8: {
      const int result = expected_integer(op, a, b);
      return static_cast<std::uint8_t>(op == TUTTI_AVG ? static_cast<std::uint8_t>(result) / 2 : result);
    }
    case TUTTI_BOOL: return static_cast<std::uint8_t>(expected_bool(op, a != 0, b != 0));
    default: {
      static const ByteFloat kE4m3(TUTTI_FLOAT8_E4M3), kE5m2(TUTTI_FLOAT8_E5M2);
      return static_cast<std::uint8_t>(expected_float(type == TUTTI_FLOAT8_E4M3 ? kE4m3 : kE5m2, op, a, b));
    }
  }
}

class ByteTypes : public testing::TestWithParam<tutti_dtype> {};

TEST_P(ByteTypes, every_pair_of_operands_gives_the_defined_result) {
  const tutti_dtype type = GetParam();
  std::vector<std::uint8_t> left(kPairs), right(kPairs), wanted(kPairs), result(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) {
    left[i] = static_cast<std::uint8_t>(i >> 8);
    right[i] = static_cast<std::uint8_t>(i);
  }
  const void* sources[] = {left.data(), right.data()};
  for (tutti_op op : ops_of(type)) {
    for (std::size_t i = 0; i < kPairs; ++i) wanted[i] = expected(type, op, left[i], right[i]);
    const bool average = op == TUTTI_AVG;
    for (SimdTarget target : targets_of_this_machine()) {
      find_reduce_kernel(type, op, target)(ReduceArgs{.destination = result.data(),
                                                      .sources = sources,
                                                      .source_count = 2,
                                                      .count = kPairs,
                                                      .raw_source = average && is_float(type) ? 0 : -1,
                                                      .scale = 0.5,
                                                      .divisor = average && !is_float(type) ? 2u : 0u,
                                                      .final = true});
      for (std::size_t i = 0; i < kPairs; ++i)
        ASSERT_EQ(wanted[i], result[i]) << simd_target_name(target) << " " << dtype_name(type) << " " << op_name(op)
                                        << std::hex << " of 0x" << int{left[i]} << " and 0x" << int{right[i]};
    }
  }
}

/// A value once more on its own: any byte comes back, but NaN canonical and truth as 1.
TEST_P(ByteTypes, the_final_touch_of_one_source_changes_nan_and_truth_only) {
  const tutti_dtype type = GetParam();
  std::vector<std::uint8_t> all(256), result(256);
  for (std::size_t i = 0; i < 256; ++i) all[i] = static_cast<std::uint8_t>(i);
  const void* source = all.data();
  for (tutti_op op : ops_of(type))
    for (SimdTarget target : targets_of_this_machine()) {
      find_reduce_kernel(type, op, target)(
          ReduceArgs{.destination = result.data(), .sources = &source, .source_count = 1, .count = 256, .final = true});
      for (std::size_t i = 0; i < 256; ++i) {
        std::uint64_t wanted = type == TUTTI_BOOL ? (i != 0 ? 1 : 0) : i;
        if (is_nan_bits(type, i)) wanted = canonical_nan(type);
        ASSERT_EQ(wanted, result[i]) << simd_target_name(target) << " " << dtype_name(type) << " " << op_name(op);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, ByteTypes,
                         testing::Values(TUTTI_INT8, TUTTI_UINT8, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2, TUTTI_BOOL),
                         [](const testing::TestParamInfo<tutti_dtype>& parameter) {
                           return std::string(dtype_name(parameter.param));
                         });

TEST(ByteFloats, known_values) {
  const ByteFloat e4m3(TUTTI_FLOAT8_E4M3), e5m2(TUTTI_FLOAT8_E5M2);  // the reference itself
  EXPECT_EQ(e4m3.value(0x38), 1.0);
  EXPECT_EQ(e4m3.value(0x7e), 448.0);
  EXPECT_EQ(e4m3.value(0x01), 0x1p-9);
  EXPECT_EQ(e4m3.nearest(600), 0x7e);
  EXPECT_EQ(e5m2.value(0x3c), 1.0);
  EXPECT_EQ(e5m2.value(0x7b), 57344.0);
  EXPECT_EQ(e5m2.value(0x01), 0x1p-16);
  EXPECT_EQ(e5m2.nearest(61439), 0x7b);
  EXPECT_EQ(e5m2.nearest(61440), 0x7c);  // a tie, and infinity's code is even
}

TEST(ByteFloats, too_large_saturates_in_e4m3_and_is_infinite_in_e5m2) {
  const std::uint8_t e4m3[] = {0x7e, 0x7e}, e5m2[] = {0x7b, 0x7b};  // largest, twice
  for (SimdTarget target : targets_of_this_machine())
    for (tutti_op op : {TUTTI_SUM, TUTTI_PROD}) {
      std::uint8_t result[2] = {};
      const void* sources[] = {&e4m3[0], &e4m3[1]};
      find_reduce_kernel(TUTTI_FLOAT8_E4M3, op, target)(
          ReduceArgs{.destination = &result[0], .sources = sources, .source_count = 2, .count = 1});
      const void* others[] = {&e5m2[0], &e5m2[1]};
      find_reduce_kernel(TUTTI_FLOAT8_E5M2, op, target)(
          ReduceArgs{.destination = &result[1], .sources = others, .source_count = 2, .count = 1});
      EXPECT_EQ(result[0], 0x7e) << simd_target_name(target);
      EXPECT_EQ(result[1], 0x7c) << simd_target_name(target);
    }
}

}  // namespace
}  // namespace tutti::core
