// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic: dtypes x operators, dispatched once per plan to the best instruction set of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/types.h"

namespace tutti::core {

/// One multi-input reduction: destination[i] = final(s0[i] (+) s1[i] (+) ...), evaluated left to right.
struct ReduceArgs {
  void* destination;           ///< may equal any source; no other overlap
  const void* const* sources;  ///< `source_count` pointers, any alignment
  int source_count;            ///< >= 1
  std::size_t count;           ///< elements
  int raw_source = -1;  ///< index of the source that holds raw user data and is multiplied by `scale` first; -1: none
  double scale = 1.0;   ///< float averages: 1/ranks, applied to raw_source, rounded to the type
  std::uint64_t divisor = 0;  ///< integer averages, final touch: divide, truncating towards zero; 0: no division
  bool final = false;         ///< final touch: NaN becomes the canonical quiet NaN (sign 0, payload 0)
};
/// 16-bit floats accumulate in fp32 and round once, to nearest even, at the end. Integers wrap. min/max: IEEE 754-2019
/// minimum/maximum. Thread-safe, no allocation.
using ReduceKernel = void (*)(const ReduceArgs&);

/// Null for an unsupported pair. AVG shares SUM's arithmetic and differs by scale and divisor.
ReduceKernel find_reduce_kernel(tutti_dtype type, tutti_op op);

/// destination = final(first (+) second) over exactly kLineKernelBytes bytes of any alignment, which must not overlap
/// the destination: for messages of one line, padded with zeros. Same bits as the ReduceKernel of the pair.
using LineKernel = void (*)(void* destination, const void* first, const void* second);
constexpr std::size_t kLineKernelBytes = 48;

/// Null where there is none (averages, and what find_reduce_kernel has none for).
LineKernel find_line_kernel(tutti_dtype type, tutti_op op);

enum class SimdTarget : std::uint8_t { scalar, sse4, avx2, avx512 };
/// Best target of this CPU; what find_reduce_kernel uses.
SimdTarget best_simd_target();
const char* simd_target_name(SimdTarget target);
/// For tests and micro benchmarks: null if this CPU lacks the target.
ReduceKernel find_reduce_kernel(tutti_dtype type, tutti_op op, SimdTarget target);
LineKernel find_line_kernel(tutti_dtype type, tutti_op op, SimdTarget target);

}  // namespace tutti::core
