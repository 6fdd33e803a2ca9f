// SPDX-License-Identifier: Apache-2.0
// Test data with results known exactly: an account of the collectives that shares no code with the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tutti.h"

namespace api_test {

/// A well-mixed 64-bit number of three.
std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0);

/// Value of one element, given its bits zero-extended; floating types only.
double to_value(tutti_dtype type, std::uint64_t bits);
/// Bits of a value that `type` represents exactly (the NaN is the canonical one); aborts otherwise.
std::uint64_t to_bits(tutti_dtype type, double value);
bool is_float(tutti_dtype type);

/// Inputs of a reduction whose result is the same in every order of evaluation, and that result. Integers are random
/// bits (wrapping arithmetic is exact). Floats: sums and averages of small integers, products of a few factors that are
/// no powers of 1/2 throughout, minima and maxima over values with NaN, infinities and both zeros. TUTTI_PRE_MUL_SUM:
/// every rank has its own factor, for some of them 1.
struct Pattern {
  tutti_dtype type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int ranks = 1;
  std::uint64_t seed = 0;

  std::uint64_t input(int rank, std::uint64_t index) const;
  std::uint64_t expected(std::uint64_t index) const;
  /// Bits of a rank's scalar in pre-multiplied sums.
  std::uint64_t factor(int rank) const;
};

/// Elements [first, first + count) of what `rank` contributes, as bytes.
void fill_input(const Pattern& pattern, int rank, std::uint64_t first, std::uint64_t count, std::byte* destination);
void fill_expected(const Pattern& pattern, std::uint64_t first, std::uint64_t count, std::byte* destination);

/// FNV-1a, to compare results across ranks.
std::uint64_t hash_bytes(const std::byte* data, std::size_t bytes);

}  // namespace api_test
