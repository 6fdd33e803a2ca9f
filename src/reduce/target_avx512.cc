// SPDX-License-Identifier: Apache-2.0
// Target avx512: AVX-512 F, BW, DQ, VL; 64-byte vectors.
#define TUTTI_REDUCE_VECTOR_BYTES 64
#include "src/reduce/kernel_table.h"
#include "src/reduce/kernels.inl"

namespace tutti::core {
constinit const KernelTable kAvx512Kernels = make_kernel_table();
}  // namespace tutti::core
