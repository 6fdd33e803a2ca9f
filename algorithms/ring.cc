// SPDX-License-Identifier: Apache-2.0
// Ring: every rank talks to two neighbours only, and every byte crosses every link once per phase. Bandwidth-optimal
// for any number of ranks; its p-1 rounds per phase make it slow for small messages.
//
// reduce_scatter: chunk c starts at rank c+1 and travels once around to its owner c; every rank on the way adds its
// own. all_gather: the owner's chunk travels once around and is left behind everywhere. all_reduce is the first, then
// the second. Four ranks, one chunk each; "c2+" is a partial sum of chunk 2:
//
//            rank 0        rank 1        rank 2        rank 3
//   start    sends c3      sends c0      sends c1      sends c2      (to the right, rank 3 to rank 0)
//   round 1  c2+ ------>   c3+ ------>   c0+ ------>   c1+ ------>
//   round 2  c1+ ------>   c2+ ------>   c3+ ------>   c0+ ------>
//   round 3  c0 is done    c1 is done    c2 is done    c3 is done    (reduce_scatter ends here)
//   round 4  c3 from left  c0 from left  c1 from left  c2 from left
//   ...      and two more rounds until all have all
//
// Partial sums pass through one scratch chunk; only complete values enter the output. Since each chunk is summed along
// one path, all ranks receive identical bits.
// Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009.
#include "src/plan/builder.h"

namespace tutti::core {

namespace {

class Ring {
 public:
  explicit Ring(const Placement& placement) : rank_(placement.rank), ranks_(placement.ranks) {}

  int next() const { return (rank_ + 1) % ranks_; }
  int previous() const { return (rank_ + ranks_ - 1) % ranks_; }
  /// The chunk of the rank `hops` to the left.
  std::uint32_t chunk_behind(int hops) const {
    return static_cast<std::uint32_t>((rank_ + 2 * ranks_ - hops) % ranks_);
  }

  /// Ends with the complete chunk of this rank in its output.
  void reduce_scatter(ScheduleBuilder& steps) const {
    const Slot partial = scratch(0);
    steps.send(next(), input(chunk_behind(1)), partial);
    for (int round = 1; round < ranks_; ++round) {
      const std::uint32_t chunk = chunk_behind(round + 1);
      steps.recv(previous(), round == 1 ? input(chunk) : partial, partial);
      if (round < ranks_ - 1) {
        steps.reduce(input(chunk), partial);
        steps.send(next(), partial, partial);
      } else {
        steps.copy(input(chunk), output(chunk));
        steps.reduce(partial, output(chunk));
      }
    }
  }

  /// `own` holds this rank's chunk: its input, or its output after reduce_scatter.
  void all_gather(ScheduleBuilder& steps, Space own) const {
    const std::uint32_t mine = chunk_behind(0);
    steps.send(next(), Slot::of(own, mine), output(mine));
    if (own == Space::input) steps.copy(input(mine), output(mine));
    for (int round = 1; round < ranks_; ++round) {
      const std::uint32_t chunk = chunk_behind(round);
      steps.recv(previous(), Slot::of(round == 1 ? own : Space::output, chunk), output(chunk));
      if (round < ranks_ - 1) steps.send(next(), output(chunk), output(chunk));
    }
  }

 private:
  int rank_;
  int ranks_;
};

double steps_of(int ranks) { return ranks - 1; }
double share_of(int ranks) { return (ranks - 1.0) / ranks; }

}  // namespace

Result<Schedule> build_ring_all_reduce(const BuildRequest& request) {
  const auto chunks = static_cast<std::uint32_t>(request.placement->ranks);
  ScheduleBuilder steps(request, {.chunks = chunks, .scratch_chunks = 1});
  if (chunks == 1) return steps.copy(input(0), output(0)).finish();
  const Ring ring(*request.placement);
  ring.reduce_scatter(steps);
  ring.all_gather(steps, Space::output);
  return steps.finish();
}

RowCost cost_ring_all_reduce(int ranks) {
  const double once = share_of(ranks);
  return {.rounds = 2 * steps_of(ranks), .sent = 2 * once, .reduced = once, .messages = 2 * steps_of(ranks)};
}

Result<Schedule> build_ring_reduce_scatter(const BuildRequest& request) {
  const auto chunks = static_cast<std::uint32_t>(request.placement->ranks);
  ScheduleBuilder steps(request, {.chunks = chunks, .scratch_chunks = 1});
  if (chunks == 1) return steps.copy(input(0), output(0)).finish();
  Ring(*request.placement).reduce_scatter(steps);
  return steps.finish();
}

RowCost cost_ring_reduce_scatter(int ranks) {
  const double once = share_of(ranks);
  return {.rounds = steps_of(ranks), .sent = once, .reduced = once, .messages = steps_of(ranks)};
}

Result<Schedule> build_ring_all_gather(const BuildRequest& request) {
  const auto chunks = static_cast<std::uint32_t>(request.placement->ranks);
  ScheduleBuilder steps(request, {.chunks = chunks, .scratch_chunks = 0});
  if (chunks == 1) return steps.copy(input(0), output(0)).finish();
  Ring(*request.placement).all_gather(steps, Space::input);
  return steps.finish();
}

RowCost cost_ring_all_gather(int ranks) {
  return {.rounds = steps_of(ranks), .sent = share_of(ranks), .reduced = 0, .messages = steps_of(ranks)};
}

}  // namespace tutti::core
