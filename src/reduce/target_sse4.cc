// SPDX-License-Identifier: Apache-2.0
// Target sse4: SSE4.2, 16-byte vectors.
#define TUTTI_REDUCE_VECTOR_BYTES 16
#include "src/reduce/kernel_table.h"
#include "src/reduce/kernels.inl"

namespace tutti::core {
constinit const KernelTable kSse4Kernels = make_kernel_table();
}  // namespace tutti::core
