// SPDX-License-Identifier: Apache-2.0
// The element types of one byte that are no integers: 8-bit floats and bool. Included by kernels.inl, see elements.inl.

namespace tutti::core {
namespace {

/// OCP OFP8. e4m3 has no infinity: 0x7f and 0xff are NaN, and what is too large becomes the largest finite value (as
/// CUDA's conversions do). e5m2 is the upper half of an IEEE binary16, infinities included.
struct E4m3Format {
  static constexpr int kMantissa = 3, kMinExponent = -6;
  static constexpr std::uint8_t kLargest = 0x7e;  ///< number, infinity included
  static constexpr std::uint8_t kNan = 0x7f;      ///< canonical
  static constexpr float kClamp = 448.0f;         ///< magnitudes above give the code of this one
  static constexpr bool kInfinity = false;
};
struct E5m2Format {
  static constexpr int kMantissa = 2, kMinExponent = -14;
  static constexpr std::uint8_t kLargest = 0x7c;
  static constexpr std::uint8_t kNan = 0x7e;
  static constexpr float kClamp = 65536.0f;  // the code after the largest finite one: infinity
  static constexpr bool kInfinity = true;
};

#if TUTTI_REDUCE_VECTOR_BYTES >= 32
// Where F16C is, 8-bit floats are widened by way of binary16, which holds all their values. A register's bytes are
// taken as 16-bit lanes: the lower bytes of the first half of them, of the second, then the upper bytes likewise.

/// Of the byte in the upper half of each lane.
TUTTI_INLINE Vector<std::uint16_t, TUTTI_REDUCE_VECTOR_BYTES / 2> to_halves(
    Vector<std::uint16_t, TUTTI_REDUCE_VECTOR_BYTES / 2> lanes, E5m2Format) {
  return lanes;
}
/// 2^-8 times the value, as exponents of e4m3 have a bias smaller by 8. Its NaN is the only code that carries into the
/// highest bit of the exponent, which no number has set.
TUTTI_INLINE Vector<std::uint16_t, TUTTI_REDUCE_VECTOR_BYTES / 2> to_halves(
    Vector<std::uint16_t, TUTTI_REDUCE_VECTOR_BYTES / 2> lanes, E4m3Format) {
  using Lanes = Vector<std::uint16_t, TUTTI_REDUCE_VECTOR_BYTES / 2>;
  using Signed = Vector<std::int16_t, TUTTI_REDUCE_VECTOR_BYTES / 2>;
  const Lanes half = __builtin_bit_cast(Lanes, __builtin_bit_cast(Signed, lanes) >> 1) & std::uint16_t{0xbf80};
  return half | ((half + std::uint16_t{0x80}) & std::uint16_t{0x4000});
}

#if TUTTI_REDUCE_VECTOR_BYTES >= 64
using WideRegister = __m512i;
TUTTI_INLINE void widen_halves(__m512i halves, Vector<float, 16>& low, Vector<float, 16>& high) {
  low = _mm512_maskz_cvtph_ps(kAllLanes, _mm512_maskz_extracti64x4_epi64(0xff, halves, 0));
  high = _mm512_maskz_cvtph_ps(kAllLanes, _mm512_maskz_extracti64x4_epi64(0xff, halves, 1));
}
/// The lower halves of 32-bit lanes, in order.
TUTTI_INLINE void store_lower_halves(char* to, Vector<std::uint32_t, 16> low, Vector<std::uint32_t, 16> high) {
  store_bytes(to, _mm512_maskz_cvtepi32_epi16(kAllLanes, __builtin_bit_cast(__m512i, low)));
  store_bytes(to + 32, _mm512_maskz_cvtepi32_epi16(kAllLanes, __builtin_bit_cast(__m512i, high)));
}
#else
using WideRegister = __m256i;
TUTTI_INLINE void widen_halves(__m256i halves, Vector<float, 8>& low, Vector<float, 8>& high) {
  low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}
TUTTI_INLINE void store_lower_halves(char* to, Vector<std::uint32_t, 8> low, Vector<std::uint32_t, 8> high) {
  const __m256i packed = _mm256_packus_epi32(__builtin_bit_cast(__m256i, low), __builtin_bit_cast(__m256i, high));
  store_bytes(to, _mm256_permute4x64_epi64(packed, 0xd8));  // packing works within 16 bytes
}
#endif
#endif

template <class Derived, class Format>
struct Float8 : Widened<Derived, 1, 4> {
  template <int kLanes>
  TUTTI_INLINE auto load(const char* from) {
    using Floats = Vector<float, kLanes>;
    if constexpr (kLanes == 1) {
      return widen<1>(static_cast<std::uint32_t>(load_bytes<std::uint8_t>(from)) << 24);
#if TUTTI_REDUCE_VECTOR_BYTES >= 32
    } else if constexpr (kByHalves<kLanes>) {
      using Halves = Vector<std::uint16_t, 2 * kLanes>;
      const auto all = load_bytes<Halves>(from);
      Quad<Floats> value;
      widen_halves(__builtin_bit_cast(WideRegister, to_halves(all << 8, Format{})), value.first, value.second);
      widen_halves(__builtin_bit_cast(WideRegister, to_halves(all & std::uint16_t{0xff00}, Format{})), value.third,
                   value.fourth);
      if constexpr (!Format::kInfinity)
        return Quad<Floats>{value.first * 256.0f, value.second * 256.0f, value.third * 256.0f, value.fourth * 256.0f};
      else
        return value;
#endif
    } else {
      const auto all = load_bytes<Vector<std::uint32_t, kLanes>>(from);
      return Quad<Floats>{widen<kLanes>(all << 24), widen<kLanes>(all << 16), widen<kLanes>(all << 8),
                          widen<kLanes>(all)};
    }
  }
  template <int kLanes, bool kFinal, class Register>
  TUTTI_INLINE void store(char* to, Register value) {
    if constexpr (kLanes == 1) store_bytes(to, static_cast<std::uint8_t>(narrow<1, kFinal>(value)));
#if TUTTI_REDUCE_VECTOR_BYTES >= 32
    else if constexpr (kByHalves<kLanes>)
      store_lower_halves(to, narrow<kLanes, kFinal>(value.first) | narrow<kLanes, kFinal>(value.third) << 8,
                         narrow<kLanes, kFinal>(value.second) | narrow<kLanes, kFinal>(value.fourth) << 8);
#endif
    else
      store_bytes(to, narrow<kLanes, kFinal>(value.first) | narrow<kLanes, kFinal>(value.second) << 8 |
                          narrow<kLanes, kFinal>(value.third) << 16 | narrow<kLanes, kFinal>(value.fourth) << 24);
  }
  template <int kLanes, class Register>
  TUTTI_INLINE Register stored(Register value) {
    if constexpr (kLanes == 1)
      return round<1>(value);
    else
      return {round<kLanes>(value.first), round<kLanes>(value.second), round<kLanes>(value.third),
              round<kLanes>(value.fourth)};
  }

