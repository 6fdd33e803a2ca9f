// SPDX-License-Identifier: Apache-2.0
// Schedules: what one rank does in a collective, as plain data without pointers and byte sizes.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace tutti::core {

/// The whole portable vocabulary. Anything faster is a lowering, never a new word (ADR needed to widen it).
///   send    transmit `src` to `peer`; `dst` names the slot the peer's recv writes (checked, not transmitted)
///   recv    the next message of `peer` on this lane into `dst`; `src` names the slot the peer sends
///   copy    dst = src
///   reduce  dst = dst (+) src. Consecutive reduces into one slot, with the copy or recv that started it, are *one*
///           left-to-right reduction (one rounding for 16-bit floats).
///   wait    continue once lane `src.chunk` of this rank has finished its step number `dst.chunk` (index among that
///           lane's steps, within the same slice)
enum class StepOp : std::uint8_t { send, recv, copy, reduce, wait };

enum class Space : std::uint8_t { input = 0, output = 1, scratch = 2 };

/// One chunk of one of the three buffers of a rank. Chunk numbers of input and output are those of the whole
/// collective: in all_gather, rank r's input is chunk r; in reduce_scatter, rank r's output is chunk r. all_to_all
/// alone numbers by peer: input chunk c is this rank's block for rank c, output chunk c is rank c's block for this
/// rank.
struct Slot {
  std::uint32_t space : 2;
  std::uint32_t chunk : 30;
  static constexpr Slot of(Space space, std::uint32_t chunk) {
    return {static_cast<std::uint32_t>(space) & 3u, chunk & 0x3fffffffu};
  }
  Space where() const { return static_cast<Space>(space); }
  friend bool operator==(const Slot& a, const Slot& b) { return a.space == b.space && a.chunk == b.chunk; }
};
static_assert(sizeof(Slot) == 4);

struct Step {
  StepOp op;
  std::uint8_t lane;   ///< steps of one lane run in order; lanes of a rank run concurrently; messages of one
                       ///< (sender, receiver, lane) arrive in order
  std::uint16_t site;  ///< source line in the algorithm's file, for messages
  std::int32_t peer;   ///< send, recv: the other rank; else -1
  Slot src, dst;
};
static_assert(sizeof(Step) == 16);

/// Schedule::scratch_holds where nothing is said.
constexpr std::uint32_t kFollowsData = 0xffffffffu;

/// One rank's part of a collective. Steps of a lane run in the order they stand in. A message is sliced by the executor
/// in an outer loop, so a step moves one slice of a chunk; slices are independent of each other.
struct Schedule {
  int rank = 0;
  int ranks = 1;
  std::uint32_t chunks = 1;  ///< of input and output; ranks in all_gather and reduce_scatter (the user's blocks)
  std::uint32_t scratch_chunks = 0;  ///< each as large as the largest chunk
  /// Scratch k only ever holds pieces of chunk (scratch_holds + k) mod chunks. Needed where a piece goes from a peer's
  /// scratch through this rank's to another's, as in the trees of gather and scatter: nothing else says whose size it
  /// has. kFollowsData: whatever comes; lowering follows the data (lower.h).
  std::uint32_t scratch_holds = kFollowsData;
  std::vector<Step> steps;
};

}  // namespace tutti::core
