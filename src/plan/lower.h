// SPDX-License-Identifier: Apache-2.0
// Lowering: a schedule becomes the action list that an executor runs. Fuses receives into reductions (the bytes are
// read where they lie), merges consecutive reduces into one multi-input reduction, and marks first and final touch.
//
// Sizes. A plan has none; an executor gets tables chunk -> byte range with the call, and every action says which
// chunk's size its piece has (`chunk`, `chunk_space`). That is the chunk of input or output that the piece comes from
// or goes to on this rank or its peer, or is added to before or later; or, of a piece that only passes through scratch,
// the one that Schedule::scratch_holds names (docs/adr/0003). So the forms with a count per rank run the rows of their
// equal form:
//   all_gather_v, reduce_scatter_v, gather_v, scatter_v   one table: input chunk c and output chunk c have one size
//   all_to_all_v   two tables, for input and output chunks, by chunk_space; only plans without equal_chunks, that is
//   rows
//                  that move each block from an input straight to an output: a rank knows the sizes of no other blocks
// The checker follows every piece and refuses a plan that counts it by another chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/plan/schedule.h"

namespace tutti::core {

enum class ActionKind : std::uint8_t { send, receive, reduce, copy, wait };

/// One operand of a reduction: a slot of this rank, or the oldest unreleased message of a receiving edge, borrowed
/// where it lies.
struct Operand {
  std::int32_t edge;  ///< index into LoweredPlan::rx; -1: the operand is `slot`
  Slot slot;
};

struct Action {
  ActionKind kind;
  std::uint8_t lane;
  std::uint16_t site;
  /// First touch: operands and sources that lie in the input space are raw user data, so float averages scale them
  /// here.
  bool scale;
  /// Final touch: the result is complete: integer averages divide, NaN is made canonical.
  bool final;
  std::int32_t edge;     ///< send: index into tx; receive: index into rx; else -1
  std::int32_t forward;  ///< receive, reduce: also send the result to this tx edge, block by block; -1: no
  Slot src;              ///< send, copy: source. wait: chunk = lane waited for
  Slot dst;   ///< receive, reduce, copy: destination. wait: chunk = action index in that lane that must be done
  bool keep;  ///< reduce, receive with `forward`: dst is needed later; false: the result goes to the edge only
  std::uint32_t
      first_operand;  ///< reduce: operands in evaluation order, left to right; dst itself is an operand only if listed
  std::uint32_t operand_count;
  std::uint32_t chunk;       ///< whose size the moved piece has (a scratch slot has no size of its own)
  Space chunk_space;         ///< input or output: the buffer whose chunk `chunk` is (they differ in all_to_all_v only)
  bool any_chunk;            ///< the piece's chunk is not known, and `chunk` one of many: all have one size
  std::uint32_t first_step;  ///< index of the schedule step this action starts with, for messages
};

struct Edge {
  std::int32_t peer;
  std::uint8_t lane;
};

/// Immutable once built; shared by every operation of the same key whatever its size, type and buffers.
struct LoweredPlan {
  int rank = 0;
  int ranks = 1;
  std::uint32_t chunks = 1;
  std::uint32_t scratch_chunks = 0;
  bool equal_chunks = false;  ///< has actions of any_chunk: useless where blocks differ in size
  std::vector<Edge> tx, rx;
  std::vector<std::vector<Action>> lanes;
  std::vector<Operand> operands;
};

struct LowerOptions {
  bool reducing = true;          ///< the collective reduces: mark first and final touch
  bool fuse = true;              ///< false: one action per step (the reference for differential tests)
  int credits = 1;               ///< messages per edge that may be borrowed at once
  bool relative_blocks = false;  ///< all_to_all: a chunk number means another block on each rank
};
/// As a collective (in any form) and the credits of a row's Needs want them.
LowerOptions lower_options(tutti_collective what, int credits);

/// Errors: invalid_argument if the schedule is malformed (slot out of range, peer out of range, empty lane waits).
Result<LoweredPlan> lower(const Schedule& schedule, const LowerOptions& options);

}  // namespace tutti::core
