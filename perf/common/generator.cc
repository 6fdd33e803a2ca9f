// SPDX-License-Identifier: Apache-2.0
#include "perf/common/generator.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "perf/common/element.h"

namespace tutti::perf {
namespace {

// Finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A number in [0, bound) from a hash.
uint64_t bounded(uint64_t hash, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * bound) >> 64);
}

/// Multiplier of one rank: `word` below turns (element hash, key) into a number that looks independent per rank, for
/// one multiplication instead of a full hash.
uint64_t rank_key(int64_t rank) { return mix(0x7475747469u + static_cast<uint64_t>(rank)) | 1; }
uint64_t word(uint64_t element, uint64_t key) {
  const uint64_t product = element * key;
  return product ^ (product >> 32);
}

/// Everything about a reduction segment that does not depend on the element.
struct ReduceContext {
  explicit ReduceContext(const Segment& segment)
      : rank(segment.rank), ranks(segment.ranks), own(rank_key(rank)), next(rank_key(rank + 1)), first(rank_key(0)) {
    contributors(ranks);
  }
  /// Float sums of more ranks than the type has units: only every `stride`-th rank holds other than zero, from one on
  /// that the element chooses.
  void contributors(int limit) {
    stride = (ranks + limit - 1) / limit;
    count = (ranks + stride - 1) / stride;
    last = rank_key(count);
    last_but_one = rank_key(count - 1);
    if (stride > 1) {
      own = rank_key(rank / stride);
      next = rank_key(rank / stride + 1);
    }
  }
  int rank, ranks, stride = 1, count = 1;
  uint64_t own, next, first, last = 0, last_but_one = 0;
};

uint64_t element_hash(const Segment& segment, uint64_t index) { return mix(mix(segment.seed) + index); }
/// Independent numbers of the same element: which rank wins, the exponent, the second contributor.
uint64_t choice(uint64_t element, uint64_t which) { return mix(element ^ (which * 0xd6e8feb86659fd93u)); }
int winner(uint64_t element, int ranks) {
  return static_cast<int>(bounded(choice(element, 1), static_cast<uint64_t>(ranks)));
}

// ---- floats ------------------------------------------------------------------------------------------------------

template <class Traits>
double scale(uint64_t element) {
  constexpr uint64_t kRange = static_cast<uint64_t>(Traits::kScaleHigh - Traits::kScaleLow + 1);
  return power_of_two(Traits::kScaleLow + static_cast<int>(bounded(choice(element, 2), kRange)));
}

template <class Traits>
struct FloatSum {
  explicit FloatSum(const Segment& segment) : context(segment) {
    constexpr uint64_t kUnits = uint64_t{1} << Traits::kPrecision;
    if (static_cast<uint64_t>(segment.ranks) > kUnits) context.contributors(static_cast<int>(kUnits));
    bound = kUnits / static_cast<uint64_t>(context.count) + 1;
  }
  double number(uint64_t element, uint64_t key) const {
    return static_cast<double>(bounded(mix(word(element, key)), bound));
  }
  double input(uint64_t element) const {
    if (context.rank % context.stride != offset(element)) return 0;
    return (number(element, context.own) - number(element, context.next)) * scale<Traits>(element);
  }
  double expected(uint64_t element) const {
    const bool fewer = (context.count - 1) * context.stride + offset(element) >= context.ranks;
    const uint64_t last = fewer ? context.last_but_one : context.last;
    return (number(element, context.first) - number(element, last)) * scale<Traits>(element);
  }
  int offset(uint64_t element) const {
    return context.stride == 1 ? 0 : static_cast<int>(choice(element, 8) % static_cast<uint64_t>(context.stride));
  }
  ReduceContext context;
  uint64_t bound;
};

/// The multiplier is a power of two: dividing by it is exact, since no value is near the subnormal range.
template <class Traits>
struct FloatMulSum : FloatSum<Traits> {
  explicit FloatMulSum(const Segment& segment) : FloatSum<Traits>(segment), divisor(premultiplier(segment.rank)) {}
  double input(uint64_t element) const { return FloatSum<Traits>::input(element) / divisor; }
  double divisor;
};

