// SPDX-License-Identifier: Apache-2.0
// Balanced tree: all-reduce, reduce-scatter and reduce that add along one fixed tree over the ranks, Tree::balanced of
// src/plan/tree.h: the perfect binary tree over 2^k leaves, where the first leaves are sums of two ranks if there are
// more ranks than leaves.
//
//   4 ranks   (0+1)+(2+3)        6 ranks   ((0+1)+(2+3))+(4+5)        7 ranks   ((0+1)+(2+3))+((4+5)+6)
//
// The tree is the same for every chunk, every root and all three collectives, and over powers of two it does not depend
// on the number of ranks: two ranks that each hold the sum of two leaves give the bits of four ranks with a leaf each.
// That makes results independent of the number of ranks (`reproducible`).
//
// Only who computes a node depends on the chunk. The whole sum belongs to the owner of the chunk (or the root). The
// half where the owner lies gives its sum to the owner itself; the other half to the member that faces it, which sends
// it over; and so on in every half. Four ranks, block 3 (every arrow is a partial sum):
//
//   level 0   0 ──► 1,  2 ──► 3        1 has 0+1, 3 has 2+3
//   level 1   1 ──► 3                  3 has (0+1)+(2+3)
//
// For a power of two reduce_scatter is recursive halving; all_reduce goes the same way back, as Rabenseifner's does.
// Members of the right part of a range send on one lane, those of the left part on the other.
// Source: the pairwise tree is that of Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14(4),
// 1993; the schedule that of Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, with any number of ranks.
#include <algorithm>

#include "algorithms/block_flow.h"

namespace tutti::core {

namespace {

/// A range of ranks that is a node of the tree, and the rank that has or gets its sum.
class Range {
 public:
  Range(int ranks, int holder) : fold_(ranks), size_(ranks), leaves_(fold_.core), holder_(holder) {}

  int first() const { return first_; }
  int size() const { return size_; }
  int holder() const { return holder_; }
  /// Nodes on the way down to the deepest rank.
  int height() const {
    return leaves_ == 0 ? 0 : std::countr_zero(static_cast<unsigned>(leaves_)) + (paired() ? 1 : 0);
  }
  /// The left part is as large as the right one or larger, by a factor of two at most.
  int left_size() const { return leaves_ > 1 ? begin_of(fold_.core_number(first_) + leaves_ / 2) - first_ : 1; }
  bool holder_is_left() const { return holder_ - first_ < left_size(); }
  /// Holds the part where the holder is not.
  int facing() const {
    const int left = left_size();
    return holder_is_left() ? first_ + left + (holder_ - first_) % (size_ - left) : holder_ - left;
  }
  /// The part with `rank`. Not of a single rank.
  Range part_of(int rank) const {
    const int left = left_size();
    const bool is_left = rank - first_ < left;
    Range part = *this;
    part.holder_ = is_left == holder_is_left() ? holder_ : facing();
    part.first_ = is_left ? first_ : first_ + left;
    part.size_ = is_left ? left : size_ - left;
    part.leaves_ = leaves_ / 2;
    return part;
  }
  /// The same range, of another holder.
  Range held_by(int rank) const {
    Range same = *this;
    same.holder_ = rank;
    return same;
  }

 private:
  bool paired() const { return fold_.surplus > 0; }
  int begin_of(int leaf) const { return leaf < fold_.surplus ? 2 * leaf : leaf + fold_.surplus; }

  Fold fold_;
  int first_ = 0;
  int size_;
  int leaves_;  ///< 0: a part of a leaf
  int holder_;
};

/// Top down: the holder of a range gives the block to the one it faces.
Flow tree_flow(int member, int members) {
  const auto levels = static_cast<std::size_t>(ceil_log2(members));
  Flow flow(levels);
  for (int block = 0; block < members; ++block)
    for (Range range(members, block); range.size() > 1; range = range.part_of(member)) {
      FlowRound& round = flow[levels - static_cast<std::size_t>(range.height())];
      const int facing = range.facing();
      const std::uint8_t lane = range.holder_is_left() ? 0 : 1;
      if (member == range.holder()) round.sends.push_back({facing, static_cast<std::uint32_t>(block), lane});
      if (member == facing) round.receives.push_back({range.holder(), static_cast<std::uint32_t>(block), lane});
    }
  return flow;
}

/// Walks the flow for all members at once, to find the figures of the busiest and the slowest.
class FlowFigures {
 public:
  explicit FlowFigures(int members)
      : whole_(members, 0), sends_(static_cast<std::size_t>(members), 0), depth_(static_cast<std::size_t>(members), 0) {
    add_sends(whole_, std::vector<int>(static_cast<std::size_t>(members), 1));
    follow(whole_, true);
    rounds_up_ = largest(depth_);
    follow(whole_, false);
  }

