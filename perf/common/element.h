// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/tutti.h"

// How the element types of tutti/dtypes.def are held and converted by the benchmark programs. The programs stand on
// the public headers only, so that they check the library with arithmetic of their own.
namespace tutti::perf {

/// 2^exponent for exponents of normal doubles. Much faster than ldexp.
inline double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52); }

/// Bits of the IEEE-like format with `kMantissa` stored mantissa bits and `kExponent` exponent bits that is nearest to
/// `value` (ties to even); overflow gives infinity, NaN stays NaN. Without infinities (OCP's e4m3) only all ones are
/// NaN, and what is too large becomes the largest finite value.
template <class Bits, int kMantissa, int kExponent, bool kInfinities = true>
Bits narrow_float(double value) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint64_t kInfinity = uint64_t{(1u << kExponent) - 1} << kMantissa;
  const auto wide = std::bit_cast<uint64_t>(value);
  const uint64_t sign = (wide >> 63) << (kMantissa + kExponent);
  constexpr uint64_t kAll = (uint64_t{1} << (kMantissa + kExponent)) - 1;
  constexpr uint64_t kLargest = kInfinities ? kInfinity : kAll - 1;
  if (std::isnan(value))
    return static_cast<Bits>(kInfinities ? sign | kInfinity | (uint64_t{1} << (kMantissa - 1)) : sign | kAll);
  const int exponent = static_cast<int>((wide >> 52) & 0x7ff) - 1023 + kBias;
  if (exponent < -kMantissa) return static_cast<Bits>(sign);  // below half of the smallest subnormal
  if (exponent >= (1 << kExponent)) return static_cast<Bits>(sign | kLargest);
  const uint64_t significand = (wide & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const int shift = 52 - kMantissa + (exponent < 1 ? 1 - exponent : 0);
  uint64_t kept = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // The hidden bit carries into the exponent field: (exponent - 1) + 1 for normal numbers, 0 for subnormal ones.
  const auto base = static_cast<uint64_t>(exponent < 1 ? 0 : exponent - 1) << kMantissa;
  return static_cast<Bits>(sign | (base + kept < kLargest ? base + kept : kLargest));
}

template <class Bits, int kMantissa, int kExponent, bool kInfinities = true>
double widen_float(Bits bits) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const uint64_t mantissa = uint64_t{bits} & ((uint64_t{1} << kMantissa) - 1);
  const int exponent = static_cast<int>((uint64_t{bits} >> kMantissa) & ((1u << kExponent) - 1));
  const double sign = ((uint64_t{bits} >> (kMantissa + kExponent)) & 1) != 0 ? -1.0 : 1.0;
  constexpr uint64_t kAllMantissa = (uint64_t{1} << kMantissa) - 1;
  if (!kInfinities && exponent == (1 << kExponent) - 1 && mantissa == kAllMantissa) return std::nan("");
  if (kInfinities && exponent == (1 << kExponent) - 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  const double significand = static_cast<double>(exponent == 0 ? mantissa : mantissa | (uint64_t{1} << kMantissa));
  return sign * significand * power_of_two((exponent == 0 ? 1 : exponent) - kBias - kMantissa);
}

template <class T>
struct IntegerElement {
  using Bits = std::make_unsigned_t<T>;
  using Value = T;
  static constexpr bool kFloat = false;
  static constexpr bool kLogical = false;
};

/// kPrecision: significand bits with the hidden one. Generated values are integers below 2^kPrecision times a power of
/// two in [2^kScaleLow, 2^kScaleHigh], so that no sum of them overflows or becomes subnormal.
template <class BitsType, int kMantissa, int kExponent, int kLow, int kHigh, bool kInfinities = true>
struct SmallFloatElement {
  using Bits = BitsType;
  using Value = double;
  static constexpr bool kFloat = true;
  static constexpr bool kLogical = false;
  static constexpr int kPrecision = kMantissa + 1, kExponentBits = kExponent, kScaleLow = kLow, kScaleHigh = kHigh;
  static Bits encode(double value) { return narrow_float<Bits, kMantissa, kExponent, kInfinities>(value); }
  static double decode(Bits bits) { return widen_float<Bits, kMantissa, kExponent, kInfinities>(bits); }
};