template <class Traits>
struct FloatAverage {
  explicit FloatAverage(const Segment& segment) : context(segment) {}
  /// In [2^(p-1), 2^p), with a sign that the element decides.
  double number(uint64_t element, int rank) const {
    constexpr uint64_t kHalf = uint64_t{1} << (Traits::kPrecision - 1);
    const double magnitude = static_cast<double>(kHalf + bounded(mix(word(element, rank_key(rank))), kHalf));
    return ((element & 1) != 0 ? -magnitude : magnitude) * scale<Traits>(element);
  }
  int second(uint64_t element, int first) const {
    const auto others = static_cast<uint64_t>(context.ranks - 1);
    return (first + 1 + static_cast<int>(bounded(choice(element, 3), others))) % context.ranks;
  }
  double input(uint64_t element) const {
    const int first = winner(element, context.ranks);
    if (context.rank != first && context.rank != second(element, first)) return 0;
    return number(element, context.rank);
  }
  double expected(uint64_t element) const {
    const int first = winner(element, context.ranks);
    const auto sum = static_cast<long double>(number(element, first)) + number(element, second(element, first));
    return static_cast<double>(sum / context.ranks);
  }
  ReduceContext context;
};

template <class Traits>
struct FloatProduct {
  explicit FloatProduct(const Segment& segment) : context(segment) {}
  // Ranks past the twelfth hold +-1, so that partial products stay within 2^+-7: inside the range of every type but
  // e4m3, where it is the eighth and 2^+-5.
  static constexpr int kPowers = Traits::kExponentBits < 5 ? 8 : 12;
  static int exponent(uint64_t element, int rank) {
    return rank > kPowers ? 0 : static_cast<int>((choice(element, 4) >> rank) & 1);
  }
  static bool negative(uint64_t element, int rank) { return ((choice(element, 5) >> (rank % 64)) & 1) != 0; }
  /// (+-2^k) that ranks [from, to) give together.
  static double powers(uint64_t element, int from, int to) {
    const double magnitude = power_of_two(exponent(element, from) - exponent(element, to));
    return negative(element, from) != negative(element, to) ? -magnitude : magnitude;
  }
  static double mantissa(uint64_t element) {
    constexpr uint64_t kHalf = uint64_t{1} << (Traits::kPrecision - 1);
    return static_cast<double>(kHalf + bounded(choice(element, 6), kHalf)) * power_of_two(1 - Traits::kPrecision);
  }
  double input(uint64_t element) const {
    const double own = powers(element, context.rank, context.rank + 1);
    return winner(element, context.ranks) == context.rank ? own * mantissa(element) : own;
  }
  double expected(uint64_t element) const { return powers(element, 0, context.ranks) * mantissa(element); }
  ReduceContext context;
};

template <class Traits, bool kMinimum>
struct FloatExtreme {
  explicit FloatExtreme(const Segment& segment) : context(segment) {}
  static constexpr uint64_t kMask = (uint64_t{1} << Traits::kPrecision) - 1;
  static double decode(uint64_t element, uint64_t key) {
    constexpr auto kMiddle = static_cast<double>(uint64_t{1} << (Traits::kPrecision - 1));
    return (static_cast<double>(key) - kMiddle) * scale<Traits>(element);
  }
  static uint64_t best(uint64_t element) { return choice(element, 7) & kMask; }
  double input(uint64_t element) const {
    uint64_t key = best(element);
    if (winner(element, context.ranks) != context.rank) {
      const uint64_t other = mix(word(element, context.own)) & kMask;
      key = kMinimum ? key | other : key & other;
      if (key == best(element)) key = kMinimum ? kMask : 0;  // few bits: the winner would seldom be the only one
    }
    return decode(element, key);
  }
  double expected(uint64_t element) const { return decode(element, best(element)); }
  ReduceContext context;
};

// ---- integers ----------------------------------------------------------------------------------------------------

template <class Traits>
struct IntegerSum {
  using Bits = typename Traits::Bits;
  explicit IntegerSum(const Segment& segment) : context(segment) {}
  Bits input(uint64_t element) const {
    return static_cast<Bits>(mix(word(element, context.own)) - mix(word(element, context.next)));
  }
  Bits expected(uint64_t element) const {
    return static_cast<Bits>(mix(word(element, context.first)) - mix(word(element, context.last)));
  }
  ReduceContext context;
};

