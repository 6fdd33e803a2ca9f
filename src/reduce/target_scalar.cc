// SPDX-License-Identifier: Apache-2.0
// Target scalar: portable C++, no explicit vectors: the reference of the others, and the only target off x86-64.
#define TUTTI_REDUCE_VECTOR_BYTES 0
#include "src/reduce/kernel_table.h"
#include "src/reduce/kernels.inl"

namespace tutti::core {
constinit const KernelTable kScalarKernels = make_kernel_table();
}  // namespace tutti::core
