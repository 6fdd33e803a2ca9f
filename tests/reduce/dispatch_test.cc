// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/reduce/reduce_testing.h"

namespace tutti::core {
namespace {

/// Sanitized builds leave out all vector targets but one: src/reduce/CMakeLists.txt.
bool is_built(SimdTarget target) {
#if defined(TUTTI_REDUCE_ONE_VECTOR_TARGET)
  return target == SimdTarget::scalar || target == SimdTarget::avx2;
#else
  (void)target;
  return true;
#endif
}

TEST(ReduceDispatch, every_supported_pair_has_a_kernel_on_every_target_up_to_the_best) {
  for (SimdTarget target : kAllTargets)
    for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type)
      for (int op = 0; op < TUTTI_OP_COUNT; ++op) {
        const ReduceKernel kernel =
            find_reduce_kernel(static_cast<tutti_dtype>(type), static_cast<tutti_op>(op), target);
        const bool supported = is_supported(static_cast<tutti_dtype>(type), static_cast<tutti_op>(op));
        EXPECT_EQ(kernel != nullptr, supported && target <= best_simd_target() && is_built(target))
            << simd_target_name(target) << " " << dtype_name(static_cast<tutti_dtype>(type)) << " "
            << op_name(static_cast<tutti_op>(op));
      }
}

TEST(ReduceDispatch, default_kernel_is_that_of_the_best_target) {
  for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type)
    for (int op = 0; op < TUTTI_OP_COUNT; ++op)
      EXPECT_EQ(find_reduce_kernel(static_cast<tutti_dtype>(type), static_cast<tutti_op>(op)),
                find_reduce_kernel(static_cast<tutti_dtype>(type), static_cast<tutti_op>(op), best_simd_target()));
}

TEST(ReduceDispatch, floats_have_no_bitwise_operators_and_bool_no_average) {
  int unsupported = 0;
  for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type)
    for (int op = 0; op < TUTTI_OP_COUNT; ++op)
      unsupported += !is_supported(static_cast<tutti_dtype>(type), static_cast<tutti_op>(op));
  EXPECT_EQ(unsupported, 6 * 3 + 1);
  EXPECT_FALSE(is_supported(TUTTI_FLOAT8_E4M3, TUTTI_BAND));
  EXPECT_FALSE(is_supported(TUTTI_BOOL, TUTTI_AVG));
  EXPECT_TRUE(is_supported(TUTTI_BOOL, TUTTI_BXOR));
  EXPECT_EQ(find_scale_kernel(TUTTI_BOOL), nullptr);
  EXPECT_EQ(find_scale_kernel(TUTTI_INT8), find_reduce_kernel(TUTTI_INT8, TUTTI_SUM));
}

TEST(ReduceDispatch, unknown_type_or_operator_has_no_kernel) {
  EXPECT_EQ(find_reduce_kernel(static_cast<tutti_dtype>(TUTTI_DTYPE_COUNT), TUTTI_SUM), nullptr);
  EXPECT_EQ(find_reduce_kernel(TUTTI_FLOAT32, static_cast<tutti_op>(TUTTI_OP_COUNT)), nullptr);
}

TEST(ReduceDispatch, targets_have_names) {
  EXPECT_STREQ(simd_target_name(SimdTarget::scalar), "scalar");
  EXPECT_STREQ(simd_target_name(SimdTarget::sse4), "sse4");
  EXPECT_STREQ(simd_target_name(SimdTarget::avx2), "avx2");
  EXPECT_STREQ(simd_target_name(SimdTarget::avx512), "avx512");
}

}  // namespace
}  // namespace tutti::core
