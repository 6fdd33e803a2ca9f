// SPDX-License-Identifier: Apache-2.0
// The kernels for one line give the bits of the kernels for anything.
#include <gtest/gtest.h>

#include <string>

#include "tests/reduce/reduce_testing.h"

namespace tutti::core {
namespace {

class ReduceLine : public testing::TestWithParam<int> {};

TEST_P(ReduceLine, gives_the_bits_of_the_general_kernel_on_every_target) {
  const auto type = static_cast<tutti_dtype>(GetParam());
  const std::size_t bytes = dtype_bytes(type), count = kLineKernelBytes / bytes;
  OperandSource operands(static_cast<std::uint64_t>(GetParam()) + 7);
  int kernels = 0;
  for (int op = 0; op < TUTTI_OP_COUNT; ++op)
    for (SimdTarget target : targets_of_this_machine()) {
      const auto which = static_cast<tutti_op>(op);
      const LineKernel line = find_line_kernel(type, which, target);
      if (!line) continue;
      ++kernels;
      const ReduceKernel general = find_reduce_kernel(type, which, SimdTarget::scalar);
      ASSERT_NE(general, nullptr);
      for (int round = 0; round < 300; ++round) {
        char first[kLineKernelBytes + 1], second[kLineKernelBytes + 1], got[kLineKernelBytes + 2], want[sizeof got];
        operands.fill(type, first + 1, count);  // any alignment
        operands.fill(type, second, count);
        std::memset(got, 0x5a, sizeof got);
        std::memset(want, 0x5a, sizeof want);
        line(got + 1, first + 1, second);
        const void* const sources[] = {first + 1, second};
        general(
            ReduceArgs{.destination = want + 1, .sources = sources, .source_count = 2, .count = count, .final = true});
        ASSERT_EQ(got[0], want[0]);
        ASSERT_EQ(got[kLineKernelBytes + 1], want[kLineKernelBytes + 1]) << "written beyond the line";
        for (std::size_t at = 1; at <= kLineKernelBytes; at += bytes) {
          const std::uint64_t a = load_element(want + at, bytes), b = load_element(got + at, bytes);
          ASSERT_TRUE(same_element(type, a, b, true)) << simd_target_name(target) << " " << op_name(which) << " byte "
                                                      << at - 1 << std::hex << " want 0x" << a << " got 0x" << b;
        }
      }
    }
  EXPECT_GT(kernels, 0);
}
INSTANTIATE_TEST_SUITE_P(AllTypes, ReduceLine, testing::Range(0, static_cast<int>(TUTTI_DTYPE_COUNT)),
                         [](const auto& instance) {
                           return std::string(dtype_name(static_cast<tutti_dtype>(instance.param)));
                         });

TEST(ReduceLineTable, averages_have_none) { EXPECT_EQ(find_line_kernel(TUTTI_FLOAT32, TUTTI_AVG), nullptr); }

}  // namespace
}  // namespace tutti::core