/// Like IntegerSum, but the difference of an odd rank is even: both of its ends share their lowest bit.
template <class Traits>
struct IntegerMulSum {
  using Bits = typename Traits::Bits;
  explicit IntegerMulSum(const Segment& segment) : rank(segment.rank), ranks(segment.ranks) {
    for (size_t side = 0; side < 2; ++side) {
      const int first = side == 0 ? rank : 0, last = side == 0 ? rank + 1 : ranks;
      ends[side] = {rank_key(first), rank_key(last)};
      parities[side] = {parity_key(first), parity_key(last)};
    }
  }
  /// Boundaries 2k - 1 and 2k (before and after odd rank 2k - 1) have the same parity.
  static uint64_t parity_key(int boundary) { return rank_key(-1 - (boundary + 1) / 2); }
  uint64_t difference(uint64_t element, size_t side) const {
    uint64_t numbers[2];
    for (size_t end = 0; end < 2; ++end) {
      const uint64_t parity = mix(word(element, parities[side][end])) & 1;
      numbers[end] = (mix(word(element, ends[side][end])) & ~uint64_t{1}) | parity;
    }
    return numbers[0] - numbers[1];
  }
  Bits input(uint64_t element) const {
    return static_cast<Bits>(difference(element, 0) / static_cast<uint64_t>(premultiplier(rank)));
  }
  Bits expected(uint64_t element) const { return static_cast<Bits>(difference(element, 1)); }
  int rank, ranks;
  std::array<std::array<uint64_t, 2>, 2> ends{}, parities{};  // [own, all] [first, last]
};

template <class Traits>
struct IntegerAverage : IntegerSum<Traits> {
  using Bits = typename Traits::Bits;
  using IntegerSum<Traits>::IntegerSum;
  Bits expected(uint64_t element) const {
    using Wide = std::conditional_t<std::is_signed_v<typename Traits::Value>, int64_t, uint64_t>;
    const auto sum = static_cast<Wide>(static_cast<typename Traits::Value>(IntegerSum<Traits>::expected(element)));
    return static_cast<Bits>(sum / static_cast<Wide>(this->context.ranks));
  }
};

template <class Traits>
struct IntegerProduct {
  using Bits = typename Traits::Bits;
  explicit IntegerProduct(const Segment& segment) : context(segment) {
    // Newton's iteration for 1/3 modulo 2^64: 3 is its own inverse modulo 8, each step doubles the bits.
    uint64_t inverse = 3;
    for (int step = 0; step < 5; ++step) inverse *= 2 - 3 * inverse;
    powers[3] = 1;
    for (size_t k = 1; k <= 3; ++k) {
      powers[3 + k] = powers[2 + k] * 3;
      powers[3 - k] = powers[4 - k] * inverse;
    }
  }
  uint64_t power(uint64_t element, uint64_t from, uint64_t to) const {
    return powers[3 + (word(element, from) & 3) - (word(element, to) & 3)];
  }
  static uint64_t value(uint64_t element) { return choice(element, 6); }
  Bits input(uint64_t element) const {
    const uint64_t own = power(element, context.own, context.next);
    return static_cast<Bits>(winner(element, context.ranks) == context.rank ? own * value(element) : own);
  }
  Bits expected(uint64_t element) const {
    return static_cast<Bits>(power(element, context.first, context.last) * value(element));
  }
  ReduceContext context;
  std::array<uint64_t, 7> powers{};  // 3^-3 .. 3^3
};

template <class Traits, bool kMinimum>
struct IntegerExtreme {
  using Bits = typename Traits::Bits;
  explicit IntegerExtreme(const Segment& segment) : context(segment) {}
  /// Flipping the sign bit makes unsigned order the type's order.
  static Bits decode(uint64_t key) {
    constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    return static_cast<Bits>(static_cast<Bits>(key) ^ (std::is_signed_v<typename Traits::Value> ? kSign : Bits{0}));
  }
  static uint64_t best(uint64_t element) { return choice(element, 7); }
  Bits input(uint64_t element) const {
    uint64_t key = best(element);
    if (winner(element, context.ranks) != context.rank) {
      const uint64_t other = mix(word(element, context.own));
      key = kMinimum ? key | other : key & other;
    }
    return decode(key);
  }
  Bits expected(uint64_t element) const { return decode(best(element)); }
  ReduceContext context;
};

template <class Traits, bool kAnd>
struct BitwiseExtreme {
  using Bits = typename Traits::Bits;
  explicit BitwiseExtreme(const Segment& segment) : context(segment) {}
  Bits input(uint64_t element) const {
    const uint64_t result = choice(element, 7);
    if (winner(element, context.ranks) == context.rank) return static_cast<Bits>(result);
    // One bit of 16, so that no rank's bits are always there from others too.
    const uint64_t random = mix(word(element, context.own));
    const uint64_t sparse = random & mix(random) & mix(random + 1) & mix(random + 2);
    return static_cast<Bits>(kAnd ? result | ~sparse : result & sparse);
  }
  Bits expected(uint64_t element) const { return static_cast<Bits>(choice(element, 7)); }
  ReduceContext context;
};

