// SPDX-License-Identifier: Apache-2.0
#include "src/reduce/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "src/reduce/kernel_table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::core {

namespace {

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows "f16c". The AVX2 check beside it covers the operating system's
// part.
bool cpu_has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

SimdTarget detect_best_target() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2")) return SimdTarget::scalar;
#if defined(TUTTI_REDUCE_ONE_VECTOR_TARGET)
  return __builtin_cpu_supports("avx2") && cpu_has_f16c() ? SimdTarget::avx2 : SimdTarget::scalar;
#else
  if (!__builtin_cpu_supports("avx2") || !cpu_has_f16c()) return SimdTarget::sse4;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? SimdTarget::avx512 : SimdTarget::avx2;
#endif
}
#else
SimdTarget detect_best_target() { return SimdTarget::scalar; }
#endif

const KernelTable* find_table(SimdTarget target) {
  if (target > best_simd_target()) return nullptr;  // targets are ordered: each includes those before it
  switch (target) {
    case SimdTarget::scalar: return &kScalarKernels;
#if defined(__x86_64__)
    case SimdTarget::avx2: return &kAvx2Kernels;
#if !defined(TUTTI_REDUCE_ONE_VECTOR_TARGET)
    case SimdTarget::sse4: return &kSse4Kernels;
    case SimdTarget::avx512: return &kAvx512Kernels;
#endif
#endif
    default: break;
  }
  return nullptr;
}

}  // namespace

SimdTarget best_simd_target() {
  static const SimdTarget best = detect_best_target();
  return best;
}

const char* simd_target_name(SimdTarget target) {
  switch (target) {
    case SimdTarget::scalar: return "scalar";
    case SimdTarget::sse4: return "sse4";
    case SimdTarget::avx2: return "avx2";
    case SimdTarget::avx512: return "avx512";
  }
  return "invalid";
}

namespace {

template <class T>
T read(const void* scalar) {
  T value;
  std::memcpy(&value, scalar, sizeof value);
  return value;
}

/// Value of a float of `mantissa` and `exponent` bits; `largest`: the last magnitude that is no NaN.
struct SmallFloat {
  int mantissa, exponent;
  unsigned largest;
  bool infinity;  ///< `largest` is infinite
};
double value_of(const SmallFloat& format, unsigned bits) {
  const unsigned magnitude = bits & ((1u << (format.mantissa + format.exponent)) - 1);
  const bool negative = bits != magnitude;
  double value = 0;
  if (magnitude > format.largest) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (format.infinity && magnitude == format.largest) {
    value = std::numeric_limits<double>::infinity();
  } else {
    const int exponent = static_cast<int>(magnitude >> format.mantissa);
    const unsigned fraction = magnitude & ((1u << format.mantissa) - 1);
    const unsigned significand = exponent == 0 ? fraction : fraction | 1u << format.mantissa;
    const int bias = (1 << (format.exponent - 1)) - 1;
    value = std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - format.mantissa);
  }
  return negative ? -value : value;
}

}  // namespace

Factor read_factor(tutti_dtype type, const void* scalar) {
  Factor factor;
  switch (type) {
    case TUTTI_INT8:
    case TUTTI_UINT8: factor.integer = read<std::uint8_t>(scalar); break;
    case TUTTI_INT32:
    case TUTTI_UINT32: factor.integer = read<std::uint32_t>(scalar); break;
    case TUTTI_INT64:
    case TUTTI_UINT64: factor.integer = read<std::uint64_t>(scalar); break;
    case TUTTI_FLOAT16: factor.real = value_of({10, 5, 0x7c00, true}, read<std::uint16_t>(scalar)); break;
    case TUTTI_BFLOAT16: factor.real = value_of({7, 8, 0x7f80, true}, read<std::uint16_t>(scalar)); break;
    case TUTTI_FLOAT32: factor.real = static_cast<double>(read<float>(scalar)); break;
    case TUTTI_FLOAT64: factor.real = read<double>(scalar); break;
    case TUTTI_FLOAT8_E4M3: factor.real = value_of({3, 4, 0x7e, false}, read<std::uint8_t>(scalar)); break;
    case TUTTI_FLOAT8_E5M2: factor.real = value_of({2, 5, 0x7c, true}, read<std::uint8_t>(scalar)); break;
    case TUTTI_BOOL:
    case TUTTI_DTYPE_COUNT: break;
  }
  return factor;
}

ReduceKernel find_reduce_kernel(tutti_dtype type, tutti_op op) {
  return find_reduce_kernel(type, op, best_simd_target());
}

LineKernel find_line_kernel(tutti_dtype type, tutti_op op) { return find_line_kernel(type, op, best_simd_target()); }

LineKernel find_line_kernel(tutti_dtype type, tutti_op op, SimdTarget target) {
  if (static_cast<unsigned>(type) >= TUTTI_DTYPE_COUNT || static_cast<unsigned>(op) >= TUTTI_OP_COUNT) return nullptr;
  const KernelTable* table = find_table(target);
  return table == nullptr ? nullptr : table->lines[type][op];
}

ReduceKernel find_reduce_kernel(tutti_dtype type, tutti_op op, SimdTarget target) {
  if (static_cast<unsigned>(type) >= TUTTI_DTYPE_COUNT || static_cast<unsigned>(op) >= TUTTI_OP_COUNT) return nullptr;
  const KernelTable* table = find_table(target);
  return table == nullptr ? nullptr : table->kernels[type][op];
}

}  // namespace tutti::core
