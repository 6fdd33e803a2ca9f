// SPDX-License-Identifier: Apache-2.0
// Scalars of pre-multiplied sums: read from the user's memory, multiplied on every target.
#include <gtest/gtest.h>

#include "tests/reduce/oracle.h"

namespace tutti::core {
namespace {

template <class T>
Factor factor_of_bits(tutti_dtype type, T bits) {
  char unaligned[1 + sizeof bits];
  std::memcpy(unaligned + 1, &bits, sizeof bits);
  return read_factor(type, unaligned + 1);
}

TEST(ReduceFactor, floats_are_read_exactly) {
  EXPECT_EQ(factor_of_bits(TUTTI_FLOAT32, 0.1f).real, static_cast<double>(0.1f));
  EXPECT_EQ(factor_of_bits(TUTTI_FLOAT64, 0.1).real, 0.1);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const double half = widen_by_definition<Float16Format>(bits), brain = widen_by_definition<Bfloat16Format>(bits);
    const double read_half = factor_of_bits(TUTTI_FLOAT16, narrow).real;
    const double read_brain = factor_of_bits(TUTTI_BFLOAT16, narrow).real;
    ASSERT_TRUE(std::isnan(half) ? std::isnan(read_half) : half == read_half) << bits;
    ASSERT_TRUE(std::isnan(brain) ? std::isnan(read_brain) : brain == read_brain) << bits;
    ASSERT_EQ(std::signbit(half), std::signbit(read_half)) << bits;
  }
  for (std::uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto narrow = static_cast<std::uint8_t>(bits);
    const double e4m3 = widen_by_definition<E4m3Format>(bits), e5m2 = widen_by_definition<E5m2Format>(bits);
    const double read_e4m3 = factor_of_bits(TUTTI_FLOAT8_E4M3, narrow).real;
    const double read_e5m2 = factor_of_bits(TUTTI_FLOAT8_E5M2, narrow).real;
    ASSERT_TRUE(std::isnan(e4m3) ? std::isnan(read_e4m3) : e4m3 == read_e4m3) << bits;
    ASSERT_TRUE(std::isnan(e5m2) ? std::isnan(read_e5m2) : e5m2 == read_e5m2) << bits;
  }
}

TEST(ReduceFactor, integers_are_read_and_products_wrap) {
  const std::int8_t bytes[] = {1, 100, -128, -1}, byte_products[] = {-3, -44, -128, 3};
  const std::int64_t words[] = {1, INT64_MAX, -1}, word_products[] = {-3, INT64_MIN + 3, 3};
  for (SimdTarget target : targets_of_this_machine()) {
    std::int8_t byte_result[4] = {};
    const void* source = bytes;
    find_reduce_kernel(TUTTI_INT8, TUTTI_SUM, target)(ReduceArgs{.destination = byte_result,
                                                                 .sources = &source,
                                                                 .source_count = 1,
                                                                 .count = 4,
                                                                 .raw_source = 0,
                                                                 .scale = factor_of_bits(TUTTI_INT8, std::int8_t{-3})});
    EXPECT_EQ(std::memcmp(byte_result, byte_products, sizeof byte_products), 0) << simd_target_name(target);
    std::int64_t word_result[3] = {};
    source = words;
    find_reduce_kernel(TUTTI_INT64, TUTTI_SUM,
                       target)(ReduceArgs{.destination = word_result,
                                          .sources = &source,
                                          .source_count = 1,
                                          .count = 3,
                                          .raw_source = 0,
                                          .scale = factor_of_bits(TUTTI_INT64, std::int64_t{-3})});
    EXPECT_EQ(std::memcmp(word_result, word_products, sizeof word_products), 0) << simd_target_name(target);
  }
}

TEST(ReduceFactor, only_that_of_a_pre_multiplied_sum_counts) {
  // min and max take no factor: raw_source is ignored there.
  const float a = 2, b = 3;
  const void* sources[] = {&a, &b};
  for (SimdTarget target : targets_of_this_machine())
    for (tutti_op op : {TUTTI_MIN, TUTTI_MAX, TUTTI_PROD, TUTTI_SUM}) {
      float result = 0;
      find_reduce_kernel(TUTTI_FLOAT32, op, target)(ReduceArgs{
          .destination = &result, .sources = sources, .source_count = 2, .count = 1, .raw_source = 0, .scale = 10.0});
      const float wanted = op == TUTTI_MIN ? 2 : op == TUTTI_MAX ? 3 : op == TUTTI_PROD ? 6 : 23;
      EXPECT_EQ(result, wanted) << simd_target_name(target) << " " << op_name(op);
    }
}

TEST(ReduceFactor, minus_zero_gives_the_sign_to_every_lane) {
  const std::vector<float> ones(37, 1.0f);
  std::vector<float> result(ones.size());
  const void* source = ones.data();
  for (SimdTarget target : targets_of_this_machine()) {
    find_reduce_kernel(TUTTI_FLOAT32, TUTTI_SUM, target)(ReduceArgs{.destination = result.data(),
                                                                    .sources = &source,
                                                                    .source_count = 1,
                                                                    .count = ones.size(),
                                                                    .raw_source = 0,
                                                                    .scale = -0.0});
    for (float value : result) EXPECT_TRUE(value == 0 && std::signbit(value)) << simd_target_name(target);
  }
}

}  // namespace
}  // namespace tutti::core
