// SPDX-License-Identifier: Apache-2.0
// Binomial (k = 2) and k-nomial (k = 4) trees for the rooted collectives: the number of ranks that have the data, or
// whose data has been collected, grows k-fold with every level. Few rounds for any number of ranks and any root; k = 4
// halves the rounds for up to three times as many messages at the root. algorithms/rooted_tree.h says who is whose
// child. Four ranks, root 0, k = 2:
//
//   broadcast   0 ──► 2, then 0 ──► 1 and 2 ──► 3       the largest subtree first, since it needs the most time
//   reduce      (0 + 1) + (2 + 3): 2 adds 3's data to its own, then 0 adds to its own that of 1, then that of 2
//   gather      2 sends its block, then 3's as it comes; 0 receives blocks in rank order
//   scatter     0 sends 2's subtree from its far end: block 3, which 2 passes on as it comes, then block 2; then 1's
//
// reduce: a rank's value is its own input plus the values of its children, near to far, added left to right in one
// reduction. Because a subtree is a range of neighbours, this is x_root + x_(root+1) + ... in rank order, with brackets
// that depend on the number of ranks alone; over 2^m ranks and k = 2 it is the balanced binary tree (16- and 8-bit
// floats are rounded once per rank that adds, not once per sum).
// gather, scatter: blocks are messages of their own, so a rank passes one on without waiting for the rest of a subtree.
// Sources: the minimum-spanning-tree algorithms of Chan, Heimlich, Purkayastha & van de Geijn, "Collective
// communication: theory, practice, and experience", CCPE 19(13), 2007, which split a range of ranks in two; k parts
// instead: Wilkins et al., "Generalized collective algorithms for the exascale era", CLUSTER 2023.
#include "algorithms/rooted_tree.h"

namespace tutti::core {

namespace {

constexpr int kBinomial = 2;
constexpr int kFour = 4;

Result<Schedule> build_broadcast(const BuildRequest& request, int radix) {
  const RootedTree tree(request, radix);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
  const Slot source = tree.is_root() ? input(0) : output(0);
  if (!tree.is_root()) steps.recv(tree.rank_of(tree.parent()), tree.parent() == 0 ? input(0) : output(0), output(0));
  for (auto child = tree.children().rbegin(); child != tree.children().rend(); ++child)
    steps.send(tree.rank_of(child->first), source, output(0));
  if (tree.is_root()) steps.copy(input(0), output(0));
  return steps.finish();
}

RowCost cost_broadcast(int ranks, int radix) {
  const RootedTreeShape tree(ranks, radix);
  const double children = tree.children;
  return {.rounds = static_cast<double>(tree.depth), .sent = children, .reduced = 0, .messages = children};
}

// Scratch c holds the value of child c, and the last one the sum, where the rank has no output.

/// Where the parent keeps the value of the rank whose tree this is.
Slot slot_at_parent(const RootedTree& tree) {
  const RootedTree above = tree.seen_by(tree.parent());
  std::uint32_t child = 0;
  while (above.children()[child].first != tree.own().first) ++child;
  return scratch(child);
}
/// Where a rank that is not the root has its value.
Slot value_slot(const RootedTree& tree) {
  return tree.is_leaf() ? input(0) : scratch(static_cast<std::uint32_t>(tree.children().size()));
}

Result<Schedule> build_reduce(const BuildRequest& request, int radix) {
  const RootedTree tree(request, radix);
  const auto children = static_cast<std::uint32_t>(tree.children().size());
  const Slot sum = tree.is_root() ? output(0) : value_slot(tree);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = children + (sum.where() == Space::scratch ? 1u : 0u)});
  for (std::uint32_t c = 0; c < children; ++c) {
    const int child = tree.children()[c].first;
    steps.recv(tree.rank_of(child), value_slot(tree.seen_by(child)), scratch(c));
  }
  if (!(sum == input(0))) steps.copy(input(0), sum);
  for (std::uint32_t c = 0; c < children; ++c) steps.reduce(scratch(c), sum);
  if (!tree.is_root()) steps.send(tree.rank_of(tree.parent()), sum, slot_at_parent(tree));
  return steps.finish();
}

RowCost cost_reduce(int ranks, int radix) {
  const RootedTreeShape tree(ranks, radix);
  const double sends = std::min(ranks - 1, 1);
  return {.rounds = static_cast<double>(tree.depth),
          .sent = sends,
          .reduced = static_cast<double>(tree.children),
          .messages = sends};
}

/// Where a rank holds a block of its subtree. On the way the last rank but the root has it in scratch: number v holds
/// block v+1+k in scratch k.
struct BlockSlots {
  Space at_root;    ///< gather: output; scatter: input
  Space at_itself;  ///< the other one

  Slot of(const RootedTree& tree, int block) const {
    const auto rank = static_cast<std::uint32_t>(tree.rank_of(block));
    if (tree.is_root()) return Slot::of(at_root, rank);
    if (block == tree.own().first) return Slot::of(at_itself, rank);
    return scratch(static_cast<std::uint32_t>(block - tree.own().first - 1));
  }
};