 private:
  template <int kLanes>
  static constexpr bool kByHalves = TUTTI_REDUCE_VECTOR_BYTES >= 32 && kLanes * 4 == TUTTI_REDUCE_VECTOR_BYTES;
  static constexpr int kDropped = 23 - Format::kMantissa;  ///< mantissa bits of fp32 that have no place
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(126 + Format::kMinExponent) << 23;
  static constexpr std::uint32_t kOneExponent = 1u << 23;

  /// Of the byte in the highest place of each lane. The way of float16 (elements.inl): rebiasing the exponent is an
  /// addition, subnormals are normalised by the FPU, which never sees a subnormal fp32 (it may be set to flush them).
  template <int kLanes>
  TUTTI_INLINE Vector<float, kLanes> widen(Vector<std::uint32_t, kLanes> lanes) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    using Signed = Vector<std::int32_t, kLanes>;  // SSE compares signed lanes; magnitudes fit
    using Floats = Vector<float, kLanes>;
    const Lanes magnitude = (lanes & 0x7f000000u) >> (24 - kDropped);
    const Signed compared = __builtin_bit_cast(Signed, magnitude);
    const float smallest_normal = __builtin_bit_cast(float, kRebias + kOneExponent);
    const Lanes subnormal =
        __builtin_bit_cast(Lanes, __builtin_bit_cast(Floats, magnitude + (kRebias + kOneExponent)) - smallest_normal);
    const Lanes normal = magnitude + kRebias;
    const Lanes finite = compared < static_cast<std::int32_t>(kOneExponent) ? subnormal : normal;
    constexpr auto kSpecial = static_cast<std::int32_t>((Format::kLargest + (Format::kInfinity ? 0u : 1u)) << kDropped);
    const Lanes special = Format::kInfinity ? magnitude + 2 * kRebias : Lanes{} + 0x7fc00000u;
    const Lanes result = compared >= kSpecial ? special : finite;
    return __builtin_bit_cast(Floats, result | (lanes & 0x80000000u));
  }

