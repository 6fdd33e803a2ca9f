// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/small_rows.h"

#include <gtest/gtest.h>

#include "src/plan/builder.h"

namespace tutti::core {

namespace {

std::uint32_t unsigned_of(int value) { return static_cast<std::uint32_t>(value); }

/// The root receives every block where it belongs.
Result<Schedule> build_direct_gather(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const std::uint32_t own = unsigned_of(rank);
  ScheduleBuilder steps(request, {.chunks = unsigned_of(ranks), .scratch_chunks = 0});
  if (rank != request.root) return steps.send(request.root, input(own), output(own)).finish();
  steps.copy(input(own), output(own));
  for (std::uint32_t other = 0; other < unsigned_of(ranks); ++other)
    if (other != own) steps.recv(static_cast<int>(other), input(other), output(other));
  return steps.finish();
}

/// Along a line that ends at the root: position 1 is the root's right neighbour, the farthest is ranks - 1. Everybody
/// receives the blocks from behind it into scratch and passes them on.
Result<Schedule> build_relay_gather(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const int position = (rank - request.root + ranks) % ranks, behind = ranks - 1 - position;
  const int next = (rank + ranks - 1) % ranks, previous = (rank + 1) % ranks;
  const auto own = unsigned_of(rank);
  ScheduleBuilder steps(request, {.chunks = unsigned_of(ranks),
                                  .scratch_chunks = unsigned_of(position == 0 ? 0 : behind),
                                  .scratch_holds = unsigned_of(previous)});
  const auto block = [&](int hop) { return unsigned_of((rank + hop) % ranks); };
  // Where the rank nearer to the root puts the block of the one `hop` behind this rank.
  const auto at_next = [&](int hop) { return position == 1 ? output(block(hop)) : scratch(unsigned_of(hop)); };
  if (position > 0) steps.send(next, input(own), at_next(0));
  if (position == 0) steps.copy(input(own), output(own));
  for (int hop = 1; hop <= behind; ++hop) {
    const Slot here = position == 0 ? output(block(hop)) : scratch(unsigned_of(hop - 1));
    steps.recv(previous, hop == 1 ? input(block(1)) : scratch(unsigned_of(hop - 2)), here);
    if (position > 0) steps.send(next, here, at_next(hop));
  }
  return steps.finish();
}

Result<Schedule> build_direct_scatter(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const std::uint32_t own = unsigned_of(rank);
  ScheduleBuilder steps(request, {.chunks = unsigned_of(ranks), .scratch_chunks = 0});
  if (rank != request.root) return steps.recv(request.root, input(own), output(own)).finish();
  for (int hop = 1; hop < ranks; ++hop) {
    const int peer = (rank + hop) % ranks;
    steps.send(peer, input(unsigned_of(peer)), output(unsigned_of(peer)));
  }
  return steps.copy(input(own), output(own)).finish();
}

/// Along a line that starts at the root, the farthest block first.
Result<Schedule> build_relay_scatter(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const int position = (rank - request.root + ranks) % ranks, behind = ranks - 1 - position;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  ScheduleBuilder steps(request, {.chunks = unsigned_of(ranks),
                                  .scratch_chunks = unsigned_of(position == 0 ? 0 : behind),
                                  .scratch_holds = unsigned_of(next)});
  const auto block = [&](int hop) { return unsigned_of((rank + hop) % ranks); };
  const auto at_previous = [&](int hop) { return position == 1 ? input(block(hop)) : scratch(unsigned_of(hop)); };
  for (int hop = behind; hop >= 1; --hop) {
    const Slot here = position == 0 ? input(block(hop)) : scratch(unsigned_of(hop - 1));
    if (position > 0) steps.recv(previous, at_previous(hop), here);
    steps.send(next, here, hop == 1 ? output(block(1)) : scratch(unsigned_of(hop - 2)));
  }
  if (position == 0) return steps.copy(input(block(0)), output(block(0))).finish();
  return steps.recv(previous, at_previous(0), output(block(0))).finish();
}

/// The root adds the others in the order of their distance.
Result<Schedule> build_direct_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = unsigned_of(rank == request.root ? ranks - 1 : 0)});
  const auto slot = [&](int other) { return scratch(unsigned_of((other - request.root + ranks - 1) % ranks)); };
  if (rank != request.root) return steps.send(request.root, input(0), slot(rank)).finish();
  for (int hop = 1; hop < ranks; ++hop) steps.recv((rank + hop) % ranks, input(0), slot((rank + hop) % ranks));
  steps.copy(input(0), output(0));
  for (int hop = 1; hop < ranks; ++hop) steps.reduce(slot((rank + hop) % ranks), output(0));
  return steps.finish();
}

