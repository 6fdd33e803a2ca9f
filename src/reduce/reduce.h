// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic: dtypes x operators, dispatched once per plan to the best instruction set of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/types.h"

namespace tutti::core {

/// What a first touch multiplies by: 1/ranks in averages, the user's scalar in pre-multiplied sums.
struct Factor {
  double real = 1.0;          ///< floats; fp32 is what the accumulators of narrower ones take
  std::uint64_t integer = 1;  ///< integers: two's complement, as wide as the element; the product wraps

  constexpr Factor() = default;
  constexpr Factor(double value) : real(value) {}  // NOLINT(google-explicit-constructor): a float's factor is a number
  friend constexpr bool operator==(const Factor&, const Factor&) = default;
};

/// `scalar`: one element of `type`, at any alignment; can_pre_multiply(type).
Factor read_factor(tutti_dtype type, const void* scalar);

/// One multi-input reduction: destination[i] = final(s0[i] (+) s1[i] (+) ...), evaluated left to right.
struct ReduceArgs {
  void* destination;           ///< may equal any source; no other overlap
  const void* const* sources;  ///< `source_count` pointers, any alignment
  int source_count;            ///< >= 1
  std::size_t count;           ///< elements
  int raw_source = -1;  ///< SUM, AVG: source that holds raw user data and is multiplied by `scale` first; -1: none
  Factor scale = {};    ///< applied to raw_source, rounded to the type
  std::uint64_t divisor = 0;  ///< SUM, AVG of integers, final touch: divide, truncating towards zero; 0: no division
  bool final = false;         ///< final touch: NaN becomes the canonical quiet NaN, a true bool becomes 1
};
/// 16- and 8-bit floats accumulate in fp32 and round once, to nearest even, at the end. Integers wrap. min/max: IEEE
/// 754-2019 minimum/maximum. docs/data-types.md has the table. Thread-safe, no allocation.
using ReduceKernel = void (*)(const ReduceArgs&);

/// Null for an unsupported pair. AVG shares SUM's arithmetic and differs by scale and divisor.
ReduceKernel find_reduce_kernel(tutti_dtype type, tutti_op op);

/// destination = final(first (+) second) over exactly kLineKernelBytes bytes of any alignment, which must not overlap
/// the destination: for messages of one line, padded with zeros. Same bits as the ReduceKernel of the pair.
using LineKernel = void (*)(void* destination, const void* first, const void* second);
constexpr std::size_t kLineKernelBytes = 48;

/// Null where there is none (averages, and what find_reduce_kernel has none for).
LineKernel find_line_kernel(tutti_dtype type, tutti_op op);

/// Multiplies one source by a factor: SUM with source_count 1 and raw_source 0. Null: can_pre_multiply(type) is false.
inline ReduceKernel find_scale_kernel(tutti_dtype type) {
  return can_pre_multiply(type) ? find_reduce_kernel(type, TUTTI_SUM) : nullptr;
}

enum class SimdTarget : std::uint8_t { scalar, sse4, avx2, avx512 };
/// Best target of this CPU; what find_reduce_kernel uses.
SimdTarget best_simd_target();
const char* simd_target_name(SimdTarget target);
/// For tests and micro benchmarks: null if this CPU lacks the target.
ReduceKernel find_reduce_kernel(tutti_dtype type, tutti_op op, SimdTarget target);
LineKernel find_line_kernel(tutti_dtype type, tutti_op op, SimdTarget target);

}  // namespace tutti::core
