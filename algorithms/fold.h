// SPDX-License-Identifier: Apache-2.0
// Folding any number of ranks onto a power of two, for algorithms that need one.
#pragma once

#include <bit>

namespace tutti::core {

/// How the members of an algorithm are numbered. With p = 2^k + s ranks, the first 2s ranks form pairs (2i, 2i+1): the
/// even one, a guest, gives its data to the odd one, its host, before the algorithm starts and receives the result
/// when it is over. The s hosts and the p - 2s ranks above take part, under the numbers 0 .. 2^k - 1:
///
///   rank    0     1     2     3     4     5          (p = 6: 0 and 2 are guests of 1 and 3)
///   number        0           1     2     3
struct Fold {
  explicit Fold(int ranks)
      : core(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), surplus(ranks - core) {}
  /// Everybody takes part: for algorithms that need no power of two.
  static Fold none(int ranks) {
    Fold fold(1);
    fold.core = ranks;
    return fold;
  }

  /// log2 of the members; only of a power of two.
  int rounds() const { return std::countr_zero(static_cast<unsigned>(core)); }
  bool is_guest(int rank) const { return rank < 2 * surplus && rank % 2 == 0; }
  bool is_host(int rank) const { return rank < 2 * surplus && rank % 2 == 1; }
  int core_number(int rank) const { return rank < 2 * surplus ? rank / 2 : rank - surplus; }
  int rank_of(int number) const { return number < surplus ? 2 * number + 1 : number + surplus; }

  int core;     ///< ranks that take part
  int surplus;  ///< ranks that do not
};

}  // namespace tutti::core
