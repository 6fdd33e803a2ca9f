// SPDX-License-Identifier: Apache-2.0
// The tables that connect the translation units, one per instruction set, with the dispatch in reduce.cc.
#pragma once

#include "src/reduce/reduce.h"

namespace tutti::core {

/// Kernels of one target, by element type and operator.
struct KernelTable {
  ReduceKernel kernels[TUTTI_DTYPE_COUNT][TUTTI_OP_COUNT];
  LineKernel lines[TUTTI_DTYPE_COUNT][TUTTI_OP_COUNT];
};

extern const KernelTable kScalarKernels;
#if defined(__x86_64__)
extern const KernelTable kSse4Kernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
#endif

}  // namespace tutti::core