  /// Blocks that the busiest member passes on: p-1 for a power of two, more otherwise.
  double busiest_sends() const { return largest(sends_); }
  /// Messages on the longest chain of reduce_scatter, and of all_reduce.
  double rounds_up() const { return rounds_up_; }
  double rounds() const { return largest(depth_); }

 private:
  static int largest(const std::vector<int>& values) { return *std::max_element(values.begin(), values.end()); }
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }

  /// Member first + i holds `held[i]` chunks of the range, and sends each to the one it faces.
  void add_sends(const Range& range, const std::vector<int>& held) {
    if (range.size() == 1) return;
    const int first = range.first(), left_size = range.left_size();
    std::vector<int> left(held.begin(), held.begin() + left_size), right(held.begin() + left_size, held.end());
    for (int i = 0; i < range.size(); ++i) {
      const int count = held[index(i)], facing = range.held_by(first + i).facing() - first;
      sends_[index(first + i)] += count;
      (facing < left_size ? left[index(facing)] : right[index(facing - left_size)]) += count;
    }
    add_sends(range.part_of(first), left);
    add_sends(range.part_of(first + left_size), right);
  }

  /// Messages on the longest chain that ends at each member: up the tree (to holders), or down (from them).
  void follow(const Range& range, bool up) {
    if (range.size() == 1) return;
    const int first = range.first();
    if (!up) exchange(range, up);
    follow(range.part_of(first), up);
    follow(range.part_of(first + range.left_size()), up);
    if (up) exchange(range, up);
  }
  void exchange(const Range& range, bool up) {
    const int first = range.first(), end = first + range.size();
    const std::vector<int> before(depth_.begin() + first, depth_.begin() + end);
    for (int member = first; member < end; ++member) {
      const int facing = range.held_by(member).facing();
      const int from = up ? facing : member, to = up ? member : facing;
      depth_[index(to)] = std::max(depth_[index(to)], before[index(from - first)] + 1);
    }
  }

  Range whole_;
  std::vector<int> sends_, depth_;
  int rounds_up_ = 0;
};

}  // namespace

Result<Schedule> build_balanced_tree_reduce_scatter(const BuildRequest& request) {
  return build_flow_reduce_scatter(request, tree_flow);
}

RowCost cost_balanced_tree_reduce_scatter(int ranks) {
  const FlowFigures figures(ranks);
  const double messages = ranks - 1.0;
  return {.rounds = figures.rounds_up(),
          .sent = messages / ranks,
          .reduced = figures.busiest_sends() / ranks,
          .messages = messages};
}

Result<Schedule> build_balanced_tree_all_reduce(const BuildRequest& request) {
  return build_flow_all_reduce(request, tree_flow);
}

RowCost cost_balanced_tree_all_reduce(int ranks) {
  const FlowFigures figures(ranks);
  const double messages = ranks - 1.0 + figures.busiest_sends();
  return {.rounds = figures.rounds(),
          .sent = messages / ranks,
          .reduced = figures.busiest_sends() / ranks,
          .messages = messages};
}

namespace {

/// Ranges below `range`, or equal to it, whose sum `rank` completes; largest first.
std::vector<Range> completed_by(int rank, Range range) {
  std::vector<Range> completed;
  for (; range.size() > 1; range = range.part_of(rank))
    if (rank == range.holder()) completed.push_back(range);
  return completed;
}

/// Where a rank has its sum after `additions` messages. Two slots take turns: reduces into the same slot would be one
/// reduction, with one rounding where the tree has two.
Slot sum_after(std::size_t additions) {
  return additions == 0 ? input(0) : scratch(static_cast<std::uint32_t>(additions % 2));
}
constexpr Slot kArrival = scratch(2);

}  // namespace

Result<Schedule> build_balanced_tree_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank;
  const bool is_root = rank == request.root;
  const Range whole(request.placement->ranks, request.root);
  const std::vector<Range> completed = completed_by(rank, whole);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 3});
  if (is_root && completed.empty()) steps.copy(input(0), output(0));
  for (std::size_t done = 0; done < completed.size(); ++done) {
    const Range& range = completed[completed.size() - 1 - done];
    const int peer = range.facing();
    const Slot sum = is_root && done + 1 == completed.size() ? output(0) : sum_after(done + 1);
    steps.recv(peer, sum_after(completed_by(peer, range.part_of(peer)).size()), kArrival);
    steps.copy(sum_after(done), sum).reduce(kArrival, sum);
  }
  for (Range range = whole; range.size() > 1; range = range.part_of(rank))
    if (rank == range.facing()) steps.send(range.holder(), sum_after(completed.size()), kArrival);
  return steps.finish();
}

RowCost cost_balanced_tree_reduce(int ranks) {
  // The sum of the right part of a range is ready when that of the left part is, at the latest.
  const double rounds = std::bit_width(static_cast<unsigned>(ranks)) - 1;
  const double sends = std::min(ranks - 1, 1);
  return {.rounds = rounds, .sent = sends, .reduced = ceil_log2(ranks), .messages = sends};
}

}  // namespace tutti::core
