// SPDX-License-Identifier: Apache-2.0
// The tree that the rooted collectives run along: binomial, k-nomial, and the scatter of scatter_allgather.
#pragma once

#include <algorithm>
#include <vector>

#include "src/plan/builder.h"

namespace tutti::core {

/// A range of ranks, counted from the root: 0 is the root, 1 the rank to its right, and so on around.
struct Subtree {
  int first = 0;
  int size = 1;
  bool holds(int number) const { return number >= first && number < first + size; }
};

/// The tree over `ranks` ranks as one of them sees it. A range belongs to its first rank; it is split into `radix`
/// parts whose sizes differ by one at most; the first rank of each part but the first becomes a child and owns that
/// part; the same goes on in every part. So subtrees are ranges of neighbours, for every number of ranks.
/// Eight ranks, radix 2:
///
///   0 ──┬── 1          0 owns 0..7, which splits into 0..3 and 4..7: child 4.
///       ├── 2 ── 3     0 keeps 0..3, which splits into 0..1 and 2..3: child 2.  0 keeps 0..1: child 1.
///       └── 4 ─┬─ 5    4 owns 4..7 and does the same.
///              └─ 6 ── 7
///
/// With radix^m ranks this is the k-nomial tree. With other numbers it is better balanced than cutting ranks off the
/// next larger one: no subtree of the root has more than floor((p+k-2)/k) ranks.
class RootedTree {
 public:
  RootedTree(const BuildRequest& request, int radix) : RootedTree(*request.placement, request.root, radix) {}

  bool is_root() const { return parent_ < 0; }
  bool is_leaf() const { return children_.empty(); }
  /// The number of the parent; -1: this is the root.
  int parent() const { return parent_; }
  /// The ranks below this one, itself included, which is the first.
  const Subtree& own() const { return own_; }
  /// Near to far: in the order of their ranges; the nearest are the smallest (but for one rank).
  const std::vector<Subtree>& children() const { return children_; }

  /// Whose view this is.
  int rank() const { return placement_.rank; }
  int rank_of(int number) const { return (number + root_) % placement_.ranks; }
  /// The same tree as another rank sees it.
  RootedTree seen_by(int number) const {
    Placement other = placement_;
    other.rank = rank_of(number);
    return {other, root_, radix_};
  }

 private:
  RootedTree(const Placement& placement, int root, int radix)
      : placement_(placement), root_(root), radix_(radix), own_{0, placement.ranks} {
    const int number = (placement.rank - root + placement.ranks) % placement.ranks;
    Subtree range = own_;
    while (range.size > 1) {
      const int parts = std::min(radix, range.size);
      const auto start = [&](int part) { return range.first + (part * range.size + parts - 1) / parts; };
      int mine = 0;
      while (start(mine + 1) <= number) ++mine;
      const Subtree part{start(mine), start(mine + 1) - start(mine)};
      if (range.first == number) {
        std::vector<Subtree> level;
        for (int other = 1; other < parts; ++other) level.push_back({start(other), start(other + 1) - start(other)});
        children_.insert(children_.begin(), level.begin(), level.end());
      } else if (part.first == number) {
        parent_ = range.first;
        own_ = part;
      }
      range = part;
    }
  }

  Placement placement_;
  int root_;
  int radix_;
  int parent_ = -1;
  Subtree own_;
  std::vector<Subtree> children_;
};

/// Facts about the whole tree, which the rows' costs are made of.
struct RootedTreeShape {
  RootedTreeShape(int ranks, int radix) : largest_subtree((ranks + radix - 2) / radix) {
    for (long power = radix; (radix - 1L) * ranks - (radix - 2) >= power; power *= radix) ++depth;
    for (int kept = ranks; kept > 1;) {
      const int parts = std::min(radix, kept);
      children += parts - 1;
      kept = (kept + parts - 1) / parts;
    }
  }

  int largest_subtree;  ///< ranks in the largest subtree of the root
  int depth = 0;        ///< floor(log_k((k-1)p - (k-2)))
  int children = 0;     ///< of the root, which has the most
};

}  // namespace tutti::core
