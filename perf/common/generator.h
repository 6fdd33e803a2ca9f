// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/tutti.h"

// Test data. Inputs are a hash of (seed, element index, rank); expected results are *generated* from the same numbers,
// not computed by another collective, and cost the same for any number of ranks:
//
//   sum (floats)    rank r of n holds (h(r) - h(r+1)) * 2^e, integers h in [0, 2^precision / n]: the sum telescopes to
//                   (h(0) - h(n)) * 2^e. Every partial sum, in any order and any grouping, is an integer below
//                   2^precision times 2^e: exact in the type itself, and both signs appear.
//   sum (integers)  the same with full-width words; everything wraps.
//   mulsum          rank r's value v of a sum, divided by what r is multiplied by (1 on even ranks, 2 on odd ones):
//   exact
//                   in floats; integers v are chosen even where that is 2.
//   avg (floats)    two ranks of the same sign contribute, the others hold 0: at most 2 units in the last place off.
//   avg (integers)  the wrapped sum divided by n, truncating.
//   prod            one rank holds a random value, the others +-2^k (floats) or powers of an odd number (integers,
//   which
//                   have an inverse modulo 2^w), and the exponents telescope.
//   min, max        one random rank holds the extreme value w; the others hold w|x or w&x in an order-preserving code.
//   band, bor       one random rank holds the result w; the others hold w|x or w&x.
//   bxor            full-width words h(r) ^ h(r+1) telescope.
//   bool            or, and: a true (false) result has it from one random rank, and now and then from another too;
//                   exclusive or telescopes. True is any byte but 0 in inputs and 1 in results.
//   copies          random bit patterns, but no NaN or infinity (Tutti makes NaN canonical where it reduces).
namespace tutti::perf {

/// untouched: what prepare() puts where no input is, kUntouchedByte everywhere.
enum class Pattern : uint8_t { zero, untouched, copy, reduce_input, reduce_expected };

/// `count` consecutive elements of a buffer. Element k of the segment has index first_index + k.
struct Segment {
  Pattern pattern = Pattern::zero;
  uint64_t count = 0;
  uint64_t first_index = 0;
  uint64_t seed = 0;
  int rank = 0;   // whose data
  int ranks = 1;  // reductions only
  tutti_op op = TUTTI_SUM;
  bool premultiplied = false;
};
using Layout = std::vector<Segment>;

/// Finite in every type, and neither zero nor a small number.
constexpr int kUntouchedByte = 0xa5;

/// Writes elements [offset, offset + count) of `segment`. `out` needs the alignment of the type.
void generate(tutti_dtype type, const Segment& segment, uint64_t offset, uint64_t count, void* out);

/// What a rank's values are multiplied by in a pre-multiplied sum (mulsum), as in nccl-tests.
constexpr int premultiplier(int rank) { return rank % 2 == 0 ? 1 : 2; }

/// Writes a whole buffer; `out` may have any alignment.
void fill(tutti_dtype type, const Layout& layout, void* out);

/// Largest allowed difference of bit patterns (units in the last place): 2 for averages of floats, else 0.
uint64_t tolerance(tutti_dtype type, const Segment& segment);

uint64_t element_count(const Layout& layout);

}  // namespace tutti::perf
