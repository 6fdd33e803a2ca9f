// SPDX-License-Identifier: Apache-2.0
// The scalar target against the oracle; targets_test.cc ties the other targets to it.
#include <gtest/gtest.h>

#include <string>

#include "tests/reduce/oracle.h"

namespace tutti::core {
namespace {

using Sources = std::vector<std::vector<char>>;

std::vector<std::uint64_t> elements_at(const Sources& sources, std::size_t index, std::size_t bytes) {
  std::vector<std::uint64_t> elements;
  for (const std::vector<char>& source : sources)
    elements.push_back(load_element(source.data() + index * bytes, bytes));
  return elements;
}

void expect_definition(tutti_dtype type, const OracleCall& call, const Sources& sources, bool final) {
  const std::size_t bytes = dtype_bytes(type), count = sources[0].size() / bytes;
  std::vector<const void*> pointers;
  for (const std::vector<char>& source : sources) pointers.push_back(source.data());
  std::vector<char> result(count * bytes);
  find_reduce_kernel(type, call.op, SimdTarget::scalar)(ReduceArgs{.destination = result.data(),
                                                                   .sources = pointers.data(),
                                                                   .source_count = static_cast<int>(pointers.size()),
                                                                   .count = count,
                                                                   .raw_source = call.raw_source,
                                                                   .scale = call.scale,
                                                                   .divisor = call.divisor,
                                                                   .final = final});
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t expected = reduce_by_definition(type, call, elements_at(sources, i, bytes));
    if (final && is_nan_bits(type, expected)) expected = canonical_nan(type);
    if (type == TUTTI_BOOL && sources.size() == 1 && !final)
      expected = load_element(sources[0].data() + i, 1);  // a copy
    const std::uint64_t got = load_element(result.data() + i * bytes, bytes);
    ASSERT_TRUE(same_element(type, expected, got, final))
        << dtype_name(type) << " " << op_name(call.op) << " of " << sources.size() << " sources, raw "
        << call.raw_source << " scale " << call.scale.real << " or " << call.scale.integer << " divisor "
        << call.divisor << " final " << final << " element " << i << ": expected 0x" << std::hex << expected
        << " got 0x" << got;
  }
}

class ReduceReference : public testing::TestWithParam<int> {};

TEST_P(ReduceReference, scalar_kernels_agree_with_the_oracle) {
  const auto type = static_cast<tutti_dtype>(GetParam());
  OperandSource operands(static_cast<std::uint64_t>(GetParam()) + 1);
  constexpr std::size_t kCount = 1500;  // more than one block of 4-byte accumulators
  for (tutti_op op : ops_of(type))
    for (int source_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17})
      for (bool final : {false, true}) {
        Sources sources(static_cast<std::size_t>(source_count), std::vector<char>(kCount * dtype_bytes(type)));
        for (std::vector<char>& source : sources) operands.fill(type, source.data(), kCount);
        OracleCall call{.op = op};
        expect_definition(type, call, sources, final);
        call.scale = 1.0 / (1 + operands.below(64));
        call.scale.integer = operands.word();
        call.raw_source = operands.below(source_count);
        expect_definition(type, call, sources, final);
        call.raw_source = -1;
        if (!is_float(type) && !call.scales()) {
          call.divisor = 3;  // which is ignored
          expect_definition(type, call, sources, final);
        } else if (!is_float(type)) {
          const std::uint64_t divisors[] = {
              1, 2, 3, 7, 128, 255, 256, 1u << 31, ~std::uint64_t{0} >> operands.below(64)};
          for (std::uint64_t divisor : divisors) {
            call.divisor = divisor;
            expect_definition(type, call, sources, final);
          }
        }
        if (HasFatalFailure()) return;
      }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, ReduceReference, testing::Range(0, static_cast<int>(TUTTI_DTYPE_COUNT)),
                         [](const testing::TestParamInfo<int>& parameter) {
                           return std::string(dtype_name(static_cast<tutti_dtype>(parameter.param)));
                         });