/// Partial sums run along a line towards the root; the rank beside it completes them in scratch, so that the root
/// receives a result that nobody has finished.
Result<Schedule> build_relay_reduce(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const int position = (rank - request.root + ranks) % ranks;
  const int next = (rank + ranks - 1) % ranks, previous = (rank + 1) % ranks;
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 2});
  if (ranks == 1) return steps.copy(input(0), output(0)).finish();
  if (position == 0) {
    steps.send(previous, input(0), scratch(1));
    return steps.recv(previous, scratch(0), output(0)).finish();
  }
  const bool is_farthest = position == ranks - 1;
  if (is_farthest && position > 1) return steps.send(next, input(0), scratch(0)).finish();
  if (is_farthest) {
    steps.copy(input(0), scratch(0));
  } else {
    steps.recv(previous, position == ranks - 2 ? input(0) : scratch(0), scratch(0)).reduce(input(0), scratch(0));
  }
  if (position > 1) return steps.send(next, scratch(0), scratch(0)).finish();
  steps.recv(next, input(0), scratch(1)).reduce(scratch(1), scratch(0));
  return steps.send(next, scratch(0), output(0)).finish();
}

Result<Schedule> build_direct_all_to_all(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const std::uint32_t own = unsigned_of(rank);
  ScheduleBuilder steps(request, {.chunks = unsigned_of(ranks), .scratch_chunks = 0});
  for (int hop = 1; hop < ranks; ++hop) {
    const int peer = (rank + hop) % ranks;
    steps.send(peer, input(unsigned_of(peer)), output(own));
  }
  steps.copy(input(own), output(own));
  for (int hop = 1; hop < ranks; ++hop) {
    const int peer = (rank + ranks - hop) % ranks;
    steps.recv(peer, input(own), output(unsigned_of(peer)));
  }
  return steps.finish();
}

/// A ring: the block for the rank `hops` to the right is handed on that often. Everybody handles one distance after
/// the other; what is under way lies in scratch 0.
Result<Schedule> build_relay_all_to_all(const BuildRequest& request) {
  const int rank = request.placement->rank, ranks = request.placement->ranks;
  const std::uint32_t own = unsigned_of(rank);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  ScheduleBuilder steps(request, {.chunks = unsigned_of(ranks), .scratch_chunks = 1});
  steps.copy(input(own), output(own));
  for (int hops = 1; hops < ranks; ++hops) {
    for (int hop = 1; hop <= hops; ++hop) {
      const bool last = hop == hops;
      const std::uint32_t first_target = unsigned_of((rank + hops) % ranks);
      const std::uint32_t origin = unsigned_of((rank + ranks - hops) % ranks);
      const Slot from = hop == 1 ? input(first_target) : scratch(0);
      const Slot from_there = hop == 1 ? input(unsigned_of((previous + hops) % ranks)) : scratch(0);
      steps.send(next, from, last ? output(unsigned_of((next + ranks - hops) % ranks)) : scratch(0));
      steps.recv(previous, from_there, last ? output(origin) : scratch(0));
    }
  }
  return steps.finish();
}

constexpr SmallRow kRows[] = {
    {"direct", TUTTI_GATHER, 0, false, build_direct_gather},
    {"relay", TUTTI_GATHER, 0, true, build_relay_gather},
    {"direct", TUTTI_SCATTER, 0, false, build_direct_scatter},
    {"relay", TUTTI_SCATTER, 0, true, build_relay_scatter},
    {"direct", TUTTI_REDUCE, 0, false, build_direct_reduce},
    {"relay", TUTTI_REDUCE, 0, true, build_relay_reduce},
    {"direct", TUTTI_ALL_TO_ALL, 1, false, build_direct_all_to_all},
    {"relay", TUTTI_ALL_TO_ALL, 1, true, build_relay_all_to_all},
};

RowCost no_cost(int /*ranks*/) { return {}; }

}  // namespace

std::span<const SmallRow> small_rows() { return kRows; }

Algorithm row_of(const SmallRow& row) {
  const Needs needs{.credits = row.credits, .power_of_two = false, .max_ranks = 0, .forwards = row.forwards};
  return {row.name, row.what, needs, row.build, no_cost, "?", "?", "a test"};
}

const SmallRow& small_row(tutti_collective what, std::string_view name) {
  for (const SmallRow& row : kRows)
    if (row.what == what && row.name == name) return row;
  ADD_FAILURE() << "no such row";
  return kRows[0];
}

}  // namespace tutti::core
