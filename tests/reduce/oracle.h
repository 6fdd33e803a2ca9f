// SPDX-License-Identifier: Apache-2.0
// An independent account of what a reduction means, one element at a time: wide integers, and floats computed in a
// format at least twice as wide plus two bits, where a second rounding changes nothing (Figueroa 1995).
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "tests/reduce/reduce_testing.h"

namespace tutti::core {

#if defined(__x86_64__)
using Quad = __float128;
#else
using Quad = long double;  // binary128 on aarch64
#endif
using WideInteger = __int128;

struct Float16Format {
  static constexpr int kBits = 16, kMantissa = 10, kMinExponent = -14;
  static constexpr bool kInfinity = true;
};
struct Bfloat16Format {
  static constexpr int kBits = 16, kMantissa = 7, kMinExponent = -126;
  static constexpr bool kInfinity = true;
};
struct E5m2Format {
  static constexpr int kBits = 8, kMantissa = 2, kMinExponent = -14;
  static constexpr bool kInfinity = true;
};
/// OCP OFP8: the only NaN has all bits set, the patterns of infinity are numbers, and what is too large becomes 448.
struct E4m3Format {
  static constexpr int kBits = 8, kMantissa = 3, kMinExponent = -6;
  static constexpr bool kInfinity = false;
};

/// Value of a 16- or 8-bit float by its definition.
template <class Format>
double widen_by_definition(std::uint64_t bits) {
  const int exponent_bits = Format::kBits - 1 - Format::kMantissa;
  const auto mantissa = static_cast<double>(bits & ((1u << Format::kMantissa) - 1));
  const int exponent = static_cast<int>(bits >> Format::kMantissa) & ((1 << exponent_bits) - 1);
  double value = 0;
  if (!Format::kInfinity && (bits & 0x7f) == 0x7f)
    value = std::numeric_limits<double>::quiet_NaN();
  else if (Format::kInfinity && exponent == (1 << exponent_bits) - 1)
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(mantissa, Format::kMinExponent - Format::kMantissa);
  else
    value = std::ldexp(mantissa + (1 << Format::kMantissa), exponent - 1 + Format::kMinExponent - Format::kMantissa);
  return (bits >> (Format::kBits - 1) & 1) != 0 ? -value : value;
}

/// Nearest 16- or 8-bit float, ties to even: the value counted in units of the last place is rounded to an integer.
template <class Format>
std::uint64_t narrow_by_definition(double value) {
  const std::uint64_t all = (1u << (Format::kBits - 1)) - 1;
  const std::uint64_t sign = std::signbit(value) ? all + 1 : 0;
  const std::uint64_t infinity = all & ~((1u << Format::kMantissa) - 1);
  if (std::isnan(value)) return Format::kInfinity ? infinity | (1u << (Format::kMantissa - 1)) : all;
  const std::uint64_t largest = Format::kInfinity ? infinity : all - 1;
  if (std::isinf(value)) return sign | largest;
  if (value == 0) return sign;
  int exponent = std::ilogb(value);
  if (exponent < Format::kMinExponent) exponent = Format::kMinExponent;
  const double units = std::nearbyint(std::ldexp(std::fabs(value), Format::kMantissa - exponent));  // ties to even
  // 2^(mantissa+1) units are the next exponent's first value; the bit patterns are consecutive.
  const auto base = static_cast<std::uint64_t>(exponent - Format::kMinExponent) << Format::kMantissa;
  const std::uint64_t bits = base + static_cast<std::uint64_t>(units);
  return sign | (bits > largest ? largest : bits);
}

template <class T>
T float_minimum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T float_maximum(T a, T b) {
  return -float_minimum(-a, -b);
}

template <class T, class Wide>
T combine_floats(tutti_op op, T a, T b) {
  switch (op) {
    case TUTTI_PROD: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case TUTTI_MIN: return float_minimum(a, b);
    case TUTTI_MAX: return float_maximum(a, b);
    default: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

struct OracleCall {
  tutti_op op;
  int raw_source = -1;
  Factor scale = {};
  std::uint64_t divisor = 0;

  bool scales() const { return op == TUTTI_SUM || op == TUTTI_AVG; }  ///< others take no factor and no divisor
  bool scales(std::size_t source) const { return scales() && static_cast<int>(source) == raw_source; }
};

/// Left to right in T, each operation through Wide and one rounding.
template <class T, class Wide>
T reduce_floats(const OracleCall& call, const std::vector<T>& values) {
  T result = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    T value = values[k];
    if (call.scales(k)) value = combine_floats<T, Wide>(TUTTI_PROD, value, static_cast<T>(call.scale.real));
    result = k == 0 ? value : combine_floats<T, Wide>(call.op, result, value);
  }
  return result;
}

template <class T>
std::uint64_t reduce_integers(const OracleCall& call, const std::vector<std::uint64_t>& sources) {
  WideInteger result = 0;
  for (std::size_t k = 0; k < sources.size(); ++k) {
    WideInteger value = static_cast<T>(sources[k]);
    if (call.scales(k)) value = static_cast<T>(sources[k] * call.scale.integer);
    if (k == 0)
      result = value;
    else if (call.op == TUTTI_BAND)
      result &= value;
    else if (call.op == TUTTI_BOR)
      result |= value;
    else if (call.op == TUTTI_BXOR)
      result ^= value;
    else if (call.op == TUTTI_PROD)
      result = static_cast<T>(static_cast<unsigned __int128>(result) * static_cast<unsigned __int128>(value));
    else if (call.op == TUTTI_MIN)
      result = value < result ? value : result;
    else if (call.op == TUTTI_MAX)
      result = value > result ? value : result;
    else
      result = static_cast<T>(result + value);  // wraps
  }
  if (call.scales() && call.divisor != 0) result = result / static_cast<WideInteger>(call.divisor);  // truncates
  return static_cast<std::uint64_t>(result);
}

inline std::uint64_t reduce_booleans(tutti_op op, const std::vector<std::uint64_t>& sources) {
  std::size_t trues = 0;
  for (std::uint64_t source : sources) trues += source != 0 ? 1 : 0;
  switch (op) {
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_BAND: return trues == sources.size() ? 1 : 0;
    case TUTTI_BXOR: return trues % 2;
    default: return trues > 0 ? 1 : 0;
  }
}

template <class T, class Bits>
T from_bits(std::uint64_t bits) {
  const Bits narrow = static_cast<Bits>(bits);
  T value;
  std::memcpy(&value, &narrow, sizeof value);
  return value;
}

template <class T, class Bits, class Wide>
std::uint64_t reduce_native(const OracleCall& call, const std::vector<std::uint64_t>& sources) {
  std::vector<T> values;
  for (std::uint64_t bits : sources) values.push_back(from_bits<T, Bits>(bits));
  const T result = reduce_floats<T, Wide>(call, values);
  Bits bits = 0;
  std::memcpy(&bits, &result, sizeof bits);
  return bits;
}

template <class Format>
std::uint64_t reduce_widened(const OracleCall& call, const std::vector<std::uint64_t>& sources) {
  std::vector<float> values;
  for (std::uint64_t bits : sources) {
    float value = static_cast<float>(widen_by_definition<Format>(bits));
    if (call.scales(values.size())) {
      // Rounded to the type, as the peers receive it.
      value = combine_floats<float, double>(TUTTI_PROD, value, static_cast<float>(call.scale.real));
      value = static_cast<float>(widen_by_definition<Format>(narrow_by_definition<Format>(static_cast<double>(value))));
    }
    values.push_back(value);
  }
  return narrow_by_definition<Format>(static_cast<double>(reduce_floats<float, double>({.op = call.op}, values)));
}

/// One element's bits, zero-extended.
inline std::uint64_t reduce_by_definition(tutti_dtype type, const OracleCall& call,
                                          const std::vector<std::uint64_t>& sources) {
  std::uint64_t bits = 0;
  switch (type) {
    case TUTTI_INT8: bits = reduce_integers<std::int8_t>(call, sources); break;
    case TUTTI_UINT8: bits = reduce_integers<std::uint8_t>(call, sources); break;
    case TUTTI_INT32: bits = reduce_integers<std::int32_t>(call, sources); break;
    case TUTTI_UINT32: bits = reduce_integers<std::uint32_t>(call, sources); break;
    case TUTTI_INT64: bits = reduce_integers<std::int64_t>(call, sources); break;
    case TUTTI_UINT64: bits = reduce_integers<std::uint64_t>(call, sources); break;
    case TUTTI_FLOAT16: bits = reduce_widened<Float16Format>(call, sources); break;
    case TUTTI_BFLOAT16: bits = reduce_widened<Bfloat16Format>(call, sources); break;
    case TUTTI_FLOAT8_E4M3: bits = reduce_widened<E4m3Format>(call, sources); break;
    case TUTTI_FLOAT8_E5M2: bits = reduce_widened<E5m2Format>(call, sources); break;
    case TUTTI_BOOL: bits = reduce_booleans(call.op, sources); break;
    case TUTTI_FLOAT32: bits = reduce_native<float, std::uint32_t, double>(call, sources); break;
    case TUTTI_FLOAT64: bits = reduce_native<double, std::uint64_t, Quad>(call, sources); break;
    default: break;
  }
  return load_element(&bits, dtype_bytes(type));
}

}  // namespace tutti::core
