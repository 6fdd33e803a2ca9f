// SPDX-License-Identifier: Apache-2.0
#include "tests/api/blocks.h"

#include <algorithm>

namespace api_test {

namespace {

tutti_collective form_of(tutti_collective what) {
  switch (what) {
    case TUTTI_ALL_GATHER_V: return TUTTI_ALL_GATHER;
    case TUTTI_REDUCE_SCATTER_V: return TUTTI_REDUCE_SCATTER;
    case TUTTI_GATHER_V: return TUTTI_GATHER;
    case TUTTI_SCATTER_V: return TUTTI_SCATTER;
    case TUTTI_ALL_TO_ALL_V: return TUTTI_ALL_TO_ALL;
    default: return what;
  }
}

/// Elements of `from`'s block for `to`; without counts per rank, and where all ranks have the same, `from` does not
/// matter.
std::uint64_t count_of(const Case& c, int from, int to) {
  if (!has_counts(c.what)) return c.count;
  const bool own = c.what == TUTTI_ALL_TO_ALL_V;
  switch (mix(c.seed, static_cast<std::uint64_t>(to), own ? static_cast<std::uint64_t>(from) + 1 : 0) % 5) {
    case 0: return 0;
    case 1: return c.count / 2;
    case 2: return c.count + 1;
    default: return c.count;
  }
}

/// A third of the cases each: displacements left out, packed, and backwards with gaps.
Layout place(const Case& c, std::vector<std::uint64_t> counts) {
  Layout layout;
  const std::size_t ranks = counts.size();
  layout.displacements.resize(ranks);
  layout.packed = !has_counts(c.what) || c.seed % 3 != 2;
  layout.end = layout.packed ? 0 : 1;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t r = layout.packed ? i : ranks - 1 - i;
    layout.displacements[r] = layout.end;
    layout.end += counts[r] + (layout.packed ? 0 : i % 3);
  }
  layout.counts = std::move(counts);
  return layout;
}

/// First element of `rank`'s block for `to` among all that it contributes.
std::uint64_t first_of(const Case& c, int rank, int to) {
  std::uint64_t first = 0;
  for (int r = 0; r < to; ++r) first += count_of(c, rank, r);
  return first;
}

}  // namespace

bool reduces(tutti_collective what) {
  const tutti_collective form = form_of(what);
  return form == TUTTI_ALL_REDUCE || form == TUTTI_REDUCE_SCATTER || form == TUTTI_REDUCE;
}

bool has_root(tutti_collective what) {
  const tutti_collective form = form_of(what);
  return form == TUTTI_BROADCAST || form == TUTTI_REDUCE || form == TUTTI_GATHER || form == TUTTI_SCATTER;
}

bool has_counts(tutti_collective what) { return form_of(what) != what; }

Layout layout_of(const Case& c, int rank) {
  std::vector<std::uint64_t> counts;
  for (int r = 0; r < c.ranks; ++r) counts.push_back(count_of(c, rank, r));
  return place(c, std::move(counts));
}

Layout received_layout(const Case& c, int rank) {
  std::vector<std::uint64_t> counts;
  for (int r = 0; r < c.ranks; ++r) counts.push_back(count_of(c, r, rank));
  return place(c, std::move(counts));
}

std::vector<Block> input_blocks(const Case& c, int rank) {
  const tutti_collective form = form_of(c.what);
  if ((form == TUTTI_BROADCAST || form == TUTTI_SCATTER) && rank != c.root) return {};
  if (form == TUTTI_ALL_GATHER || form == TUTTI_GATHER) return {{0, count_of(c, rank, rank), rank, 0}};
  if (form != TUTTI_REDUCE_SCATTER && form != TUTTI_SCATTER && form != TUTTI_ALL_TO_ALL) return {{0, c.count, rank, 0}};
  const Layout layout = layout_of(c, rank);
  std::vector<Block> blocks;
  for (std::size_t r = 0; r < layout.counts.size(); ++r)
    blocks.push_back({layout.displacements[r], layout.counts[r], rank, first_of(c, rank, static_cast<int>(r))});
  return blocks;
}

std::vector<Block> output_blocks(const Case& c, int rank) {
  const tutti_collective form = form_of(c.what);
  if ((form == TUTTI_REDUCE || form == TUTTI_GATHER) && rank != c.root) return {};
  if (form == TUTTI_REDUCE_SCATTER || form == TUTTI_SCATTER)
    return {{0, count_of(c, c.root, rank), c.root, first_of(c, c.root, rank)}};
  if (form != TUTTI_ALL_GATHER && form != TUTTI_GATHER && form != TUTTI_ALL_TO_ALL) return {{0, c.count, c.root, 0}};
  const bool exchange = form == TUTTI_ALL_TO_ALL;
  const Layout layout = exchange ? received_layout(c, rank) : layout_of(c, rank);
  std::vector<Block> blocks;
  for (std::size_t r = 0; r < layout.counts.size(); ++r) {
    const int from = static_cast<int>(r);
    blocks.push_back({layout.displacements[r], layout.counts[r], from, exchange ? first_of(c, from, rank) : 0});
  }
  return blocks;
}

std::uint64_t span_of(const std::vector<Block>& blocks) {
  std::uint64_t span = 0;
  for (const Block& block : blocks) span = std::max(span, block.offset + block.count);
  return span;
}

std::uint64_t reduced_elements(const Case& c) {
  return form_of(c.what) == TUTTI_REDUCE_SCATTER ? first_of(c, 0, c.ranks) : c.count;
}

}  // namespace api_test
