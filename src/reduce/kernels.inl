// SPDX-License-Identifier: Apache-2.0
// The kernels of one target. The including file sets TUTTI_REDUCE_VECTOR_BYTES (0: scalar code only) and is compiled
// with that target's flags. Internal linkage throughout, see elements.inl.
//
// A reduction of up to four sources is one sweep over memory. More sources go block by block, so that the accumulators
// (4 KiB) stay in the L1 cache; within a block, left to right:
//
//   s0 s1 s2 s3 -> acc      acc s4 s5 s6 -> acc      acc s7 s8 -> destination
//
// The destination is written by the last sweep of its block only, after every source of the block was read: it may
// therefore equal any of them.

#include "src/reduce/elements.inl"
#include "src/reduce/elements8.inl"

namespace tutti::core {
namespace {

constexpr int kMaxInputs = 4;
constexpr std::size_t kBlockBytes = 4096;  // of accumulators

// Operators on one accumulator register; BitsV is the unsigned register of the same shape. Arithmetic<E> is the element
// type to compute with, kScales says whether factors and divisors mean anything.
struct Sum {
  static constexpr bool kScales = true;
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Prod {
  static constexpr bool kScales = false;
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a * b);
  }
};
/// The smaller of two floats as x86 has it: the second where neither is smaller (a NaN among them, zeros of any sign).
template <class V>
TUTTI_INLINE V smaller_or_second(V a, V b) {
  return a < b ? a : b;
}
#if TUTTI_REDUCE_VECTOR_BYTES >= 64
// Only here g++ 12 does not find the instruction by itself.
TUTTI_INLINE Vector<float, 16> smaller_or_second(Vector<float, 16> a, Vector<float, 16> b) {
  return _mm512_maskz_min_ps(kAllLanes, a, b);
}
TUTTI_INLINE Vector<double, 8> smaller_or_second(Vector<double, 8> a, Vector<double, 8> b) {
  return _mm512_maskz_min_pd(kAllLanes & 0xff, a, b);
}
#endif

// IEEE 754-2019 minimum: both orders of the above, OR of their bits. They differ for zeros, where OR lets -0 win, and
// with a NaN, which no OR can turn into a number.
struct Min {
  static constexpr bool kScales = false;
  template <class E>
  using Arithmetic = typename Extreme<E, false>::type;
  template <class V, class BitsV, bool kFloating>
  TUTTI_INLINE V apply(V a, V b) {
    if constexpr (!kFloating) {
      return a < b ? a : b;
    } else {
      const BitsV one = __builtin_bit_cast(BitsV, smaller_or_second(a, b));
      const BitsV other = __builtin_bit_cast(BitsV, smaller_or_second(b, a));
      return __builtin_bit_cast(V, one | other);
    }
  }
};
// IEEE 754-2019 maximum is -minimum(-a, -b).
struct Max {
  static constexpr bool kScales = false;
  template <class E>
  using Arithmetic = typename Extreme<E, true>::type;
  template <class V, class BitsV, bool kFloating>
  TUTTI_INLINE V apply(V a, V b) {
    if constexpr (!kFloating)
      return a < b ? b : a;
    else
      return -Min::apply<V, BitsV, true>(-a, -b);
  }
};

struct And {
  static constexpr bool kScales = false;
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Or {
  static constexpr bool kScales = false;
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  static constexpr bool kScales = false;
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

/// What one sweep does, fixed at compile time.
struct Shape {
  int inputs;
  bool from_accumulators;  ///< input 0 holds accumulators, not elements (differs for widened types only)
  bool to_accumulators;
  bool scaled;  ///< inputs are multiplied by their factor
  bool final;   ///< NaN becomes canonical
};

template <class E>
struct Sweep {
  char* destination;
  const char* inputs[kMaxInputs];
  typename E::Accumulator factors[kMaxInputs];  ///< exactly 1 for all but the raw source: no change of value
  std::size_t count;
};

/// Elements in one register of E.
template <class E, int kLanes>
constexpr int kRegisterElements = kLanes > 1 ? E::kParts* kLanes : 1;

template <class E, class Op, int kLanes, class Register>
TUTTI_INLINE Register combine(Register a, Register b) {
  using V = Vector<typename E::Accumulator, kLanes>;
  using BitsV = Vector<typename E::Bits, kLanes>;
  constexpr bool kFloating = E::kFloating;
  if constexpr (kRegisterElements<E, kLanes> == kLanes)
    return Op::template apply<V, BitsV, kFloating>(a, b);
  else if constexpr (E::kParts == 2)
    return {Op::template apply<V, BitsV, kFloating>(a.even, b.even),
            Op::template apply<V, BitsV, kFloating>(a.odd, b.odd)};
  else
    return {Op::template apply<V, BitsV, kFloating>(a.first, b.first),
            Op::template apply<V, BitsV, kFloating>(a.second, b.second),
            Op::template apply<V, BitsV, kFloating>(a.third, b.third),
            Op::template apply<V, BitsV, kFloating>(a.fourth, b.fourth)};
}

template <class V, class T>
TUTTI_INLINE V multiply(V value, T factor) {
  return static_cast<V>(value * factor);
}
template <class V, class T>
TUTTI_INLINE Pair<V> multiply(Pair<V> value, T factor) {
  return {multiply(value.even, factor), multiply(value.odd, factor)};
}
template <class V, class T>
TUTTI_INLINE Quad<V> multiply(Quad<V> value, T factor) {
  return {multiply(value.first, factor), multiply(value.second, factor), multiply(value.third, factor),
          multiply(value.fourth, factor)};
}

/// A scaled value is rounded to its type at once: peers get it rounded, and all ranks must reduce the same values. (For
/// the others the factor is 1, and neither changes them.)
template <class E, bool kScaled, int kLanes>
TUTTI_INLINE auto load_operand(const char* from, typename E::Accumulator factor) {
  auto value = E::template load<kLanes>(from);
  if constexpr (kScaled)
    return E::template stored<kLanes>(multiply(value, factor));
  else
    return value;
}

// Pairs and quads member by member: g++ copies a whole struct through general registers, which stalls the next vector
// load.
template <class V>
TUTTI_INLINE void load_accumulators(const char* from, V& value) {
  value = load_bytes<V>(from);
}
template <class V>
TUTTI_INLINE void load_accumulators(const char* from, Pair<V>& value) {
  value.even = load_bytes<V>(from);
  value.odd = load_bytes<V>(from + sizeof(V));
}
template <class V>
TUTTI_INLINE void load_accumulators(const char* from, Quad<V>& value) {
  value.first = load_bytes<V>(from);
  value.second = load_bytes<V>(from + sizeof(V));
  value.third = load_bytes<V>(from + 2 * sizeof(V));
  value.fourth = load_bytes<V>(from + 3 * sizeof(V));
}
template <class V>
TUTTI_INLINE void store_accumulators(char* to, V value) {
  store_bytes(to, value);
}
template <class V>
TUTTI_INLINE void store_accumulators(char* to, Pair<V> value) {
  store_bytes(to, value.even);
  store_bytes(to + sizeof(V), value.odd);
}

template <class V>
TUTTI_INLINE void store_accumulators(char* to, Quad<V> value) {
  store_bytes(to, value.first);
  store_bytes(to + sizeof(V), value.second);
  store_bytes(to + 2 * sizeof(V), value.third);
  store_bytes(to + 3 * sizeof(V), value.fourth);
}

template <class E, class Op, Shape kShape, int kLanes>
TUTTI_INLINE std::size_t sweep_lanes(const Sweep<E>& sweep, std::size_t begin) {
  using Accumulator = typename E::Accumulator;
  using Register = decltype(E::template load<kLanes>(nullptr));
  constexpr std::size_t kStep = kRegisterElements<E, kLanes>;
  // A copy, because the stores below may alias `sweep` for all that the compiler knows.
  const Sweep<E> local = sweep;
  std::size_t i = begin;
  for (; i + kStep <= local.count; i += kStep) {
    Register value;
    if constexpr (kShape.from_accumulators)
      load_accumulators(local.inputs[0] + i * sizeof(Accumulator), value);
    else
      value = load_operand<E, kShape.scaled, kLanes>(local.inputs[0] + i * E::kBytes, local.factors[0]);
#pragma GCC unroll 4
    for (int k = 1; k < kShape.inputs; ++k)
      value = combine<E, Op, kLanes>(
          value, load_operand<E, kShape.scaled, kLanes>(local.inputs[k] + i * E::kBytes, local.factors[k]));
    if constexpr (kShape.to_accumulators)
      store_accumulators(local.destination + i * sizeof(Accumulator), value);
    else
      E::template store<kLanes, kShape.final>(local.destination + i * E::kBytes, value);
  }
  return i;
}

template <class E, class Op, Shape kShape>
void run_shape(const Sweep<E>& sweep) {
  std::size_t i = 0;
  constexpr int kVectorBytes = TUTTI_REDUCE_VECTOR_BYTES;
  constexpr int kElementBytes = static_cast<int>(sizeof(typename E::Accumulator));
  if constexpr (kVectorBytes > 0) i = sweep_lanes<E, Op, kShape, kVectorBytes / kElementBytes>(sweep, i);
  if constexpr (kVectorBytes > 16) i = sweep_lanes<E, Op, kShape, 16 / kElementBytes>(sweep, i);
  sweep_lanes<E, Op, kShape, 1>(sweep, i);
}

/// Run-time choice of the shape. Flags that mean nothing for E are folded, so that nothing is compiled twice.
template <class E, class Op, bool kScaled, bool kFinal>
void run_inputs(const Sweep<E>& sweep, int inputs, bool from, bool to) {
  if constexpr (E::kWidened) {
    if (to && !from) return run_shape<E, Op, Shape{4, false, true, kScaled, false}>(sweep);
    if (to) return run_shape<E, Op, Shape{4, true, true, kScaled, false}>(sweep);
    if (from && inputs == 2) return run_shape<E, Op, Shape{2, true, false, kScaled, kFinal}>(sweep);
    if (from && inputs == 3) return run_shape<E, Op, Shape{3, true, false, kScaled, kFinal}>(sweep);
    if (from) return run_shape<E, Op, Shape{4, true, false, kScaled, kFinal}>(sweep);
  }
  if (inputs == 1) return run_shape<E, Op, Shape{1, false, false, kScaled, kFinal}>(sweep);
  if (inputs == 2) return run_shape<E, Op, Shape{2, false, false, kScaled, kFinal}>(sweep);
  if (inputs == 3) return run_shape<E, Op, Shape{3, false, false, kScaled, kFinal}>(sweep);
  run_shape<E, Op, Shape{4, false, false, kScaled, kFinal}>(sweep);
}

template <class E, class Op>
void run_sweep(const Sweep<E>& sweep, int inputs, const ReduceArgs& args, bool from, bool to) {
  const bool final = E::kFinishes && args.final && !to;
  if constexpr (Op::kScales) {
    if (args.raw_source >= 0) {
      if constexpr (E::kFinishes)
        if (final) return run_inputs<E, Op, true, true>(sweep, inputs, from, to);
      return run_inputs<E, Op, true, false>(sweep, inputs, from, to);
    }
  }
  if constexpr (E::kFinishes)
    if (final) return run_inputs<E, Op, false, true>(sweep, inputs, from, to);
  run_inputs<E, Op, false, false>(sweep, inputs, from, to);
}

template <class E>
TUTTI_INLINE typename E::Accumulator factor_of(const Factor& factor) {
  if constexpr (E::kFloating)
    return static_cast<typename E::Accumulator>(factor.real);
  else
    return static_cast<typename E::Accumulator>(factor.integer);
}

/// Elements [begin, begin + count) of every source in at most four inputs per sweep; `accumulators` bridges the sweeps.
template <class E, class Op>
void reduce_range(const ReduceArgs& args, std::size_t begin, std::size_t count, char* accumulators) {
  Sweep<E> sweep{};
  sweep.count = count;
  int source = 0;
  for (bool first = true; first || source < args.source_count; first = false) {
    int inputs = 0;
    if (!first) {
      sweep.inputs[0] = accumulators;
      sweep.factors[0] = 1;
      inputs = 1;
    }
    for (; inputs < kMaxInputs && source < args.source_count; ++inputs, ++source) {
      sweep.inputs[inputs] = static_cast<const char*>(args.sources[source]) + begin * E::kBytes;
      sweep.factors[inputs] = source == args.raw_source ? factor_of<E>(args.scale) : 1;
    }
    const bool last = source == args.source_count;
    sweep.destination = last ? static_cast<char*>(args.destination) + begin * E::kBytes : accumulators;
    run_sweep<E, Op>(sweep, inputs, args, !first, !last);
  }
}

/// Division by an invariant as multiplication: Granlund and Montgomery, PLDI 1994, figure 4.1, for 64 bits.
struct Divider {
  std::uint64_t multiplier;
  int shift;
};

Divider make_divider(std::uint64_t divisor) {  // >= 2
  const int log2_rounded_up = 64 - __builtin_clzll(divisor - 1);
  using Wide = unsigned __int128;
  const Wide excess = (Wide{1} << log2_rounded_up) - divisor;
  return {static_cast<std::uint64_t>((excess << 64) / divisor) + 1, log2_rounded_up - 1};
}

TUTTI_INLINE std::uint64_t quotient(const Divider& divider, std::uint64_t dividend) {
  const auto high = static_cast<std::uint64_t>((static_cast<unsigned __int128>(divider.multiplier) * dividend) >> 64);
  return (high + ((dividend - high) >> 1)) >> divider.shift;
}

/// Integer average: divides in place, truncating towards zero, by magnitude: no overflow for any divisor.
template <class E>
void divide(char* elements, std::size_t count, Divider divider) {
  using T = typename E::Accumulator;
  using Magnitude = typename E::Bits;
  for (std::size_t i = 0; i < count; ++i) {
    char* const at = elements + i * sizeof(T);
    const T value = load_bytes<T>(at);
    const auto sign = static_cast<Magnitude>(value < 0 ? ~Magnitude{0} : Magnitude{0});
    const auto bits = static_cast<Magnitude>(value);
    const auto magnitude = static_cast<Magnitude>((bits ^ sign) - sign);
    const auto result = static_cast<Magnitude>(quotient(divider, magnitude));
    store_bytes(at, static_cast<Magnitude>((result ^ sign) - sign));
  }
}

template <class E, class Op>
void reduce(const ReduceArgs& args) {
  using Arithmetic = typename Op::template Arithmetic<E>;
  if (args.count == 0) return;
  constexpr bool kDivides = Op::kScales && !E::kFloating;
  const bool divides = kDivides && args.divisor > 1;
  const bool changes_value = (Op::kScales && args.raw_source >= 0) || (Arithmetic::kFinishes && args.final) || divides;
  if (args.source_count == 1 && !changes_value) {
    if (args.destination != args.sources[0])
      __builtin_memmove(args.destination, args.sources[0], args.count * E::kBytes);
    return;
  }
  if (args.source_count <= kMaxInputs && !divides) return reduce_range<Arithmetic, Op>(args, 0, args.count, nullptr);
  const Divider divider = divides ? make_divider(args.divisor) : Divider{};
  alignas(64) char accumulators[kBlockBytes];
  constexpr std::size_t kBlock = kBlockBytes / sizeof(typename E::Accumulator);
  for (std::size_t begin = 0; begin < args.count; begin += kBlock) {
    const std::size_t count = args.count - begin < kBlock ? args.count - begin : kBlock;
    reduce_range<Arithmetic, Op>(args, begin, count, accumulators);
    if constexpr (kDivides)
      if (divides) divide<E>(static_cast<char*>(args.destination) + begin * E::kBytes, count, divider);
  }
}

/// See LineKernel. The length is a constant: no loop, no rest.
template <class E, class Op>
void reduce_line(void* destination, const void* first, const void* second) {
  using Arithmetic = typename Op::template Arithmetic<E>;
  Sweep<Arithmetic> sweep{};
  sweep.count = kLineKernelBytes / E::kBytes;
  sweep.destination = static_cast<char*>(destination);
  sweep.inputs[0] = static_cast<const char*>(first);
  sweep.inputs[1] = static_cast<const char*>(second);
  constexpr Shape kShape{2, false, false, false, Arithmetic::kFinishes};
  constexpr int kLanes = 16 / static_cast<int>(sizeof(typename Arithmetic::Accumulator));
  if constexpr (TUTTI_REDUCE_VECTOR_BYTES > 0)
    sweep_lanes<Arithmetic, Op, kShape, kLanes>(sweep, 0);
  else
    sweep_lanes<Arithmetic, Op, kShape, 1>(sweep, 0);
}

template <class E, class Op>
constexpr void add_kernel(KernelTable& table, int type, int op) {
  table.kernels[type][op] = reduce<E, Op>;
  table.lines[type][op] = reduce_line<E, Op>;
}

template <class E>
constexpr void add_kernels(KernelTable& table, int type) {
  if constexpr (!E::kFloating) {
    add_kernel<typename E::Unsigned, And>(table, type, TUTTI_BAND);
    add_kernel<typename E::Unsigned, Or>(table, type, TUTTI_BOR);
    add_kernel<typename E::Unsigned, Xor>(table, type, TUTTI_BXOR);
  }
  if constexpr (E::kLogical) {
    add_kernel<E, Or>(table, type, TUTTI_SUM);
    add_kernel<E, Or>(table, type, TUTTI_MAX);
    add_kernel<E, And>(table, type, TUTTI_PROD);
    add_kernel<E, And>(table, type, TUTTI_MIN);
  } else {
    add_kernel<E, Sum>(table, type, TUTTI_SUM);
    add_kernel<E, Prod>(table, type, TUTTI_PROD);
    add_kernel<E, Max>(table, type, TUTTI_MAX);
    add_kernel<E, Min>(table, type, TUTTI_MIN);
    table.kernels[type][TUTTI_AVG] = reduce<E, Sum>;
  }
}

constexpr KernelTable make_kernel_table() {
  KernelTable table{};
#define X(name, ENUMERATOR, bytes, value)                          \
  static_assert(element::name::kBytes == bytes, "see dtypes.def"); \
  add_kernels<element::name>(table, value);
#include "tutti/dtypes.def"
#undef X
  return table;
}

}  // namespace
}  // namespace tutti::core
