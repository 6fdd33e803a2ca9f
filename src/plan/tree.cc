// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tree.h"

#include <bit>
#include <cstddef>

#include "src/plan/word_mix.h"

namespace tutti::core {

std::string_view tree_name(Tree tree) {
  switch (tree) {
    case Tree::any: return "any";
    case Tree::rank_order: return "rank_order";
    case Tree::balanced: return "balanced";
  }
  return "unknown";
}

std::uint64_t leaf_hash(std::uint64_t word) { return mix_word(word ^ 0x6c656166u); }
std::uint64_t sum_hash(std::uint64_t left, std::uint64_t right) { return mix_word(left + right); }
std::uint64_t rounded_hash(std::uint64_t sum) { return mix_word(sum ^ 0x726f756e64u); }

namespace {

std::uint64_t balanced_hash(std::span<const std::uint64_t> leaves, std::size_t first, std::size_t count) {
  const std::size_t surplus = leaves.size() - std::bit_floor(leaves.size());
  if (count == 1) {
    if (first >= surplus) return leaves[first + surplus];
    return rounded_hash(sum_hash(leaves[2 * first], leaves[2 * first + 1]));
  }
  const std::size_t half = count / 2;
  return rounded_hash(sum_hash(balanced_hash(leaves, first, half), balanced_hash(leaves, first + half, half)));
}

}  // namespace

std::uint64_t declared_hash(Tree tree, std::span<const std::uint64_t> leaves) {
  if (leaves.size() == 1) return leaves[0];
  if (tree == Tree::balanced) return balanced_hash(leaves, 0, std::bit_floor(leaves.size()));
  std::uint64_t sum = leaves[0];
  for (const std::uint64_t leaf : leaves.subspan(1)) sum = sum_hash(sum, leaf);
  return rounded_hash(sum);
}

}  // namespace tutti::core
