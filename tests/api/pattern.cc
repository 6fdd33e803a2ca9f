// SPDX-License-Identifier: Apache-2.0
#include "tests/api/pattern.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>

namespace api_test {

namespace {

/// mantissa bits (without the hidden one) and exponent bits of the 16- and 8-bit formats
struct Format {
  int mantissa, exponent;
  bool infinities = true;  // without: all bits set are the only NaN
};
constexpr Format kHalf{10, 5}, kBrain{7, 8}, kE4m3{3, 4, false}, kE5m2{2, 5};

std::uint64_t sign_of(Format format) { return std::uint64_t{1} << (format.mantissa + format.exponent); }

double decode(Format format, std::uint64_t bits) {
  const auto fraction = static_cast<double>(bits & ((1u << format.mantissa) - 1));
  const int all = (1 << format.exponent) - 1;
  const int exponent = static_cast<int>(bits >> format.mantissa) & all;
  const int bias = all / 2;
  double value = 0;
  if (!format.infinities && (bits & (sign_of(format) - 1)) == sign_of(format) - 1)
    value = std::numeric_limits<double>::quiet_NaN();
  else if (format.infinities && exponent == all)
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(fraction, 1 - bias - format.mantissa);
  else
    value = std::ldexp(fraction + (1 << format.mantissa), exponent - bias - format.mantissa);
  return (bits & sign_of(format)) != 0 ? -value : value;
}

/// The same out of a table: 8-bit floats are decoded hundreds of times per element that is rounded.
template <const Format& format>
double decode_byte(std::uint64_t bits) {
  static const std::array<double, 256> kValues = [] {
    std::array<double, 256> values{};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = decode(format, i);
    return values;
  }();
  return kValues[bits & 0xff];
}

std::uint64_t encode(Format format, double value) {
  const auto infinity = static_cast<std::uint64_t>((1 << format.exponent) - 1) << format.mantissa;
  if (std::isnan(value)) return format.infinities ? infinity | 1u << (format.mantissa - 1) : sign_of(format) - 1;
  const std::uint64_t sign = std::signbit(value) ? sign_of(format) : 0;
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int bias = (1 << (format.exponent - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);  // subnormals have that of the smallest normal
  const double significand = std::ldexp(std::fabs(value), format.mantissa - exponent);
  if (significand < (1 << format.mantissa)) return sign | static_cast<std::uint64_t>(significand);
  const int biased = exponent + bias;
  const double fraction = significand - (1 << format.mantissa);
  return sign | static_cast<std::uint64_t>(biased) << format.mantissa | static_cast<std::uint64_t>(fraction);
}

template <class T, class Bits>
std::uint64_t bits_of(double value) {
  const T narrow = static_cast<T>(value);
  Bits bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

template <class T, class Bits>
double value_of(std::uint64_t bits) {
  const Bits narrow = static_cast<Bits>(bits);
  T value;
  std::memcpy(&value, &narrow, sizeof value);
  return static_cast<double>(value);
}

std::uint64_t unchecked_bits(tutti_dtype type, double value) {
  switch (type) {
    case TUTTI_FLOAT16: return encode(kHalf, value);
    case TUTTI_BFLOAT16: return encode(kBrain, value);
    case TUTTI_FLOAT8_E4M3: return encode(kE4m3, value);
    case TUTTI_FLOAT8_E5M2: return encode(kE5m2, value);
    case TUTTI_FLOAT32: return std::isnan(value) ? 0x7fc00000u : bits_of<float, std::uint32_t>(value);
    default: return std::isnan(value) ? 0x7ff8000000000000u : bits_of<double, std::uint64_t>(value);
  }
}

/// Keeps the low bytes of `bits` and, for signed types, spreads the sign: the element's value in 64 bits.
std::int64_t sign_extend(tutti_dtype type, std::uint64_t bits) {
  switch (type) {
    case TUTTI_INT8: return static_cast<std::int8_t>(bits);
    case TUTTI_INT32: return static_cast<std::int32_t>(bits);
    default: return static_cast<std::int64_t>(bits);
  }
}

bool is_signed(tutti_dtype type) { return type == TUTTI_INT8 || type == TUTTI_INT32 || type == TUTTI_INT64; }

std::uint64_t truncate(tutti_dtype type, std::uint64_t bits) {
  const std::size_t bytes = tutti_dtype_bytes(type);
  return bytes == 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

bool less(tutti_dtype type, std::uint64_t a, std::uint64_t b) {
  return is_signed(type) ? sign_extend(type, a) < sign_extend(type, b) : a < b;
}

std::uint64_t reduce_integers(const Pattern& pattern, std::uint64_t index) {
  const tutti_dtype type = pattern.type;
  const auto contribution = [&](int rank) {
    const std::uint64_t value = pattern.input(rank, index);
    return pattern.op == TUTTI_PRE_MUL_SUM ? truncate(type, value * pattern.factor(rank)) : value;
  };
  std::uint64_t result = contribution(0);
  for (int rank = 1; rank < pattern.ranks; ++rank) {
    const std::uint64_t value = contribution(rank);
    switch (pattern.op) {
      case TUTTI_PROD: result = truncate(type, result * value); break;
      case TUTTI_MIN: result = less(type, value, result) ? value : result; break;
      case TUTTI_MAX: result = less(type, result, value) ? value : result; break;
      case TUTTI_BAND: result &= value; break;
      case TUTTI_BOR: result |= value; break;
      case TUTTI_BXOR: result ^= value; break;
      default: result = truncate(type, result + value); break;
    }
  }
  if (pattern.op != TUTTI_AVG) return result;
  if (!is_signed(type)) return result / static_cast<std::uint64_t>(pattern.ranks);
  return truncate(type, static_cast<std::uint64_t>(sign_extend(type, result) / pattern.ranks));
}

/// Random truth values, of which most are alike: neither "and" nor "or" of many gives always the same.
std::uint64_t truth_input(const Pattern& pattern, int rank, std::uint64_t index) {
  const auto own = static_cast<std::uint64_t>(rank), ranks = static_cast<std::uint64_t>(pattern.ranks);
  const std::uint64_t random = mix(pattern.seed, index, own), common = mix(pattern.seed, index, ~std::uint64_t{0});
  const bool other = (random >> 8) % (2 * ranks) == 0;
  return ((common & 1) != 0) != other ? 1 + random % 255 : 0;
}

std::uint64_t reduce_truths(const Pattern& pattern, std::uint64_t index) {
  int trues = 0;
  for (int rank = 0; rank < pattern.ranks; ++rank) trues += pattern.input(rank, index) != 0;
  switch (pattern.op) {
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_BAND: return trues == pattern.ranks ? 1 : 0;
    case TUTTI_BXOR: return static_cast<std::uint64_t>(trues % 2);
    default: return trues > 0 ? 1 : 0;
  }
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

/// Anything, with a good share of what min and max get wrong.
double extreme_value(std::uint64_t random) {
  switch (random % 16) {
    case 0: return random & 0x1000 ? 0.0 : -0.0;
    case 1: return random & 0x1000 ? 0.0 : -0.0;
    case 2: return std::numeric_limits<double>::infinity();
    case 3: return -std::numeric_limits<double>::infinity();
    case 4: return random & 0x7000 ? 1.0 : std::numeric_limits<double>::quiet_NaN();
    default: return static_cast<double>(static_cast<int>(random >> 40 & 0xff) - 128) / 16;
  }
}

/// Average of a float: a rank's share of the result, times the ranks. The library multiplies by 1/ranks first, which is
/// exact for powers of two and every rank count that the tests use (tests/api/pattern_test.cc).
double average_share(std::uint64_t random) {
  constexpr double kShares[] = {0, 0.5, -0.5, 1, -1, 2, -2, 4, -4};
  return kShares[random % std::size(kShares)];
}

bool is_byte_float(tutti_dtype type) { return type == TUTTI_FLOAT8_E4M3 || type == TUTTI_FLOAT8_E5M2; }

/// 8-bit floats hold every integer up to 8 only: at most eight ranks contribute 1 or -1 to a sum, and one to an
/// average or to a pre-multiplied sum, whose product is rounded.
double byte_float_input(const Pattern& pattern, int rank, std::uint64_t random) {
  const auto own = static_cast<std::uint64_t>(rank), ranks = static_cast<std::uint64_t>(pattern.ranks);
  const std::uint64_t place = random;
  if (pattern.op == TUTTI_AVG || pattern.op == TUTTI_PRE_MUL_SUM)
    return place % ranks == own ? static_cast<double>(place >> 32 & 7) - 3 : 0.0;
  if ((place + own) % ((ranks + 7) / 8) != 0) return 0;
  return (place >> (20 + own) & 1) != 0 ? 1 : -1;
}

/// The 8-bit float nearest to `value`; of two, the one with an even pattern. No overflow.
double nearest_byte_float(tutti_dtype type, double value) {
  if (value == 0) return value;
  std::uint64_t best = 0;
  for (std::uint64_t bits = 0; bits < 0x7c; ++bits) {
    const double now = std::fabs(to_value(type, bits) - std::fabs(value));
    const double before = std::fabs(to_value(type, best) - std::fabs(value));
    if (now < before || (now == before && bits % 2 == 0)) best = bits;
  }
  return std::copysign(to_value(type, best), value);
}

double float_input(const Pattern& pattern, int rank, std::uint64_t index) {
  const auto own = static_cast<std::uint64_t>(rank);
  const auto ranks = static_cast<std::uint64_t>(pattern.ranks);
  const std::uint64_t random = mix(pattern.seed, index, own);
  if (is_byte_float(pattern.type)) {
    if (pattern.op == TUTTI_MIN || pattern.op == TUTTI_MAX) return to_value(pattern.type, random & 0xff);
    if (pattern.op != TUTTI_PROD) return byte_float_input(pattern, rank, mix(pattern.seed, index, ~std::uint64_t{0}));
  }
  switch (pattern.op) {
    case TUTTI_PROD: {
      // Three factors sit at random ranks, so every partial product stays small.
      const std::uint64_t place = mix(pattern.seed, index, ~std::uint64_t{0});
      double value = random & 1 ? 1.0 : -1.0;
      if (place % ranks == own) value *= 2;
      if ((place >> 20) % ranks == own) value *= 0.5;
      if ((place >> 40) % ranks == own) value *= 3;
      return value;
    }
    case TUTTI_MIN:
    case TUTTI_MAX: return extreme_value(random);
    case TUTTI_AVG: return average_share(random) * pattern.ranks;
    case TUTTI_PRE_MUL_SUM: return static_cast<double>(static_cast<int>(random % 7) - 3);  // times 5: 17 such fit
    default: return static_cast<double>(static_cast<int>(random % 15) - 7);
  }
}

double product_with_factor(const Pattern& pattern, int rank, double value) {
  const double product = value * to_value(pattern.type, pattern.factor(rank));
  return is_byte_float(pattern.type) ? nearest_byte_float(pattern.type, product) : product;
}

double reduce_floats(const Pattern& pattern, std::uint64_t index) {
  double result = 0;
  const bool rounds = is_byte_float(pattern.type) && pattern.op == TUTTI_AVG;
  for (int rank = 0; rank < pattern.ranks; ++rank) {
    double value = float_input(pattern, rank, index);
    if (pattern.op == TUTTI_PRE_MUL_SUM) value = product_with_factor(pattern, rank, value);
    if (rounds) {
      // One contribution is multiplied by 1/ranks in fp32 and rounded; the zeros of the others change nothing but -0.
      const auto scaled = static_cast<float>(value) * static_cast<float>(1.0 / pattern.ranks);
      result += nearest_byte_float(pattern.type, static_cast<double>(scaled));
      continue;
    }
    if (rank == 0)
      result = pattern.op == TUTTI_AVG ? value / pattern.ranks : value;
    else if (pattern.op == TUTTI_PROD)
      result *= value;
    else if (pattern.op == TUTTI_MIN)
      result = minimum(result, value);
    else if (pattern.op == TUTTI_MAX)
      result = -minimum(-result, -value);
    else
      result += pattern.op == TUTTI_AVG ? value / pattern.ranks : value;
  }
  return result;
}

template <class Function>
void fill(tutti_dtype type, std::uint64_t count, std::byte* destination, const Function& element) {
  const std::size_t bytes = tutti_dtype_bytes(type);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = element(i);
    std::memcpy(destination + i * bytes, &bits, bytes);  // little endian
  }
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + c * 0x165667b19e3779f9u + 1;
  for (int round = 0; round < 2; ++round) {
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
  }
  return x;
}

bool is_float(tutti_dtype type) {
  return type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16 || type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64 ||
         is_byte_float(type);
}

double to_value(tutti_dtype type, std::uint64_t bits) {
  switch (type) {
    case TUTTI_FLOAT16: return decode(kHalf, bits);
    case TUTTI_BFLOAT16: return decode(kBrain, bits);
    case TUTTI_FLOAT8_E4M3: return decode_byte<kE4m3>(bits);
    case TUTTI_FLOAT8_E5M2: return decode_byte<kE5m2>(bits);
    case TUTTI_FLOAT32: return value_of<float, std::uint32_t>(bits);
    default: return value_of<double, std::uint64_t>(bits);
  }
}

std::uint64_t to_bits(tutti_dtype type, double value) {
  const std::uint64_t bits = unchecked_bits(type, value);
  const double back = to_value(type, bits);
  if (std::isnan(value) ? !std::isnan(back) : back != value) {
    std::fprintf(stderr, "%g is no %s\n", value, tutti_dtype_name(type));
    std::abort();
  }
  return bits;
}

std::uint64_t Pattern::input(int rank, std::uint64_t index) const {
  if (is_float(type)) return to_bits(type, float_input(*this, rank, index));
  if (type == TUTTI_BOOL) return truth_input(*this, rank, index);
  return truncate(type, mix(seed, index, static_cast<std::uint64_t>(rank)));
}

std::uint64_t Pattern::expected(std::uint64_t index) const {
  if (type == TUTTI_BOOL) return reduce_truths(*this, index);
  return is_float(type) ? to_bits(type, reduce_floats(*this, index)) : reduce_integers(*this, index);
}

std::uint64_t Pattern::factor(int rank) const {
  constexpr double kFactors[] = {-5, -3, -2, -1, 1, 1, 2, 3, 5};
  const std::uint64_t random = mix(seed, static_cast<std::uint64_t>(rank), 77);
  if (is_float(type)) return to_bits(type, kFactors[random % std::size(kFactors)]);
  return random % 4 == 0 ? 1 : truncate(type, random >> 3);
}

void fill_input(const Pattern& pattern, int rank, std::uint64_t first, std::uint64_t count, std::byte* destination) {
  fill(pattern.type, count, destination, [&](std::uint64_t i) { return pattern.input(rank, first + i); });
}

void fill_expected(const Pattern& pattern, std::uint64_t first, std::uint64_t count, std::byte* destination) {
  fill(pattern.type, count, destination, [&](std::uint64_t i) { return pattern.expected(first + i); });
}

std::uint64_t hash_bytes(const std::byte* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3u;
  return hash;
}

}  // namespace api_test