  /// `magic` is a power of two so large that its last place is the last place of the 8-bit float nearest to
  /// `magnitude`: the FPU rounds `sum` to it, to nearest even.
  template <int kLanes>
  struct Rounded {
    Vector<std::uint32_t, kLanes> exponent;
    Vector<std::uint32_t, kLanes> magic;
    Vector<float, kLanes> sum;
  };
  template <int kLanes>
  TUTTI_INLINE Rounded<kLanes> round_magnitude(Vector<std::uint32_t, kLanes> bits) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    using Signed = Vector<std::int32_t, kLanes>;
    using Floats = Vector<float, kLanes>;
    const Signed limit = Signed{} + __builtin_bit_cast(std::int32_t, Format::kClamp);
    const Signed magnitude = __builtin_bit_cast(Signed, bits & 0x7fffffffu);
    const Signed clamped = magnitude < limit ? magnitude : limit;
    const Signed smallest = Signed{} + static_cast<std::int32_t>(kRebias + kOneExponent);
    const Signed exponent = clamped & 0x7f800000;
    const Lanes kept = __builtin_bit_cast(Lanes, exponent > smallest ? exponent : smallest);
    const Lanes magic = kept + (static_cast<std::uint32_t>(kDropped) << 23);
    return {kept, magic, __builtin_bit_cast(Floats, clamped) + __builtin_bit_cast(Floats, magic)};
  }

  /// The code in the lowest byte of each lane, zeros above.
  template <int kLanes, bool kFinal>
  TUTTI_INLINE Vector<std::uint32_t, kLanes> narrow(Vector<float, kLanes> value) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    const Lanes bits = __builtin_bit_cast(Lanes, value);
    const Rounded<kLanes> rounded = round_magnitude<kLanes>(bits);
    // Places above `magic`, and the exponent's codes below them; a significand that has rounded up to the next power of
    // two carries into the exponent.
    constexpr std::uint32_t kFirstCode = (kRebias + kOneExponent) >> kDropped;
    const Lanes places = __builtin_bit_cast(Lanes, rounded.sum) - rounded.magic;
    const Lanes code = places + (rounded.exponent >> kDropped) - kFirstCode;
    const Lanes sign = (bits >> 24) & 0x80u;
    const Lanes nan = (kFinal ? Lanes{} : sign) | Format::kNan;
    return value != value ? nan : code | sign;
  }

  /// The value that narrow and widen give back.
  template <int kLanes>
  TUTTI_INLINE Vector<float, kLanes> round(Vector<float, kLanes> value) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    using Floats = Vector<float, kLanes>;
    const Lanes bits = __builtin_bit_cast(Lanes, value);
    const Rounded<kLanes> rounded = round_magnitude<kLanes>(bits);
    Floats magnitude = rounded.sum - __builtin_bit_cast(Floats, rounded.magic);
    if constexpr (Format::kInfinity) {
      const Floats infinity = Floats{} + __builtin_inff();
      magnitude = magnitude >= Format::kClamp ? infinity : magnitude;
    }
    const Lanes number = __builtin_bit_cast(Lanes, magnitude) | (bits & 0x80000000u);
    return value != value ? value : __builtin_bit_cast(Floats, number);
  }
};

