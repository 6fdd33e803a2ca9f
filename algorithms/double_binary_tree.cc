// SPDX-License-Identifier: Apache-2.0
// Double binary tree: the message is cut in two, and each half travels along a binary tree of its own. A rank that has
// children in one tree is a leaf in the other, so that together they keep the links of all ranks equally busy: the
// bandwidth of a chain in logarithmically many rounds. all_reduce adds up to the top of both trees and passes the sums
// down again. Seven ranks:
//
//              3                          4               first tree: an in-order binary tree, whose inner nodes have
//          ┌───┴───┐                  ┌───┴───┐           odd numbers
//          1       5                  2       6           second tree: the same, moved on by one: its inner nodes have
//         ┌┴┐     ┌┴┐                ┌┴┐     ┌┴┐          even numbers
//         0 2     4 6                1 3     5 0
//
// broadcast and reduce: the same trees over all ranks but the root, counted from its right neighbour; the root stands
// above the tops of both. Each half has a lane.
// Source: Sanders, Speck & Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
// Computing 35(12), 2009.
#include <algorithm>
#include <array>
#include <bit>

#include "src/plan/builder.h"

namespace tutti::core {

namespace {

constexpr std::uint8_t kTrees = 2;  // and chunks, and lanes

/// A rank's place in one tree. Ranks, or -1.
struct Place {
  int parent = -1;
  std::uint32_t side = 0;  ///< 0: the parent's left child, 1: its right child
  std::array<int, 2> children{-1, -1};
  bool is_leaf() const { return children[0] < 0; }
};

/// The in-order tree over [first, first + size): the left part is perfect, so node numbers with children are odd.
int top_of(int first, int size) {
  return size == 0 ? -1 : first + static_cast<int>(std::bit_floor(static_cast<unsigned>(size))) - 1;
}
Place place_in_order(int node, int size) {
  Place place;
  for (int first = 0;;) {
    const int top = top_of(first, size), after = first + size;
    if (node == top) {
      place.children = {top_of(first, top - first), top_of(top + 1, after - top - 1)};
      return place;
    }
    place.parent = top;
    place.side = node < top ? 0 : 1;
    size = node < top ? top - first : after - top - 1;
    if (node > top) first = top + 1;
  }
}

/// The trees over the `size` ranks from `start` on, around a ring of `ranks`.
class TwoTrees {
 public:
  TwoTrees(int ranks, int start, int size) : ranks_(ranks), start_(start), size_(size) {}

  Place place(std::uint8_t tree, int rank) const {
    const int node = (rank - start_ + ranks_) % ranks_;
    Place place = place_in_order((node - tree + size_) % size_, size_);
    for (int* end : {&place.parent, &place.children[0], &place.children[1]})
      if (*end >= 0) *end = rank_of(tree, *end);
    return place;
  }
  int top(std::uint8_t tree) const { return rank_of(tree, top_of(0, size_)); }

 private:
  int rank_of(std::uint8_t tree, int node) const { return ((node + tree) % size_ + start_) % ranks_; }

  int ranks_, start_, size_;
};

// Scratch of each tree: the messages of two children, and the sum. Scratch k holds pieces of chunk k mod 2.
constexpr std::uint32_t kScratch = 3;
Slot arrival(std::uint8_t tree, std::uint32_t side) { return scratch(kTrees * side + tree); }
Slot sum_slot(std::uint8_t tree) { return scratch(kTrees * 2 + tree); }

/// Writes a rank's steps in one tree, on its lane.
class TreeSteps {
 public:
  TreeSteps(ScheduleBuilder& steps, const TwoTrees& trees, std::uint8_t tree)
      : steps_(steps), trees_(trees), tree_(tree) {}

