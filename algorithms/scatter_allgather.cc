// SPDX-License-Identifier: Apache-2.0
// Scatter, then all-gather: a broadcast that sends no more than twice the message from any rank, where a tree's root
// sends it log2(p) times. The message is cut into p chunks; a binomial tree (algorithms/rooted_tree.h) brings chunk v
// to number v, counted from the root, and leaves the whole range of chunks v .. v+s-1 with a rank whose subtree has s
// ranks; then the chunks go around the ring. Four ranks, root 0:
//
//              rank 0       rank 1       rank 2       rank 3
//   scatter    0 1 2 3      1            2 3          3
//   ring       sends 0 ──►  sends 1 ──►  sends 2 ──►
//              sends 3 ──►  sends 0 ──►  sends 1 ──►
//              sends 2 ──►               sends 0 ──►
//
// Nobody sends a rank what the scatter has left there: not 3 to rank 2, and nothing at all to the root. The chain of
// messages that depend on each other is therefore p-1 long: chunk 0 on its way from the root through all others.
// Source: Barnett, Shuler, Gupta, Payne, van de Geijn & Watts, "Building a high-performance collective communication
// library", Supercomputing 1994 (scatter/collect broadcast).
#include "algorithms/rooted_tree.h"

namespace tutti::core {

namespace {

/// Root: everything is in its input. The others receive into the output and send from there.
Slot held(const RootedTree& tree, int chunk) {
  return Slot::of(tree.is_root() ? Space::input : Space::output, static_cast<std::uint32_t>(chunk));
}

void scatter(ScheduleBuilder& steps, const RootedTree& tree) {
  const RootedTree above = tree.is_root() ? tree : tree.seen_by(tree.parent());
  const auto fetch = [&](int chunk) {
    if (!tree.is_root()) steps.recv(above.rank(), held(above, chunk), held(tree, chunk));
  };
  for (auto child = tree.children().rbegin(); child != tree.children().rend(); ++child)
    for (int chunk = child->first + child->size - 1; chunk >= child->first; --chunk) {
      fetch(chunk);
      steps.send(tree.rank_of(child->first), held(tree, chunk), output(static_cast<std::uint32_t>(chunk)));
    }
  fetch(tree.own().first);
}

void gather_around_ring(ScheduleBuilder& steps, const RootedTree& tree, int ranks) {
  const int number = tree.own().first;
  const RootedTree next = tree.seen_by((number + 1) % ranks);
  const RootedTree previous = tree.seen_by((number + ranks - 1) % ranks);
  for (int round = 0; round < ranks - 1; ++round) {
    const int sent = (number + ranks - round) % ranks, received = (number + 2 * ranks - 1 - round) % ranks;
    if (!next.own().holds(sent)) steps.send(next.rank(), held(tree, sent), output(static_cast<std::uint32_t>(sent)));
    if (!tree.own().holds(received)) steps.recv(previous.rank(), held(previous, received), held(tree, received));
  }
}

}  // namespace

Result<Schedule> build_scatter_allgather_broadcast(const BuildRequest& request) {
  const int ranks = request.placement->ranks;
  const RootedTree tree(request, 2);
  ScheduleBuilder steps(request, {.chunks = static_cast<std::uint32_t>(ranks), .scratch_chunks = 0});
  scatter(steps, tree);
  gather_around_ring(steps, tree, ranks);
  if (tree.is_root())
    for (std::uint32_t chunk = 0; chunk < static_cast<std::uint32_t>(ranks); ++chunk)
      steps.copy(input(chunk), output(chunk));
  return steps.finish();
}

RowCost cost_scatter_allgather_broadcast(int ranks) {
  const double once = ranks - 1.0;
  return {.rounds = once, .sent = 2 * once / ranks, .reduced = 0, .messages = 2 * once};
}

}  // namespace tutti::core
