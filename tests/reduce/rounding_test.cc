// SPDX-License-Identifier: Apache-2.0
// All patterns of the 16- and 8-bit floats, widened and narrowed, on every target. A single source 1.0 scaled by x puts
// any fp32 value x before the narrowing; the count reaches the widest vectors, the 16-byte ones, and single elements.
#include <gtest/gtest.h>

#include "tests/reduce/oracle.h"

namespace tutti::core {
namespace {

struct Case {
  tutti_dtype type;
  double (*widen)(std::uint64_t);
  std::uint64_t (*narrow)(double);
  std::uint16_t one;
  std::uint64_t limit;  ///< code after the largest finite one

  std::size_t bytes() const { return dtype_bytes(type); }
  std::size_t patterns() const { return std::size_t{1} << (8 * bytes()); }
};
const Case kCases[] = {
    {TUTTI_FLOAT16, widen_by_definition<Float16Format>, narrow_by_definition<Float16Format>, 0x3c00, 0x7c00},
    {TUTTI_BFLOAT16, widen_by_definition<Bfloat16Format>, narrow_by_definition<Bfloat16Format>, 0x3f80, 0x7f80},
    {TUTTI_FLOAT8_E4M3, widen_by_definition<E4m3Format>, narrow_by_definition<E4m3Format>, 0x38, 0x7f},
    {TUTTI_FLOAT8_E5M2, widen_by_definition<E5m2Format>, narrow_by_definition<E5m2Format>, 0x3c, 0x7c},
};

/// Elements of one type, read and written by their bits.
struct Elements {
  explicit Elements(const Case& format, std::size_t count) : bytes(format.bytes()), memory(count * bytes) {}
  std::size_t count() const { return memory.size() / bytes; }
  std::uint64_t operator[](std::size_t i) const { return load_element(memory.data() + i * bytes, bytes); }
  void set(std::size_t i, std::uint64_t bits) { std::memcpy(memory.data() + i * bytes, &bits, bytes); }
  std::size_t bytes;
  std::vector<char> memory;
};

Elements all_patterns(const Case& format) {
  Elements patterns(format, format.patterns());
  for (std::size_t i = 0; i < format.patterns(); ++i) patterns.set(i, i);
  return patterns;
}

Elements many_ones(const Case& format) {
  Elements ones(format, 64 + 16 + 3);  // the widest register of any target, the narrow one, and single elements
  for (std::size_t i = 0; i < ones.count(); ++i) ones.set(i, format.one);
  return ones;
}

struct Scaled {
  ReduceKernel kernel;
  double scale;
  bool final;
};

void scale_into(const Scaled& call, const Elements& in, Elements& out) {
  const void* source = in.memory.data();
  call.kernel(ReduceArgs{.destination = out.memory.data(),
                         .sources = &source,
                         .source_count = 1,
                         .count = in.count(),
                         .raw_source = 0,
                         .scale = call.scale,
                         .final = call.final});
}

void expect_all(const Case& format, const Elements& result, std::uint64_t expected, const std::string& what) {
  for (std::size_t i = 0; i < result.count(); ++i)
    ASSERT_EQ(expected, result[i]) << dtype_name(format.type) << " " << what << ", element " << i;
}

TEST(ReduceRounding, every_pattern_survives_widening_and_narrowing) {
  for (const Case& format : kCases) {
    const Elements patterns = all_patterns(format);
    Elements result = patterns;
    for (SimdTarget target : targets_of_this_machine())
      for (bool final : {false, true}) {
        scale_into({find_reduce_kernel(format.type, TUTTI_SUM, target), 1.0, final}, patterns, result);
        for (std::size_t i = 0; i < format.patterns(); ++i) {
          const std::uint64_t expected = is_nan_bits(format.type, i) ? canonical_nan(format.type) : i;
          ASSERT_TRUE(same_element(format.type, expected, result[i], final))
              << dtype_name(format.type) << " " << simd_target_name(target) << " 0x" << std::hex << i << " became 0x"
              << result[i];
        }
      }
  }
}

TEST(ReduceRounding, every_pattern_widens_to_its_value) {
  // Scaled by 3, 0.7 and powers of two the value itself, not only its bits, matters.
  for (const Case& format : kCases) {
    const Elements patterns = all_patterns(format);
    Elements result = patterns;
    for (SimdTarget target : targets_of_this_machine())
      for (double scale : {3.0, 0.7, 0x1p-9, 0x1p+9}) {
        scale_into({find_reduce_kernel(format.type, TUTTI_SUM, target), scale, true}, patterns, result);
        for (std::size_t i = 0; i < format.patterns(); ++i) {
          const float product = static_cast<float>(format.widen(i) * static_cast<double>(static_cast<float>(scale)));
          ASSERT_EQ(format.narrow(static_cast<double>(product)), result[i])
              << dtype_name(format.type) << " " << simd_target_name(target) << " 0x" << std::hex << i << " x " << scale;
        }
      }
  }
}

TEST(ReduceRounding, ties_go_to_even_and_neighbours_of_ties_do_not) {
  for (const Case& format : kCases) {
    const Elements ones = many_ones(format);
    Elements result = ones;
    for (SimdTarget target : targets_of_this_machine()) {
      const ReduceKernel kernel = find_reduce_kernel(format.type, TUTTI_SUM, target);
      for (std::uint64_t bits = 0; bits < format.limit; ++bits) {
        const double low = format.widen(bits);
        const double ulp = bits + 1 < format.limit ? format.widen(bits + 1) - low : low - format.widen(bits - 1);
        const float tie = static_cast<float>(low + ulp / 2);
        for (float x : {tie, std::nextafterf(tie, 0.0f), std::nextafterf(tie, 2 * tie), -tie}) {
          scale_into({kernel, static_cast<double>(x), false}, ones, result);
          expect_all(format, result, format.narrow(static_cast<double>(x)), simd_target_name(target));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(ReduceRounding, random_and_extreme_fp32_values_narrow_like_the_oracle) {
  OperandSource operands(7);
  for (const Case& format : kCases) {
    const Elements ones = many_ones(format);
    Elements result = ones;
    for (SimdTarget target : targets_of_this_machine())
      for (int i = 0; i < 30000; ++i) {
        const float extremes[] = {449, 464, 465, 480, 57345, 61439, 61440, 65536, 0x1p127f, 0x1p-127f, 0x1p-149f};
        float x = 0;
        operands.fill(TUTTI_FLOAT32, &x, 1);
        if (i < 22) x = i % 2 == 0 ? extremes[i / 2] : -extremes[i / 2];
        scale_into({find_reduce_kernel(format.type, TUTTI_SUM, target), static_cast<double>(x), true}, ones, result);
        expect_all(format, result, format.narrow(static_cast<double>(x)), simd_target_name(target));
        if (HasFatalFailure()) return;
      }
  }
}

}  // namespace
}  // namespace tutti::core
