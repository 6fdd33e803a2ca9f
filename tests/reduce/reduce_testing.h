// SPDX-License-Identifier: Apache-2.0
// What the reduction tests share: targets of this machine, operands with special values, comparison of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/reduce/reduce.h"

namespace tutti::core {

constexpr SimdTarget kAllTargets[] = {SimdTarget::scalar, SimdTarget::sse4, SimdTarget::avx2, SimdTarget::avx512};

inline std::vector<SimdTarget> targets_of_this_machine() {
  std::vector<SimdTarget> targets;
  for (SimdTarget target : kAllTargets)
    if (find_reduce_kernel(TUTTI_FLOAT32, TUTTI_SUM, target) != nullptr) targets.push_back(target);
  return targets;
}

inline std::uint64_t load_element(const void* from, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  return bits;
}

/// Layout of the float types: all bits of the exponent (infinity, but in e4m3). Zero for integers.
constexpr std::uint64_t exponent_mask(tutti_dtype type) {
  switch (type) {
    case TUTTI_FLOAT8_E4M3: return 0x78;
    case TUTTI_FLOAT8_E5M2: return 0x7c;
    case TUTTI_FLOAT16: return 0x7c00;
    case TUTTI_BFLOAT16: return 0x7f80;
    case TUTTI_FLOAT32: return 0x7f800000;
    case TUTTI_FLOAT64: return 0x7ff0000000000000;
    default: return 0;
  }
}
constexpr std::uint64_t sign_bit(tutti_dtype type) { return std::uint64_t{1} << (dtype_bytes(type) * 8 - 1); }
constexpr bool is_nan_bits(tutti_dtype type, std::uint64_t bits) {
  const std::uint64_t largest = type == TUTTI_FLOAT8_E4M3 ? 0x7e : exponent_mask(type);
  return is_float(type) && (bits & (sign_bit(type) - 1)) > largest;
}
constexpr std::uint64_t canonical_nan(tutti_dtype type) {
  if (type == TUTTI_FLOAT8_E4M3) return 0x7f;
  const std::uint64_t infinity = exponent_mask(type);
  return infinity | ((infinity & (~infinity + 1)) >> 1);  // the highest mantissa bit
}

/// The operators that mean something for `type`.
inline std::vector<tutti_op> ops_of(tutti_dtype type) {
  std::vector<tutti_op> ops;
  for (int op = 0; op < TUTTI_OP_COUNT; ++op)
    if (find_reduce_kernel(type, static_cast<tutti_op>(op)) != nullptr) ops.push_back(static_cast<tutti_op>(op));
  return ops;
}

/// Same bits; before the final touch any NaN equals any other, for its payload is the processor's business.
inline bool same_element(tutti_dtype type, std::uint64_t a, std::uint64_t b, bool final) {
  return a == b || (!final && is_nan_bits(type, a) && is_nan_bits(type, b));
}

/// Random elements, a quarter of them special: zeros of both signs, infinities, NaNs with payloads (signalling too),
/// subnormals, extremes, small integers (whose sums and products tie).
class OperandSource {
 public:
  explicit OperandSource(std::uint64_t seed) : random_(seed) {}

  void fill(tutti_dtype type, void* to, std::size_t count) {
    const std::size_t bytes = dtype_bytes(type);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = next(type);
      std::memcpy(static_cast<char*>(to) + i * bytes, &bits, bytes);
    }
  }
  std::uint64_t word() { return random_(); }
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

 private:
  std::uint64_t next(tutti_dtype type) {
    const std::uint64_t word = random_(), infinity = exponent_mask(type), sign = sign_bit(type);
    const std::uint64_t random_sign = (word >> 60 & 1) != 0 ? sign : 0;
    const int kind = static_cast<int>(word >> 56 & 15);
    if (type == TUTTI_BOOL && kind < 10) return kind & 1;
    if (infinity == 0) return kind == 0 ? sign : kind == 1 ? sign - 1 : kind == 2 ? ~std::uint64_t{0} : word;
    const std::uint64_t mantissa = (infinity & (~infinity + 1)) - 1;
    switch (kind) {
      case 0: return random_sign;
      case 1: return (word >> 61 & 1) != 0 ? infinity | random_sign : infinity - 1 + random_sign;
      case 2: return infinity | random_sign | (word & mantissa);
      case 3: return random_sign | (word & mantissa);
      default: break;
    }
    if (kind < 8) return word;  // any bits
    // Near one: exponents within +-7 of the bias, so that sums round and cancel.
    const std::uint64_t unit = infinity & (~infinity + 1);
    const std::uint64_t bias = (infinity >> 1) & infinity;
    return random_sign | (bias + ((word >> 32) % 15) * unit - 7 * unit) | (word & mantissa);
  }
  std::mt19937_64 random_;
};

}  // namespace tutti::core