template <class Traits>
struct BitwiseXor {
  using Bits = typename Traits::Bits;
  explicit BitwiseXor(const Segment& segment) : context(segment) {}
  Bits input(uint64_t element) const {
    return static_cast<Bits>(mix(word(element, context.own)) ^ mix(word(element, context.next)));
  }
  Bits expected(uint64_t element) const {
    return static_cast<Bits>(mix(word(element, context.first)) ^ mix(word(element, context.last)));
  }
  ReduceContext context;
};

// ---- truth values ------------------------------------------------------------------------------------------------

/// Any byte but 0 for true.
uint8_t truth(bool value, uint64_t random) { return static_cast<uint8_t>(value ? 1 + random % 255 : 0); }

template <bool kAnd>
struct LogicalExtreme {
  explicit LogicalExtreme(const Segment& segment) : context(segment) {}
  static bool result(uint64_t element) { return (choice(element, 7) & 1) != 0; }
  uint8_t input(uint64_t element) const {
    const uint64_t random = mix(word(element, context.own));
    if (result(element) == kAnd) return truth(kAnd, random);
    // Rarely by others: every rank is the only one to decide some element, whatever the number of ranks.
    const bool decides = winner(element, context.ranks) == context.rank ||
                         bounded(random, 4 * static_cast<uint64_t>(context.ranks)) == 0;
    return truth(decides != kAnd, random >> 8);
  }
  uint8_t expected(uint64_t element) const { return result(element) ? 1 : 0; }
  ReduceContext context;
};

struct LogicalXor {
  explicit LogicalXor(const Segment& segment) : context(segment) {}
  static bool bit(uint64_t element, uint64_t key) { return (mix(word(element, key)) & 1) != 0; }
  uint8_t input(uint64_t element) const {
    return truth(bit(element, context.own) != bit(element, context.next), choice(element, 6));
  }
  uint8_t expected(uint64_t element) const { return bit(element, context.first) != bit(element, context.last) ? 1 : 0; }
  ReduceContext context;
};

// ---- loops -------------------------------------------------------------------------------------------------------

template <class Traits>
typename Traits::Bits copy_bits(uint64_t element) {
  using Bits = typename Traits::Bits;
  auto bits = static_cast<Bits>(element >> (64 - 8 * sizeof(Bits)));
  if constexpr (Traits::kFloat) bits &= static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 2)));  // finite
  return bits;
}

template <class Traits>
auto encode(double value) {
  return Traits::encode(value);
}
template <class Traits, class Bits>
auto encode(Bits bits) {
  return bits;
}

template <class Traits, class Source>
void generate_reduction(const Segment& segment, uint64_t first, uint64_t count, typename Traits::Bits* out) {
  const Source source(segment);
  const bool expected = segment.pattern == Pattern::reduce_expected;
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t element = element_hash(segment, first + k);
    out[k] = encode<Traits>(expected ? source.expected(element) : source.input(element));
  }
}

template <class Traits>
void generate_logical(const Segment& segment, uint64_t first, uint64_t count, typename Traits::Bits* out) {
  switch (segment.op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_BOR: return generate_reduction<Traits, LogicalExtreme<false>>(segment, first, count, out);
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_BAND: return generate_reduction<Traits, LogicalExtreme<true>>(segment, first, count, out);
    case TUTTI_BXOR: return generate_reduction<Traits, LogicalXor>(segment, first, count, out);
    case TUTTI_AVG:
    case TUTTI_OP_COUNT:
    case TUTTI_PRE_MUL_SUM:
    case TUTTI_OP_LAST: return;  // is_reducible
  }
}

