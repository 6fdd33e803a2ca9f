// SPDX-License-Identifier: Apache-2.0
// Target avx2: AVX2 and F16C, 32-byte vectors.
#define TUTTI_REDUCE_VECTOR_BYTES 32
#include "src/reduce/kernel_table.h"
#include "src/reduce/kernels.inl"

namespace tutti::core {
constinit const KernelTable kAvx2Kernels = make_kernel_table();
}  // namespace tutti::core