ScheduleBuilder::Shape shape_for_blocks(const BuildRequest& request, const RootedTree& tree) {
  const auto ranks = static_cast<std::uint32_t>(request.placement->ranks);
  if (tree.is_root() || tree.is_leaf()) return {.chunks = ranks, .scratch_chunks = 0};
  return {.chunks = ranks,
          .scratch_chunks = static_cast<std::uint32_t>(tree.own().size - 1),
          .scratch_holds = static_cast<std::uint32_t>(tree.rank_of(tree.own().first + 1))};
}

Result<Schedule> build_gather(const BuildRequest& request, int radix) {
  const RootedTree tree(request, radix);
  const RootedTree above = tree.is_root() ? tree : tree.seen_by(tree.parent());
  const BlockSlots slots{.at_root = Space::output, .at_itself = Space::input};
  const auto own = static_cast<std::uint32_t>(request.placement->rank);
  ScheduleBuilder steps(request, shape_for_blocks(request, tree));
  const auto pass_on = [&](int block) {
    if (!tree.is_root()) steps.send(above.rank(), slots.of(tree, block), slots.of(above, block));
  };
  if (tree.is_root()) steps.copy(input(own), output(own));
  pass_on(tree.own().first);
  for (const Subtree& child : tree.children()) {
    const RootedTree below = tree.seen_by(child.first);
    for (int block = child.first; block < child.first + child.size; ++block) {
      steps.recv(below.rank(), slots.of(below, block), slots.of(tree, block));
      pass_on(block);
    }
  }
  return steps.finish();
}

RowCost cost_gather(int ranks, int radix) {
  const RootedTreeShape tree(ranks, radix);
  const double blocks = tree.largest_subtree;
  return {.rounds = static_cast<double>(tree.depth), .sent = blocks / ranks, .reduced = 0, .messages = blocks};
}

/// gather backwards.
Result<Schedule> build_scatter(const BuildRequest& request, int radix) {
  const RootedTree tree(request, radix);
  const RootedTree above = tree.is_root() ? tree : tree.seen_by(tree.parent());
  const BlockSlots slots{.at_root = Space::input, .at_itself = Space::output};
  const auto own = static_cast<std::uint32_t>(request.placement->rank);
  ScheduleBuilder steps(request, shape_for_blocks(request, tree));
  const auto fetch = [&](int block) {
    if (!tree.is_root()) steps.recv(above.rank(), slots.of(above, block), slots.of(tree, block));
  };
  for (auto child = tree.children().rbegin(); child != tree.children().rend(); ++child) {
    const RootedTree below = tree.seen_by(child->first);
    for (int block = child->first + child->size - 1; block >= child->first; --block) {
      fetch(block);
      steps.send(below.rank(), slots.of(tree, block), slots.of(below, block));
    }
  }
  fetch(tree.own().first);
  if (tree.is_root()) steps.copy(input(own), output(own));
  return steps.finish();
}

RowCost cost_scatter(int ranks, int radix) {
  const RootedTreeShape tree(ranks, radix);
  return {
      .rounds = static_cast<double>(tree.depth), .sent = (ranks - 1.0) / ranks, .reduced = 0, .messages = ranks - 1.0};
}

}  // namespace

Result<Schedule> build_binomial_broadcast(const BuildRequest& request) { return build_broadcast(request, kBinomial); }
RowCost cost_binomial_broadcast(int ranks) { return cost_broadcast(ranks, kBinomial); }
Result<Schedule> build_binomial_reduce(const BuildRequest& request) { return build_reduce(request, kBinomial); }
RowCost cost_binomial_reduce(int ranks) { return cost_reduce(ranks, kBinomial); }
Result<Schedule> build_binomial_gather(const BuildRequest& request) { return build_gather(request, kBinomial); }
RowCost cost_binomial_gather(int ranks) { return cost_gather(ranks, kBinomial); }
Result<Schedule> build_binomial_scatter(const BuildRequest& request) { return build_scatter(request, kBinomial); }
RowCost cost_binomial_scatter(int ranks) { return cost_scatter(ranks, kBinomial); }

Result<Schedule> build_k_nomial_broadcast(const BuildRequest& request) { return build_broadcast(request, kFour); }
RowCost cost_k_nomial_broadcast(int ranks) { return cost_broadcast(ranks, kFour); }
Result<Schedule> build_k_nomial_reduce(const BuildRequest& request) { return build_reduce(request, kFour); }
RowCost cost_k_nomial_reduce(int ranks) { return cost_reduce(ranks, kFour); }
Result<Schedule> build_k_nomial_gather(const BuildRequest& request) { return build_gather(request, kFour); }
RowCost cost_k_nomial_gather(int ranks) { return cost_gather(ranks, kFour); }
Result<Schedule> build_k_nomial_scatter(const BuildRequest& request) { return build_scatter(request, kFour); }
RowCost cost_k_nomial_scatter(int ranks) { return cost_scatter(ranks, kFour); }

}  // namespace tutti::core
