// SPDX-License-Identifier: Apache-2.0
// All 2^16 patterns of the 16-bit floats, widened and narrowed, on every target. A single source 1.0 scaled by x puts
// any fp32 value x before the narrowing; the count reaches the widest vectors, the 16-byte ones, and single elements.
#include <gtest/gtest.h>

#include "tests/reduce/oracle.h"

namespace tutti::core {
namespace {

constexpr std::size_t kPatterns = 1 << 16;

struct Case {
  tutti_dtype type;
  double (*widen)(std::uint64_t);
  std::uint64_t (*narrow)(double);
  std::uint16_t one;
};
const Case kCases[] = {
    {TUTTI_FLOAT16, widen_by_definition<Float16Format>, narrow_by_definition<Float16Format>, 0x3c00},
    {TUTTI_BFLOAT16, widen_by_definition<Bfloat16Format>, narrow_by_definition<Bfloat16Format>, 0x3f80},
};

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(kPatterns);
  for (std::size_t i = 0; i < kPatterns; ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

struct Scaled {
  ReduceKernel kernel;
  double scale;
  bool final;
};

void scale_into(const Scaled& call, const std::vector<std::uint16_t>& in, std::vector<std::uint16_t>& out) {
  const void* source = in.data();
  out.resize(in.size());
  call.kernel(ReduceArgs{.destination = out.data(),
                         .sources = &source,
                         .source_count = 1,
                         .count = in.size(),
                         .raw_source = 0,
                         .scale = call.scale,
                         .final = call.final});
}

TEST(ReduceRounding, every_pattern_survives_widening_and_narrowing) {
  const std::vector<std::uint16_t> patterns = all_patterns();
  std::vector<std::uint16_t> result;
  for (const Case& format : kCases)
    for (SimdTarget target : targets_of_this_machine())
      for (bool final : {false, true}) {
        scale_into({find_reduce_kernel(format.type, TUTTI_SUM, target), 1.0, final}, patterns, result);
        for (std::size_t i = 0; i < kPatterns; ++i) {
          const std::uint64_t expected = is_nan_bits(format.type, i) ? canonical_nan(format.type) : i;
          ASSERT_TRUE(same_element(format.type, expected, result[i], final))
              << dtype_name(format.type) << " " << simd_target_name(target) << " 0x" << std::hex << i << " became 0x"
              << result[i];
        }
      }
}

TEST(ReduceRounding, every_pattern_widens_to_its_value) {
  // Scaled by 3, 0.7 and powers of two the value itself, not only its bits, matters.
  const std::vector<std::uint16_t> patterns = all_patterns();
  std::vector<std::uint16_t> result;
  for (const Case& format : kCases)
    for (SimdTarget target : targets_of_this_machine())
      for (double scale : {3.0, 0.7, 0x1p-9, 0x1p+9}) {
        scale_into({find_reduce_kernel(format.type, TUTTI_SUM, target), scale, true}, patterns, result);
        for (std::size_t i = 0; i < kPatterns; ++i) {
          const float product = static_cast<float>(format.widen(i) * static_cast<double>(static_cast<float>(scale)));
          ASSERT_EQ(format.narrow(static_cast<double>(product)), result[i])
              << dtype_name(format.type) << " " << simd_target_name(target) << " 0x" << std::hex << i << " x " << scale;
        }
      }
}

TEST(ReduceRounding, ties_go_to_even_and_neighbours_of_ties_do_not) {
  std::vector<std::uint16_t> ones, result;
  for (const Case& format : kCases) {
    ones.assign(16 + 8 + 4 + 1, format.one);  // one vector of each target and one single element
    const std::uint64_t infinity = exponent_mask(format.type);
    for (SimdTarget target : targets_of_this_machine()) {
      const ReduceKernel kernel = find_reduce_kernel(format.type, TUTTI_SUM, target);
      for (std::uint64_t bits = 0; bits < infinity; ++bits) {
        const double low = format.widen(bits);
        const double ulp = bits + 1 < infinity ? format.widen(bits + 1) - low : low - format.widen(bits - 1);
        const float tie = static_cast<float>(low + ulp / 2);
        for (float x : {tie, std::nextafterf(tie, 0.0f), std::nextafterf(tie, 2 * tie), -tie}) {
          scale_into({kernel, static_cast<double>(x), false}, ones, result);
          const std::uint64_t expected = format.narrow(static_cast<double>(x));
          for (std::uint16_t got : result)
            ASSERT_EQ(expected, got) << dtype_name(format.type) << " " << simd_target_name(target) << " tie above 0x"
                                     << std::hex << bits << " value " << x;
        }
      }
    }
  }
}

TEST(ReduceRounding, random_fp32_values_narrow_like_the_oracle) {
  OperandSource operands(7);
  std::vector<std::uint16_t> ones, result;
  for (const Case& format : kCases) {
    ones.assign(29, format.one);
    for (SimdTarget target : targets_of_this_machine())
      for (int i = 0; i < 100000; ++i) {
        float x = 0;
        operands.fill(TUTTI_FLOAT32, &x, 1);
        scale_into({find_reduce_kernel(format.type, TUTTI_SUM, target), static_cast<double>(x), true}, ones, result);
        const std::uint64_t expected = format.narrow(static_cast<double>(x));
        for (std::uint16_t got : result)
          ASSERT_EQ(expected, got) << dtype_name(format.type) << " " << simd_target_name(target) << " value " << x;
      }
  }
}

}  // namespace
}  // namespace tutti::core
