// SPDX-License-Identifier: Apache-2.0
#include "tests/api/blocks.h"

#include <algorithm>

namespace api_test {

namespace {

std::uint64_t begin_of(const Case& c, int rank) { return c.count * static_cast<std::uint64_t>(rank); }

/// One block per rank, all of them elements of `rank`.
std::vector<Block> own_blocks(const Case& c, int rank) {
  std::vector<Block> blocks;
  for (int r = 0; r < c.ranks; ++r) blocks.push_back({begin_of(c, r), c.count, rank, begin_of(c, r)});
  return blocks;
}

}  // namespace

bool reduces(tutti_collective what) {
  return what == TUTTI_ALL_REDUCE || what == TUTTI_REDUCE_SCATTER || what == TUTTI_REDUCE;
}

bool has_root(tutti_collective what) {
  return what == TUTTI_BROADCAST || what == TUTTI_REDUCE || what == TUTTI_GATHER || what == TUTTI_SCATTER;
}

std::vector<Block> input_blocks(const Case& c, int rank) {
  const bool reads = (c.what != TUTTI_BROADCAST && c.what != TUTTI_SCATTER) || rank == c.root;
  if (!reads) return {};
  switch (c.what) {
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER:
    case TUTTI_ALL_TO_ALL: return own_blocks(c, rank);
    default: return {{0, c.count, rank, 0}};
  }
}

std::vector<Block> output_blocks(const Case& c, int rank) {
  const bool writes = (c.what != TUTTI_REDUCE && c.what != TUTTI_GATHER) || rank == c.root;
  if (!writes) return {};
  std::vector<Block> blocks;
  switch (c.what) {
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
      for (int r = 0; r < c.ranks; ++r) blocks.push_back({begin_of(c, r), c.count, r, 0});
      return blocks;
    case TUTTI_ALL_TO_ALL:
      for (int r = 0; r < c.ranks; ++r) blocks.push_back({begin_of(c, r), c.count, r, begin_of(c, rank)});
      return blocks;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER: return {{0, c.count, c.root, begin_of(c, rank)}};
    default: return {{0, c.count, c.root, 0}};
  }
}

std::uint64_t span_of(const std::vector<Block>& blocks) {
  std::uint64_t span = 0;
  for (const Block& block : blocks) span = std::max(span, block.offset + block.count);
  return span;
}

std::uint64_t reduced_elements(const Case& c) {
  return c.what == TUTTI_REDUCE_SCATTER ? begin_of(c, c.ranks) : c.count;
}

}  // namespace api_test