/// One specialisation per row of dtypes.def; a new row without one does not compile.
template <tutti_dtype kType>
struct Element;
template <>
struct Element<TUTTI_INT8> : IntegerElement<int8_t> {};
template <>
struct Element<TUTTI_UINT8> : IntegerElement<uint8_t> {};
template <>
struct Element<TUTTI_INT32> : IntegerElement<int32_t> {};
template <>
struct Element<TUTTI_UINT32> : IntegerElement<uint32_t> {};
template <>
struct Element<TUTTI_INT64> : IntegerElement<int64_t> {};
template <>
struct Element<TUTTI_UINT64> : IntegerElement<uint64_t> {};
template <>
struct Element<TUTTI_FLOAT16> : SmallFloatElement<uint16_t, 10, 5, -4, 3> {};
template <>
struct Element<TUTTI_BFLOAT16> : SmallFloatElement<uint16_t, 7, 8, -32, 32> {};
template <>
struct Element<TUTTI_FLOAT8_E4M3> : SmallFloatElement<uint8_t, 3, 4, -4, 3, false> {};
template <>
struct Element<TUTTI_FLOAT8_E5M2> : SmallFloatElement<uint8_t, 2, 5, -4, 3> {};
/// Truth values: any byte but 0 is true, reductions give 0 and 1.
template <>
struct Element<TUTTI_BOOL> {
  using Bits = uint8_t;
  using Value = uint8_t;
  static constexpr bool kFloat = false;
  static constexpr bool kLogical = true;
};
template <>
struct Element<TUTTI_FLOAT32> {
  using Bits = uint32_t;
  using Value = double;
  static constexpr bool kFloat = true;
  static constexpr bool kLogical = false;
  static constexpr int kPrecision = 24, kExponentBits = 8, kScaleLow = -32, kScaleHigh = 32;
  static Bits encode(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }
  static double decode(Bits bits) { return static_cast<double>(std::bit_cast<float>(bits)); }
};
template <>
struct Element<TUTTI_FLOAT64> {
  using Bits = uint64_t;
  using Value = double;
  static constexpr bool kFloat = true;
  static constexpr bool kLogical = false;
  static constexpr int kPrecision = 53, kExponentBits = 11, kScaleLow = -32, kScaleHigh = 32;
  static Bits encode(double value) { return std::bit_cast<uint64_t>(value); }
  static double decode(Bits bits) { return std::bit_cast<double>(bits); }
};

/// Calls `body(Element<kType>{})` for the run-time `type`.
template <class Body>
auto with_element(tutti_dtype type, Body&& body) {
  switch (type) {
#define X(name, ENUMERATOR, bytes, value) \
  case TUTTI_##ENUMERATOR:                \
    return std::forward<Body>(body)(Element<TUTTI_##ENUMERATOR>{});
#include "tutti/dtypes.def"
#undef X
    case TUTTI_DTYPE_COUNT: break;
  }
  return std::forward<Body>(body)(Element<TUTTI_INT8>{});  // options.cc hands out known types only
}

size_t element_bytes(tutti_dtype type);
/// Bits of a small whole number in `type`.
uint64_t encode_number(tutti_dtype type, int number);
bool is_floating(tutti_dtype type);
/// Floats have no bitwise operators, bool has no average and no pre-multiplied sum.
bool is_reducible(tutti_dtype type, tutti_op op, bool premultiplied = false);

/// "1.5 (0x3fc00000)": the element at `element` for people, exactly.
std::string describe_element(tutti_dtype type, const void* element);

}  // namespace tutti::perf
