// SPDX-License-Identifier: Apache-2.0
// The test data must be what the matrix takes it for: exact in every order of evaluation.
#include "tests/api/pattern.h"

#include <gtest/gtest.h>

#include <cmath>

namespace api_test {
namespace {

TEST(Pattern, sixteen_bit_floats_round_trip) {
  for (const tutti_dtype type : {TUTTI_FLOAT16, TUTTI_BFLOAT16})
    for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
      const double value = to_value(type, bits);
      if (std::isnan(value) || (value != 0 && std::fabs(value) < 1e-4)) continue;  // subnormals are not used
      EXPECT_EQ(to_bits(type, value), bits);
    }
  EXPECT_EQ(to_value(TUTTI_FLOAT16, 0x3c00), 1.0);
  EXPECT_EQ(to_value(TUTTI_FLOAT16, 0x7bff), 65504.0);
  EXPECT_EQ(to_value(TUTTI_BFLOAT16, 0x3f80), 1.0);
  EXPECT_EQ(to_value(TUTTI_BFLOAT16, 0xc040), -3.0);
}

// The average multiplies by 1/ranks first (NCCL's way), in fp32 or fp64: exact for the values that Pattern uses.
TEST(Pattern, averages_are_exact_when_multiplied_by_the_reciprocal) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const double share : {0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0}) {
      EXPECT_EQ(static_cast<float>(share * ranks) * static_cast<float>(1.0 / ranks), static_cast<float>(share));
      EXPECT_EQ(share * ranks * (1.0 / ranks), share);
    }
}

TEST(Pattern, eight_bit_floats_round_trip) {
  for (const tutti_dtype type : {TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2})
    for (std::uint64_t bits = 0; bits < 0x100; ++bits) {
      const double value = to_value(type, bits);
      if (std::isnan(value)) continue;
      EXPECT_EQ(to_bits(type, value), bits);
    }
  EXPECT_EQ(to_value(TUTTI_FLOAT8_E4M3, 0x7e), 448.0);
  EXPECT_EQ(to_value(TUTTI_FLOAT8_E5M2, 0x7b), 57344.0);
  EXPECT_TRUE(std::isnan(to_value(TUTTI_FLOAT8_E4M3, 0xff)) && std::isinf(to_value(TUTTI_FLOAT8_E5M2, 0xfc)));
}

TEST(Pattern, any_order_gives_the_expected_float) {
  for (const tutti_dtype type : {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2})
    for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD})
      for (const int ranks : {2, 5, 17}) {
        const Pattern pattern{.type = type, .op = op, .ranks = ranks, .seed = 3};
        for (std::uint64_t i = 0; i < 200; ++i) {
          double result = op == TUTTI_SUM ? 0 : 1;
          for (int step = 0; step < ranks; ++step) {
            const int rank =
                static_cast<int>((mix(i) + static_cast<std::uint64_t>(step) * 3) % static_cast<std::uint64_t>(ranks));
            const double value = to_value(type, pattern.input(rank, i));
            result = op == TUTTI_SUM ? result + value : result * value;
            EXPECT_EQ(to_value(type, to_bits(type, result)), result);  // a partial result is no rounding either
          }
          EXPECT_EQ(to_bits(type, result), pattern.expected(i));
        }
      }
}

// Products of 16-bit floats with their factors are integers up to 15, of which bfloat16 can add 17 exactly.
TEST(Pattern, pre_multiplied_sums_are_exact_in_any_order) {
  bool factor_one = false, other_factor = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Pattern pattern{.type = TUTTI_BFLOAT16, .op = TUTTI_PRE_MUL_SUM, .ranks = 17, .seed = seed};
    for (std::uint64_t i = 0; i < 50; ++i) {
      double largest = 0, sum = 0;
      for (int rank = 0; rank < 17; ++rank) {
        const double factor = to_value(pattern.type, pattern.factor(rank));
        const double product = factor * to_value(pattern.type, pattern.input(rank, i));
        (factor == 1 ? factor_one : other_factor) = true;
        EXPECT_EQ(product, std::floor(product));
        largest += std::fabs(product);
        sum += product;
      }
      EXPECT_LE(largest, 256);
      EXPECT_EQ(to_value(pattern.type, pattern.expected(i)), sum);
    }
  }
  EXPECT_TRUE(factor_one && other_factor);
  const Pattern bytes{.type = TUTTI_UINT8, .op = TUTTI_PRE_MUL_SUM, .ranks = 2, .seed = 5};
  for (std::uint64_t i = 0; i < 50; ++i)
    EXPECT_EQ(bytes.expected(i), (bytes.factor(0) * bytes.input(0, i) + bytes.factor(1) * bytes.input(1, i)) % 256);
}

TEST(Pattern, integers_wrap_and_averages_truncate_towards_zero) {
  const Pattern pattern{.type = TUTTI_INT8, .op = TUTTI_AVG, .ranks = 3, .seed = 1};
  bool negative = false;
  for (std::uint64_t i = 0; i < 100; ++i) {
    int sum = 0;
    for (int rank = 0; rank < 3; ++rank) sum += static_cast<std::int8_t>(pattern.input(rank, i));
    const int wrapped = static_cast<std::int8_t>(sum);
    negative = negative || wrapped % 3 < 0;
    EXPECT_EQ(static_cast<std::int8_t>(pattern.expected(i)), wrapped / 3);
  }
  EXPECT_TRUE(negative) << "the data must tell truncation from flooring";
}

}  // namespace
}  // namespace api_test
