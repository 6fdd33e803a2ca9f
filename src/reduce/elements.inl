// SPDX-License-Identifier: Apache-2.0
// How each element type is loaded, widened, narrowed and stored, for 1 lane (plain scalars) and for vectors of 16, 32
// and 64 bytes. Compiled once per target: everything has internal linkage, so that no AVX code can stand in for a
// baseline function of the same name; for the same reason no standard library function is used.
// A new type: one struct here, named like its row in dtypes.def.

#if TUTTI_REDUCE_VECTOR_BYTES > 0
#include <immintrin.h>
#endif

#define TUTTI_INLINE [[gnu::always_inline]] static inline

namespace tutti::core {
namespace {

/// kLanes elements of T: a compiler vector, or T itself for one lane. Arithmetic, comparison and `?:` read alike.
template <class T, int kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};
template <class T, int kLanes>
using Vector = typename VectorOf<T, kLanes>::type;

/// Registers of a 16-bit type whose elements are widened where they lie: the even ones of memory in one vector, the odd
/// ones in the other, which spares the shuffles of unpacking and packing. Accumulators in memory keep that order.
template <class V>
struct Pair {
  V even, odd;
};

// User buffers have any alignment: memcpy is the unaligned load and store.
template <class V>
TUTTI_INLINE V load_bytes(const char* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <class V>
TUTTI_INLINE void store_bytes(char* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

/// The same of an 8-bit type: the bytes of a 32-bit lane, lowest first.
template <class V>
struct Quad {
  V first, second, third, fourth;
};

/// A type that is its own accumulator. Integer elements are unsigned in Sum and Prod (they wrap), see kernels.inl.
template <class T, class BitsOfT, class UnsignedElement, bool kIsFloat>
struct Plain {
  using Accumulator = T;
  using Bits = BitsOfT;  ///< unsigned integer as wide as the accumulator
  using Unsigned = UnsignedElement;
  static constexpr bool kFloating = kIsFloat;  ///< arithmetic and comparison are those of floats
  static constexpr bool kFinishes = kIsFloat;  ///< the final touch can change a value
  static constexpr bool kWidened = false;      ///< accumulators are wider than elements
  static constexpr int kParts = 1;             ///< accumulator vectors of one load: 2 come as Pair, 4 as Quad
  static constexpr bool kLogical = false;      ///< truth values
  static constexpr std::size_t kBytes = sizeof(T);

  template <int kLanes>
  TUTTI_INLINE Vector<T, kLanes> load(const char* from) {
    return load_bytes<Vector<T, kLanes>>(from);
  }
  template <int kLanes, bool kFinal>
  TUTTI_INLINE void store(char* to, Vector<T, kLanes> value) {
    if constexpr (kIsFloat && kFinal) {
      const Vector<T, kLanes> canonical = Vector<T, kLanes>{} + __builtin_bit_cast(T, kCanonicalNan);
      value = value != value ? canonical : value;
    }
    store_bytes(to, value);
  }
  /// What a value is after store and load.
  template <int kLanes>
  TUTTI_INLINE Vector<T, kLanes> stored(Vector<T, kLanes> value) {
    return value;
  }

 private:
  static constexpr Bits kCanonicalNan = static_cast<Bits>(sizeof(T) == 8 ? 0x7ff8000000000000u : 0x7fc00000u);
};

namespace element {
struct uint8 : Plain<std::uint8_t, std::uint8_t, uint8, false> {};
struct uint32 : Plain<std::uint32_t, std::uint32_t, uint32, false> {};
struct uint64 : Plain<std::uint64_t, std::uint64_t, uint64, false> {};
struct int8 : Plain<std::int8_t, std::uint8_t, uint8, false> {};
struct int32 : Plain<std::int32_t, std::uint32_t, uint32, false> {};
struct int64 : Plain<std::int64_t, std::uint64_t, uint64, false> {};
struct float32 : Plain<float, std::uint32_t, float32, true> {};
struct float64 : Plain<double, std::uint64_t, float64, true> {};
}  // namespace element

#if TUTTI_REDUCE_VECTOR_BYTES >= 64
// g++ 12 warns about the undefined register inside the unmasked forms; with this constant mask the code is the same.
constexpr __mmask16 kAllLanes = 0xffff;
#endif

// 16-bit lanes in memory as 32-bit lanes in registers.
template <int kLanes>
TUTTI_INLINE Vector<std::uint32_t, kLanes> load_16(const char* from) {
  if constexpr (kLanes == 1) {
    return load_bytes<std::uint16_t>(from);
#if TUTTI_REDUCE_VECTOR_BYTES >= 16
  } else {
    static_assert(kLanes == 4);
    return __builtin_bit_cast(Vector<std::uint32_t, 4>,
                              _mm_cvtepu16_epi32(_mm_cvtsi64_si128(load_bytes<long long>(from))));
#endif
  }
}

/// Every lane must be below 2^16: the pack saturates.
template <int kLanes>
TUTTI_INLINE void store_16(char* to, Vector<std::uint32_t, kLanes> value) {
  if constexpr (kLanes == 1) {
    store_bytes(to, static_cast<std::uint16_t>(value));
#if TUTTI_REDUCE_VECTOR_BYTES >= 16
  } else {
    static_assert(kLanes == 4);
    const __m128i wide = __builtin_bit_cast(__m128i, value);
    store_bytes<long long>(to, _mm_cvtsi128_si64(_mm_packus_epi32(wide, wide)));
#endif
  }
}

/// A 16- or 8-bit float, accumulated in fp32.
template <class Derived, std::size_t kElementBytes, int kLoadedParts>
struct Widened {
  using Accumulator = float;
  using Bits = std::uint32_t;
  using Unsigned = Derived;
  static constexpr bool kFloating = true;
  static constexpr bool kFinishes = true;
  static constexpr bool kWidened = true;
  static constexpr int kParts = kLoadedParts;
  static constexpr bool kLogical = false;
  static constexpr std::size_t kBytes = kElementBytes;
};

namespace element {

/// bfloat16 is the upper half of an fp32. Rounded by hand: vcvtneps2bf16 flushes subnormals, and not every target has
/// it.
struct bfloat16 : Widened<bfloat16, 2, 2> {
  template <int kLanes>
  TUTTI_INLINE auto load(const char* from) {
    using Floats = Vector<float, kLanes>;
    if constexpr (kLanes == 1) {
      return __builtin_bit_cast(float, load_16<1>(from) << 16);
    } else {
      const auto both = load_bytes<Vector<std::uint32_t, kLanes>>(from);
      return Pair<Floats>{__builtin_bit_cast(Floats, both << 16), __builtin_bit_cast(Floats, both & 0xffff0000u)};
    }
  }
  template <int kLanes, bool kFinal, class Register>
  TUTTI_INLINE void store(char* to, Register value) {
    if constexpr (kLanes == 1)
      store_16<1>(to, round<1, kFinal>(value) >> 16);
    else
      store_bytes(to, round<kLanes, kFinal>(value.even) >> 16 | (round<kLanes, kFinal>(value.odd) & 0xffff0000u));
  }
  template <int kLanes, class Register>
  TUTTI_INLINE Register stored(Register value) {
    if constexpr (kLanes == 1)
      return __builtin_bit_cast(float, round<1, false>(value) & 0xffff0000u);
    else
      return {upper_half<kLanes>(value.even), upper_half<kLanes>(value.odd)};
  }

 private:
  template <int kLanes>
  TUTTI_INLINE Vector<float, kLanes> upper_half(Vector<float, kLanes> value) {
    return __builtin_bit_cast(Vector<float, kLanes>, round<kLanes, false>(value) & 0xffff0000u);
  }
  /// The result in the upper halves; the lower ones are left over.
  template <int kLanes, bool kFinal>
  TUTTI_INLINE Vector<std::uint32_t, kLanes> round(Vector<float, kLanes> value) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    const Lanes bits = __builtin_bit_cast(Lanes, value);
    // Adding just under half a unit, or half a unit if the kept part is odd, carries exactly when nearest-even goes up,
    // into infinity too. The carry could turn a NaN into a number.
    const Lanes rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const Lanes nan = (kFinal ? Lanes{} : bits) | 0x7fc00000u;
    return value != value ? nan : rounded;
  }
};

/// IEEE binary16: by F16C where the target has it, else by the same rounding in integer arithmetic.
struct float16 : Widened<float16, 2, 1> {
  template <int kLanes>
  TUTTI_INLINE Vector<float, kLanes> load(const char* from) {
#if TUTTI_REDUCE_VECTOR_BYTES >= 32
    if constexpr (kLanes == 1) return _cvtsh_ss(load_bytes<std::uint16_t>(from));
    if constexpr (kLanes == 4) return _mm_cvtph_ps(_mm_cvtsi64_si128(load_bytes<long long>(from)));
    if constexpr (kLanes == 8) return _mm256_cvtph_ps(load_bytes<__m128i>(from));
#if TUTTI_REDUCE_VECTOR_BYTES >= 64
    if constexpr (kLanes == 16) return _mm512_maskz_cvtph_ps(kAllLanes, load_bytes<__m256i>(from));
#endif
#else
    return widen<kLanes>(load_16<kLanes>(from));
#endif
  }

  template <int kLanes, bool kFinal>
  TUTTI_INLINE void store(char* to, Vector<float, kLanes> value) {
#if TUTTI_REDUCE_VECTOR_BYTES >= 32
    if constexpr (kFinal) {
      const Vector<float, kLanes> canonical = Vector<float, kLanes>{} + __builtin_nanf("");
      value = value != value ? canonical : value;
    }
    constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    if constexpr (kLanes == 1) store_bytes<std::uint16_t>(to, _cvtss_sh(value, kNearestEven));
    if constexpr (kLanes == 4) store_bytes<long long>(to, _mm_cvtsi128_si64(_mm_cvtps_ph(value, kNearestEven)));
    if constexpr (kLanes == 8) store_bytes(to, _mm256_cvtps_ph(value, kNearestEven));
#if TUTTI_REDUCE_VECTOR_BYTES >= 64
    if constexpr (kLanes == 16) store_bytes(to, _mm512_maskz_cvtps_ph(kAllLanes, value, kNearestEven));
#endif
#else
    store_16<kLanes>(to, narrow<kLanes, kFinal>(value));
#endif
  }
  template <int kLanes>
  TUTTI_INLINE Vector<float, kLanes> stored(Vector<float, kLanes> value) {
#if TUTTI_REDUCE_VECTOR_BYTES >= 32
    constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    if constexpr (kLanes == 1) return _cvtsh_ss(_cvtss_sh(value, kNearestEven));
    if constexpr (kLanes == 4) return _mm_cvtph_ps(_mm_cvtps_ph(value, kNearestEven));
    if constexpr (kLanes == 8) return _mm256_cvtph_ps(_mm256_cvtps_ph(value, kNearestEven));
#if TUTTI_REDUCE_VECTOR_BYTES >= 64
    if constexpr (kLanes == 16)
      return _mm512_maskz_cvtph_ps(kAllLanes, _mm512_maskz_cvtps_ph(kAllLanes, value, kNearestEven));
#endif
#else
    return widen<kLanes>(narrow<kLanes, false>(value));
#endif
  }

 private:
#if TUTTI_REDUCE_VECTOR_BYTES < 32
  // Rebiasing the exponent is an addition; infinity and NaN need it twice; subnormals are normalised by the FPU: the
  // bits are put under the exponent of 2^-14 and the implicit one is subtracted again. No fp32 subnormal is ever
  // formed.
  template <int kLanes>
  TUTTI_INLINE Vector<float, kLanes> widen(Vector<std::uint32_t, kLanes> half) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    using Floats = Vector<float, kLanes>;
    constexpr std::uint32_t kRebias = (127u - 15u) << 23;
    const Lanes magnitude = (half & 0x7fffu) << 13;
    const Lanes exponent = half & 0x7c00u;
    const Lanes infinite = magnitude + 2u * kRebias;
    const Lanes normal = magnitude + kRebias;
    const float smallest_normal = 0x1p-14f;
    const Lanes subnormal = __builtin_bit_cast(
        Lanes,
        __builtin_bit_cast(Floats, magnitude + __builtin_bit_cast(std::uint32_t, smallest_normal)) - smallest_normal);
    const Lanes finite = exponent == 0u ? subnormal : normal;
    const Lanes result = exponent == 0x7c00u ? infinite : finite;
    return __builtin_bit_cast(Floats, result | ((half & 0x8000u) << 16));
  }

  template <int kLanes, bool kFinal>
  TUTTI_INLINE Vector<std::uint32_t, kLanes> narrow(Vector<float, kLanes> value) {
    using Lanes = Vector<std::uint32_t, kLanes>;
    using Signed = Vector<std::int32_t, kLanes>;  // SSE compares signed lanes; magnitudes fit
    constexpr std::uint32_t kRebias = (127u - 15u) << 23;
    const Lanes bits = __builtin_bit_cast(Lanes, value);
    const Lanes magnitude = bits & 0x7fffffffu;
    const Signed compared = __builtin_bit_cast(Signed, magnitude);
    const Lanes sign = (bits >> 16) & 0x8000u;
    // Normal results round as in bfloat16; 65520 and above carry into infinity.
    const Lanes normal = (magnitude - kRebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14: adding 0.5, whose last place is 2^-24, lets the FPU round to the unit of binary16 subnormals.
    const Lanes subnormal = __builtin_bit_cast(Lanes, __builtin_bit_cast(Vector<float, kLanes>, magnitude) + 0.5f) -
                            __builtin_bit_cast(std::uint32_t, 0.5f);
    const Lanes infinity = Lanes{} + 0x7c00u;
    const Lanes below_infinity = compared < 0x38800000 ? subnormal : normal;  // 2^-14
    const Lanes number = compared >= 0x47800000 ? infinity : below_infinity;  // 65536
    const Lanes nan = (kFinal ? Lanes{} : (magnitude >> 13) & 0x3ffu) | 0x7e00u;
    const Lanes nan_sign = kFinal ? Lanes{} : sign;
    return value != value ? nan | nan_sign : number | sign;
  }
#endif
};

}  // namespace element

}  // namespace
}  // namespace tutti::core