TEST(ReduceReferenceValues, integer_average_truncates_towards_zero_and_sums_wrap) {
  const std::int8_t a[] = {-7, 7, 100, -128, -128}, b[] = {0, 0, 100, -128, 0};
  const std::int8_t expected[] = {-3, 3, -28, 0, -64};  // 200 wraps to -56, -256 to 0
  const void* sources[] = {a, b};
  for (SimdTarget target : targets_of_this_machine()) {
    std::int8_t result[5] = {};
    find_reduce_kernel(TUTTI_INT8, TUTTI_AVG, target)(
        ReduceArgs{.destination = result, .sources = sources, .source_count = 2, .count = 5, .divisor = 2});
    EXPECT_EQ(std::memcmp(result, expected, sizeof result), 0) << simd_target_name(target);
  }
}

TEST(ReduceReferenceValues, narrow_sums_round_once_at_the_end) {
  // x + u/2 + u/2, u the unit of x: rounding after each sum would stay at x, as each is a tie and x is even. More
  // halves than fit into one sweep show that accumulators are not rounded between sweeps.
  struct Case {
    tutti_dtype type;
    std::uint16_t x, half_unit;
  };
  const Case cases[] = {{TUTTI_BFLOAT16, 0x3f80, 0x3b80},  // 1, 2^-8
                        {TUTTI_FLOAT16, 0x6800, 0x3c00},   // 2048, 1
                        {TUTTI_FLOAT8_E4M3, 0x58, 0x38},   // 16, 1
                        {TUTTI_FLOAT8_E5M2, 0x44, 0x38}};  // 4, 1/2
  constexpr std::size_t kCount = 100;
  for (const Case& c : cases)
    for (SimdTarget target : targets_of_this_machine())
      for (int inputs = 2; inputs <= 9; ++inputs) {
        const std::size_t bytes = dtype_bytes(c.type);
        std::vector<char> first(kCount * bytes), others(first.size()), result(first.size());
        for (std::size_t i = 0; i < kCount; ++i) {
          std::memcpy(first.data() + i * bytes, &c.x, bytes);
          std::memcpy(others.data() + i * bytes, &c.half_unit, bytes);
        }
        std::vector<const void*> sources(static_cast<std::size_t>(inputs), others.data());
        sources[0] = first.data();
        find_reduce_kernel(c.type, TUTTI_SUM, target)(ReduceArgs{
            .destination = result.data(), .sources = sources.data(), .source_count = inputs, .count = kCount});
        // Halves: an odd number ties, and goes to the even code. The largest sums stay in the binade of x.
        const int halves = inputs - 1, up = halves / 2 + (halves % 2 == 1 && halves / 2 % 2 == 1 ? 1 : 0);
        for (std::size_t i = 0; i < kCount; ++i)
          ASSERT_EQ(load_element(result.data() + i * bytes, bytes), static_cast<std::uint64_t>(c.x + up))
              << dtype_name(c.type) << " " << simd_target_name(target) << " " << inputs << " inputs, element " << i;
      }
}

TEST(ReduceReferenceValues, sums_associate_from_the_left) {
  const float big = 0x1p24f, one = 1, minus_big = -0x1p24f;
  const void* cancelled[] = {&big, &minus_big, &one};
  const void* absorbed[] = {&one, &big, &minus_big};
  for (SimdTarget target : targets_of_this_machine()) {
    const ReduceKernel kernel = find_reduce_kernel(TUTTI_FLOAT32, TUTTI_SUM, target);
    float result = -1;
    kernel(ReduceArgs{.destination = &result, .sources = cancelled, .source_count = 3, .count = 1});
    EXPECT_EQ(result, 1.0f) << simd_target_name(target);
    kernel(ReduceArgs{.destination = &result, .sources = absorbed, .source_count = 3, .count = 1});
    EXPECT_EQ(result, 0.0f) << simd_target_name(target);
  }
}

}  // namespace
}  // namespace tutti::core
