// SPDX-License-Identifier: Apache-2.0
// Expression trees: the order in which a reduction adds its contributions, which decides the bits of floats. Rows may
// declare a fixed one (Algorithm::tree); the checker compares hashes of trees.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tutti::core {

/// What a reducing row promises about the tree of every output chunk, for every size, chunk, lane, root and placement.
///   any         nothing but that all ranks hold the same one (level L1): the ring's begins at another rank in each
///   chunk rank_order  one left-to-right reduction over ranks 0, 1, 2 ..., rounded once (L2 and L3) balanced    the
///   perfect binary tree over 2^k leaves, 2^k the largest power of two up to the number of ranks p, each
///               sum rounded. With p = 2^k + s, leaf j is the sum of ranks 2j and 2j+1 for j < s, else rank j + s. For
///               p = 2^k the tree over twice as many ranks continues it below its leaves, so ranks that reduce an
///               aligned range of leaves by the same tree themselves get the same bits from any such number of ranks
///               (L4).
enum class Tree : std::uint8_t { any, rank_order, balanced };
std::string_view tree_name(Tree tree);

/// Hashes of trees: commutative, since a + b has the bits of b + a, but not associative.
std::uint64_t leaf_hash(std::uint64_t word);
std::uint64_t sum_hash(std::uint64_t left, std::uint64_t right);
/// The end of a reduction: 16- and 8-bit floats round here, so two sums in one reduction are another tree than two
/// reductions.
std::uint64_t rounded_hash(std::uint64_t sum);

/// The hash of the declared tree over the leaf hashes of ranks 0 .. size-1. `tree` is not `any`; at least one leaf.
std::uint64_t declared_hash(Tree tree, std::span<const std::uint64_t> leaves);

}  // namespace tutti::core
