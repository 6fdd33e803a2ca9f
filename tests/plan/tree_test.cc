// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tree.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tutti::core {
namespace {

std::vector<std::uint64_t> leaves(std::size_t count) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t k = 0; k < count; ++k) hashes.push_back(leaf_hash(k));
  return hashes;
}

std::uint64_t add(std::uint64_t left, std::uint64_t right) { return rounded_hash(sum_hash(left, right)); }

TEST(Tree, hashes_commute_and_do_not_associate) {
  const auto l = leaves(3);
  EXPECT_EQ(sum_hash(l[0], l[1]), sum_hash(l[1], l[0]));
  EXPECT_NE(sum_hash(sum_hash(l[0], l[1]), l[2]), sum_hash(l[0], sum_hash(l[1], l[2])));
}

TEST(Tree, rank_order_rounds_once) {
  const auto l = leaves(4);
  EXPECT_EQ(declared_hash(Tree::rank_order, l), rounded_hash(sum_hash(sum_hash(sum_hash(l[0], l[1]), l[2]), l[3])));
  EXPECT_EQ(declared_hash(Tree::rank_order, leaves(1)), l[0]) << "nothing is added, nothing rounds";
}

TEST(Tree, balanced_splits_in_halves) {
  const auto l = leaves(7);
  EXPECT_EQ(declared_hash(Tree::balanced, leaves(1)), l[0]);
  EXPECT_EQ(declared_hash(Tree::balanced, leaves(2)), add(l[0], l[1]));
  EXPECT_EQ(declared_hash(Tree::balanced, leaves(4)), add(add(l[0], l[1]), add(l[2], l[3])));
  // With 7 = 4 + 3 ranks the first three leaves are pairs.
  EXPECT_EQ(declared_hash(Tree::balanced, l), add(add(add(l[0], l[1]), add(l[2], l[3])), add(add(l[4], l[5]), l[6])));
}

TEST(Tree, balanced_is_the_same_over_half_as_many_ranks_that_add_their_pairs) {
  const auto l = leaves(16);
  std::vector<std::uint64_t> ranks = l;
  std::set<std::uint64_t> results;
  while (true) {
    results.insert(declared_hash(Tree::balanced, ranks));
    if (ranks.size() == 1) break;
    std::vector<std::uint64_t> half;
    for (std::size_t k = 0; k < ranks.size(); k += 2) half.push_back(add(ranks[k], ranks[k + 1]));
    ranks = half;
  }
  EXPECT_EQ(results.size(), 1u);
}

}  // namespace
}  // namespace tutti::core