  /// result = own input + the children's sums
  void add_children(const Place& place, Slot result) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      const int child = place.children[side];
      if (child < 0) continue;
      steps_.recv(child, trees_.place(tree_, child).is_leaf() ? input(tree_) : sum_slot(tree_), arrival(tree_, side));
    }
    steps_.copy(input(tree_), result);
    for (std::uint32_t side = 0; side < 2; ++side)
      if (place.children[side] >= 0) steps_.reduce(arrival(tree_, side), result);
  }
  /// The sum of the own subtree goes to `parent`.
  void send_up(const Place& place, int parent) {
    if (!place.is_leaf()) add_children(place, sum_slot(tree_));
    steps_.send(parent, place.is_leaf() ? input(tree_) : sum_slot(tree_), arrival(tree_, place.side));
  }
  void send_down(const Place& place) {
    for (const int child : place.children)
      if (child >= 0) steps_.send(child, output(tree_), output(tree_));
  }

 private:
  ScheduleBuilder& steps_;
  const TwoTrees& trees_;
  const std::uint8_t tree_;
};

double floor_log2(int size) { return std::bit_width(static_cast<unsigned>(size)) - 1; }

}  // namespace

Result<Schedule> build_double_binary_tree_all_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const TwoTrees trees(ranks, 0, ranks);
  ScheduleBuilder steps(request, {.chunks = kTrees, .scratch_chunks = kTrees * kScratch, .scratch_holds = 0});
  for (std::uint8_t tree = 0; tree < kTrees; ++tree) {
    const Place place = trees.place(tree, rank);
    TreeSteps here(steps.on_lane(tree), trees, tree);
    if (place.parent < 0) {
      here.add_children(place, output(tree));
    } else {
      here.send_up(place, place.parent);
      steps.recv(place.parent, output(tree), output(tree));
    }
    here.send_down(place);
  }
  return steps.finish();
}

RowCost cost_double_binary_tree_all_reduce(int ranks) {
  // Busiest: two children and a parent in one tree, a leaf of the other; there is none in trees of three ranks or less.
  const double messages = ranks > 3 ? 4 : ranks > 1 ? ranks : 0;
  const double reduced = ranks > 2 ? 1 : ranks > 1 ? 0.5 : 0;
  return {.rounds = 2 * floor_log2(ranks), .sent = messages / kTrees, .reduced = reduced, .messages = messages};
}

Result<Schedule> build_double_binary_tree_broadcast(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const TwoTrees trees(ranks, request.root + 1, ranks - 1);
  ScheduleBuilder steps(request, {.chunks = kTrees, .scratch_chunks = 0});
  for (std::uint8_t tree = 0; tree < kTrees; ++tree) {
    steps.on_lane(tree);
    if (rank == request.root) {
      if (ranks > 1) steps.send(trees.top(tree), input(tree), output(tree));
      steps.copy(input(tree), output(tree));
      continue;
    }
    const Place place = trees.place(tree, rank);
    if (place.parent < 0)
      steps.recv(request.root, input(tree), output(tree));
    else
      steps.recv(place.parent, output(tree), output(tree));
    TreeSteps(steps, trees, tree).send_down(place);
  }
  return steps.finish();
}

RowCost cost_double_binary_tree_broadcast(int ranks) {
  if (ranks == 1) return {};
  return {.rounds = 1 + floor_log2(ranks - 1), .sent = 1, .reduced = 0, .messages = kTrees};
}

Result<Schedule> build_double_binary_tree_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const TwoTrees trees(ranks, request.root + 1, ranks - 1);
  ScheduleBuilder steps(request, {.chunks = kTrees, .scratch_chunks = kTrees * kScratch, .scratch_holds = 0});
  for (std::uint8_t tree = 0; tree < kTrees; ++tree) {
    TreeSteps here(steps.on_lane(tree), trees, tree);
    if (rank == request.root) {
      Place above;
      if (ranks > 1) above.children[0] = trees.top(tree);
      here.add_children(above, output(tree));
    } else {
      const Place place = trees.place(tree, rank);
      here.send_up(place, place.parent < 0 ? request.root : place.parent);
    }
  }
  return steps.finish();
}

RowCost cost_double_binary_tree_reduce(int ranks) {
  RowCost cost = cost_double_binary_tree_broadcast(ranks);
  cost.reduced = cost.sent;
  return cost;
}

}  // namespace tutti::core
