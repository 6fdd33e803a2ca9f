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

namespace tutti::core {
namespace {

constexpr int kMaxInputs = 4;
constexpr std::size_t kBlockBytes = 4096;  // of accumulators

// Operators on one accumulator register; kBits is the unsigned register of the same shape.
struct Sum {
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Prod {
  template <class E>
  using Arithmetic = typename E::Unsigned;
  template <class V, class BitsV, bool>
  TUTTI_INLINE V apply(V a, V b) {
    return static_cast<V>(a * b);
  }
};
// IEEE 754-2019 minimum: where neither is smaller, OR of the bits. Equal numbers are then themselves, -0 beats +0,
// and a NaN stays a NaN whatever it is combined with.
struct Min {
  template <class E>
  using Arithmetic = E;
  template <class V, class BitsV, bool kFloating>
  TUTTI_INLINE V apply(V a, V b) {
    if constexpr (!kFloating) {
      return a < b ? a : b;
    } else {
      const V both = __builtin_bit_cast(V, __builtin_bit_cast(BitsV, a) | __builtin_bit_cast(BitsV, b));
      const V not_less = b < a ? b : both;
      return a < b ? a : not_less;
    }
  }
};
// IEEE 754-2019 maximum: AND of the bits for equal numbers (+0 beats -0), OR keeps NaN.
struct Max {
  template <class E>
  using Arithmetic = E;
  template <class V, class BitsV, bool kFloating>
  TUTTI_INLINE V apply(V a, V b) {
    if constexpr (!kFloating) {
      return a < b ? b : a;
    } else {
      const BitsV a_bits = __builtin_bit_cast(BitsV, a), b_bits = __builtin_bit_cast(BitsV, b);
      const V equal = __builtin_bit_cast(V, a_bits & b_bits);
      const V unordered = __builtin_bit_cast(V, a_bits | b_bits);
      const V same = a == b ? equal : unordered;
      const V not_greater = a < b ? b : same;
      return b < a ? a : not_greater;
    }
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

template <class E, class Op, Shape kShape, int kLanes>
TUTTI_INLINE std::size_t sweep_lanes(const Sweep<E>& sweep, std::size_t begin) {
  using Accumulator = typename E::Accumulator;
  using V = Vector<Accumulator, kLanes>;
  using BitsV = Vector<typename E::Bits, kLanes>;
  constexpr std::size_t kFirstBytes = kShape.from_accumulators ? sizeof(Accumulator) : E::kBytes;
  constexpr std::size_t kOutBytes = kShape.to_accumulators ? sizeof(Accumulator) : E::kBytes;
  const char* inputs[kShape.inputs];
  for (int k = 0; k < kShape.inputs; ++k) inputs[k] = sweep.inputs[k];
  std::size_t i = begin;
  for (; i + kLanes <= sweep.count; i += kLanes) {
    V value;
    if constexpr (kShape.from_accumulators)
      value = load_bytes<V>(inputs[0] + i * kFirstBytes);
    else
      value = E::template load<kLanes>(inputs[0] + i * kFirstBytes);
    if constexpr (kShape.scaled && !kShape.from_accumulators) value = value * sweep.factors[0];
#pragma GCC unroll 4
    for (int k = 1; k < kShape.inputs; ++k) {
      V operand = E::template load<kLanes>(inputs[k] + i * E::kBytes);
      if constexpr (kShape.scaled) operand = operand * sweep.factors[k];
      value = Op::template apply<V, BitsV, E::kFloating>(value, operand);
    }
    char* to = sweep.destination + i * kOutBytes;
    if constexpr (kShape.to_accumulators)
      store_bytes(to, value);
    else
      E::template store<kLanes, kShape.final>(to, value);
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
  if constexpr (E::kFloating) {
    const bool scaled = args.raw_source >= 0, final = args.final && !to;
    if (scaled && final) return run_inputs<E, Op, true, true>(sweep, inputs, from, to);
    if (scaled) return run_inputs<E, Op, true, false>(sweep, inputs, from, to);
    if (final) return run_inputs<E, Op, false, true>(sweep, inputs, from, to);
  }
  run_inputs<E, Op, false, false>(sweep, inputs, from, to);
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
      sweep.factors[inputs] = source == args.raw_source ? static_cast<typename E::Accumulator>(args.scale) : 1;
    }
    const bool last = source == args.source_count;
    sweep.destination = last ? static_cast<char*>(args.destination) + begin * E::kBytes : accumulators;
    run_sweep<E, Op>(sweep, inputs, args, !first, !last);
  }
}

/// Integer average: divides `count` elements in place, truncating towards zero, by magnitude: no overflow for any
/// divisor.
template <class E>
void divide(char* elements, std::size_t count, std::uint64_t divisor) {
  using T = typename E::Accumulator;
  using Magnitude = typename E::Bits;
  const Magnitude small = static_cast<Magnitude>(divisor);
  for (std::size_t i = 0; i < count; ++i) {
    char* const at = elements + i * sizeof(T);
    const T value = load_bytes<T>(at);
    const Magnitude bits = static_cast<Magnitude>(value);
    const bool negative = value < 0;
    const Magnitude magnitude = negative ? static_cast<Magnitude>(0u - bits) : bits;
    const Magnitude quotient = small == divisor ? static_cast<Magnitude>(magnitude / small) : Magnitude{0};
    store_bytes(at, negative ? static_cast<Magnitude>(0u - quotient) : quotient);
  }
}

template <class E, class Op>
void reduce(const ReduceArgs& args) {
  using Arithmetic = typename Op::template Arithmetic<E>;
  if (args.count == 0) return;
  const bool divides = !E::kFloating && args.divisor > 1;
  const bool changes_value = E::kFloating ? (args.raw_source >= 0 || args.final) : divides;
  if (args.source_count == 1 && !changes_value) {
    if (args.destination != args.sources[0])
      __builtin_memmove(args.destination, args.sources[0], args.count * E::kBytes);
    return;
  }
  if (args.source_count <= kMaxInputs && !divides) return reduce_range<Arithmetic, Op>(args, 0, args.count, nullptr);
  alignas(64) char accumulators[kBlockBytes];
  constexpr std::size_t kBlock = kBlockBytes / sizeof(typename E::Accumulator);
  for (std::size_t begin = 0; begin < args.count; begin += kBlock) {
    const std::size_t count = args.count - begin < kBlock ? args.count - begin : kBlock;
    reduce_range<Arithmetic, Op>(args, begin, count, accumulators);
    if constexpr (!E::kFloating)
      if (divides) divide<E>(static_cast<char*>(args.destination) + begin * E::kBytes, count, args.divisor);
  }
}

template <class E>
constexpr void add_kernels(KernelTable& table, int type) {
  table.kernels[type][TUTTI_SUM] = reduce<E, Sum>;
  table.kernels[type][TUTTI_PROD] = reduce<E, Prod>;
  table.kernels[type][TUTTI_MAX] = reduce<E, Max>;
  table.kernels[type][TUTTI_MIN] = reduce<E, Min>;
  table.kernels[type][TUTTI_AVG] = reduce<E, Sum>;
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
