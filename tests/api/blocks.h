// SPDX-License-Identifier: Apache-2.0
// Which elements of whom lie where in the buffers of a case: what each collective promises, told once more without a
// line of the library.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/api/cases.h"

namespace api_test {

/// `count` elements at element `offset` of a buffer: those from `first` on of what `rank` contributes, or of the result
/// of a reduction.
struct Block {
  std::uint64_t offset = 0, count = 0;
  int rank = 0;
  std::uint64_t first = 0;
};

bool reduces(tutti_collective what);
bool has_root(tutti_collective what);
/// One of the forms with a count per rank.
bool has_counts(tutti_collective what);

/// The arrays that a call with a count per rank gets.
struct Layout {
  std::vector<std::uint64_t> counts, displacements;
  bool packed = false;  ///< in rank order: displacements may be left out
  std::uint64_t end = 0;
};
/// Of the buffer with a block for each rank: of all_to_all_v the one that `rank` sends.
Layout layout_of(const Case& c, int rank);
/// all_to_all_v: of the buffer that `rank` receives.
Layout received_layout(const Case& c, int rank);

/// Empty if the collective gives `rank` no such buffer.
std::vector<Block> input_blocks(const Case& c, int rank);
std::vector<Block> output_blocks(const Case& c, int rank);
/// Elements from the first to the end of the last.
std::uint64_t span_of(const std::vector<Block>& blocks);
/// How many elements are reduced in all.
std::uint64_t reduced_elements(const Case& c);

}  // namespace api_test