template <class Traits>
void generate_op(const Segment& segment, uint64_t first, uint64_t count, typename Traits::Bits* out) {
  if constexpr (Traits::kFloat) {
    if (segment.premultiplied) return generate_reduction<Traits, FloatMulSum<Traits>>(segment, first, count, out);
    switch (segment.op) {
      case TUTTI_SUM: return generate_reduction<Traits, FloatSum<Traits>>(segment, first, count, out);
      case TUTTI_PROD: return generate_reduction<Traits, FloatProduct<Traits>>(segment, first, count, out);
      case TUTTI_MAX: return generate_reduction<Traits, FloatExtreme<Traits, false>>(segment, first, count, out);
      case TUTTI_MIN: return generate_reduction<Traits, FloatExtreme<Traits, true>>(segment, first, count, out);
      case TUTTI_AVG: return generate_reduction<Traits, FloatAverage<Traits>>(segment, first, count, out);
      case TUTTI_BAND:
      case TUTTI_BOR:
      case TUTTI_BXOR:
      case TUTTI_OP_COUNT:
      case TUTTI_PRE_MUL_SUM:
      case TUTTI_OP_LAST: return;  // is_reducible
    }
  } else if constexpr (Traits::kLogical) {
    generate_logical<Traits>(segment, first, count, out);
  } else {
    if (segment.premultiplied) return generate_reduction<Traits, IntegerMulSum<Traits>>(segment, first, count, out);
    switch (segment.op) {
      case TUTTI_SUM: return generate_reduction<Traits, IntegerSum<Traits>>(segment, first, count, out);
      case TUTTI_PROD: return generate_reduction<Traits, IntegerProduct<Traits>>(segment, first, count, out);
      case TUTTI_MAX: return generate_reduction<Traits, IntegerExtreme<Traits, false>>(segment, first, count, out);
      case TUTTI_MIN: return generate_reduction<Traits, IntegerExtreme<Traits, true>>(segment, first, count, out);
      case TUTTI_AVG: return generate_reduction<Traits, IntegerAverage<Traits>>(segment, first, count, out);
      case TUTTI_BAND: return generate_reduction<Traits, BitwiseExtreme<Traits, true>>(segment, first, count, out);
      case TUTTI_BOR: return generate_reduction<Traits, BitwiseExtreme<Traits, false>>(segment, first, count, out);
      case TUTTI_BXOR: return generate_reduction<Traits, BitwiseXor<Traits>>(segment, first, count, out);
      case TUTTI_OP_COUNT:
      case TUTTI_PRE_MUL_SUM:
      case TUTTI_OP_LAST: return;
    }
  }
}

template <class Traits>
void generate_typed(const Segment& segment, uint64_t offset, uint64_t count, typename Traits::Bits* out) {
  const uint64_t first = segment.first_index + offset;
  if (segment.pattern == Pattern::zero) {
    std::fill(out, out + count, typename Traits::Bits{0});
  } else if (segment.pattern == Pattern::untouched) {
    std::memset(out, kUntouchedByte, count * sizeof *out);
  } else if (segment.pattern == Pattern::copy || segment.ranks == 1) {
    // One rank: nothing is reduced, the input must come back bit for bit.
    const uint64_t key = rank_key(segment.rank);
    for (uint64_t k = 0; k < count; ++k) out[k] = copy_bits<Traits>(word(element_hash(segment, first + k), key));
    if constexpr (!Traits::kFloat) {
      if (Traits::kLogical && segment.pattern != Pattern::copy)
        for (uint64_t k = 0; k < count; ++k) out[k] &= 1;  // what a reduction gives
    }
  } else {
    generate_op<Traits>(segment, first, count, out);
  }
}

constexpr uint64_t kBlock = 2048;  // elements generated at once: 16 KiB at most, inside L1

}  // namespace

void generate(tutti_dtype type, const Segment& segment, uint64_t offset, uint64_t count, void* out) {
  with_element(type, [&](auto traits) {
    using Traits = decltype(traits);
    generate_typed<Traits>(segment, offset, count, static_cast<typename Traits::Bits*>(out));
  });
}

void fill(tutti_dtype type, const Layout& layout, void* out) {
  const size_t bytes = element_bytes(type);
  auto* cursor = static_cast<char*>(out);
  alignas(64) char block[kBlock * sizeof(uint64_t)];
  for (const Segment& segment : layout) {
    for (uint64_t done = 0; done < segment.count; done += kBlock) {
      const uint64_t count = std::min(kBlock, segment.count - done);
      generate(type, segment, done, count, block);
      std::memcpy(cursor, block, count * bytes);
      cursor += count * bytes;
    }
  }
}

uint64_t tolerance(tutti_dtype type, const Segment& segment) {
  const bool average = segment.pattern == Pattern::reduce_expected && segment.op == TUTTI_AVG && segment.ranks > 1;
  return average && is_floating(type) ? 2 : 0;
}

uint64_t element_count(const Layout& layout) {
  uint64_t count = 0;
  for (const Segment& segment : layout) count += segment.count;
  return count;
}

}  // namespace tutti::perf