/// Minimum and maximum of 8-bit floats compare bytes: sign and magnitude as two's complement, where -0 < +0 comes by
/// itself, and every NaN at the end that wins.
template <class Format, bool kMaximum>
struct OrderedByte {
  using Accumulator = std::int8_t;
  using Bits = std::uint8_t;
  using Unsigned = OrderedByte;
  static constexpr bool kFloating = false;
  static constexpr bool kFinishes = true;
  static constexpr bool kWidened = false;
  static constexpr int kParts = 1;
  static constexpr bool kLogical = false;
  static constexpr std::size_t kBytes = 1;

  template <int kLanes>
  TUTTI_INLINE Vector<std::int8_t, kLanes> load(const char* from) {
    using Bytes = Vector<std::int8_t, kLanes>;
    const auto code = load_bytes<Bytes>(from);
    const auto magnitude = static_cast<Bytes>(code & 0x7f);
    const Bytes nan = Bytes{} + kNanKey;
    const auto key = static_cast<Bytes>(code < 0 ? code ^ 0x7f : code);
    return magnitude > static_cast<std::int8_t>(Format::kLargest) ? nan : key;
  }
  template <int kLanes, bool kFinal>
  TUTTI_INLINE void store(char* to, Vector<std::int8_t, kLanes> key) {
    using Bytes = Vector<std::int8_t, kLanes>;
    auto code = static_cast<Bytes>(key < 0 ? key ^ 0x7f : key);
    if constexpr (kFinal) {
      const Bytes nan = Bytes{} + static_cast<std::int8_t>(Format::kNan);
      code = key == kNanKey ? nan : code;
    }
    store_bytes(to, code);
  }

 private:
  static constexpr std::int8_t kNanKey = kMaximum ? 127 : -128;
};

namespace element {

struct float8_e4m3 : Float8<float8_e4m3, E4m3Format> {};
struct float8_e5m2 : Float8<float8_e5m2, E5m2Format> {};

/// Any byte but 0 is true; 1 from the first load on.
struct boolean {
  using Accumulator = std::uint8_t;
  using Bits = std::uint8_t;
  using Unsigned = boolean;
  static constexpr bool kFloating = false;
  static constexpr bool kFinishes = true;
  static constexpr bool kWidened = false;
  static constexpr int kParts = 1;
  static constexpr bool kLogical = true;
  static constexpr std::size_t kBytes = 1;

  template <int kLanes>
  TUTTI_INLINE Vector<std::uint8_t, kLanes> load(const char* from) {
    using Bytes = Vector<std::uint8_t, kLanes>;
    const auto value = load_bytes<Bytes>(from);
    const auto one = static_cast<Bytes>(Bytes{} + std::uint8_t{1});
    return value != 0 ? one : Bytes{};
  }
  template <int kLanes, bool>
  TUTTI_INLINE void store(char* to, Vector<std::uint8_t, kLanes> value) {
    store_bytes(to, value);
  }
};

}  // namespace element

/// The element type that minima or maxima of E are computed with.
template <class E, bool kMaximum>
struct Extreme {
  using type = E;
};
template <bool kMaximum>
struct Extreme<element::float8_e4m3, kMaximum> {
  using type = OrderedByte<E4m3Format, kMaximum>;
};
template <bool kMaximum>
struct Extreme<element::float8_e5m2, kMaximum> {
  using type = OrderedByte<E5m2Format, kMaximum>;
};

}  // namespace
}  // namespace tutti::core
