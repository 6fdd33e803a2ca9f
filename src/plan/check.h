// SPDX-License-Identifier: Apache-2.0
// The checker: proves that the schedules of all ranks together keep the collective's contract.
//
//   (a) Values are random 64-bit words under wrapping add: every output chunk holds each contribution exactly once (up
//       to a collision of 2^-64).
//   (b) A commutative, non-associative hash of the expression trees: all ranks hold identical bits, and those of the
//   tree
//       that the row declares, if any.
//
// On the way it refuses deadlocks with the stated credits, unmatched messages, slots that sender and receiver name
// differently, reads of slots never written, slots that lanes touch without order, writes to the input, and whatever
// works out of place only. A violation names rank, lane, step and source line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/plan/algorithm.h"
#include "src/plan/lower.h"
#include "src/plan/schedule.h"
#include "src/plan/violation.h"

namespace tutti::core {

struct CheckOptions {
  tutti_collective what = TUTTI_ALL_REDUCE;
  int root = 0;
  int credits = 1;        ///< of the row's Needs
  Tree tree = Tree::any;  ///< that the row declares: every output chunk of a reduction must be this one
};

struct CheckOutcome {
  std::optional<Violation> violation;  ///< none: proved
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  std::uint32_t rounds = 0;          ///< messages on the longest dependent chain
  std::uint32_t most_in_flight = 0;  ///< unconsumed messages of one edge, in the order the checker ran
  std::vector<std::uint64_t> trees;  ///< one hash per output chunk: equal hashes of two rows mean equal bits
  bool ok() const { return !violation.has_value(); }
};

/// Proves `schedules` (of ranks 0..n-1), in place and out of place.
CheckOutcome check_schedules(std::span<const Schedule> schedules, const CheckOptions& options);

/// The same of lowered plans, with LowerOptions::reducing set as the collective is; also that contributions are scaled
/// once, and outputs finished once and never reduced afterwards. Takes for granted that a scaled contribution has the
/// same value where it is added at once as where it is sent first (the kernels round it to the element's type).
CheckOutcome check_lowered(std::span<const LoweredPlan> plans, const CheckOptions& options);

/// Messages per edge that lowered plans need where their schedules need `credits`: one more if an action forwards what
/// it receives, because it holds the borrowed message until the next edge has room for the result. In a ring with one
/// credit everybody would hold one message and wait for room.
int lowered_credits(std::span<const LoweredPlan> plans, int credits);

/// One operation of a sequence on the same ranks and edges.
struct SequencedOperation {
  std::span<const LoweredPlan> plans;
  tutti_collective what = TUTTI_ALL_REDUCE;
  int root = 0;
};
struct SequenceOptions {
  int window = 8;        ///< unconsumed messages that an edge holds, whatever operation they belong to
  int return_every = 4;  ///< the receiver returns consumed slots in lots of this size; divides into the window twice
  bool slices = false;   ///< the operations are slices of one: lanes of a rank do not wait for each other in between
};
/// Proves operations that follow each other: a rank starts the next as soon as its own part is done.
CheckOutcome check_sequence(std::span<const SequencedOperation> operations, const SequenceOptions& options);

/// All ranks' schedules of a row. Errors: unsupported if the row does not admit `ranks`; the builder's.
Result<std::vector<Schedule>> build_all(const Algorithm& row, int ranks, int root);
/// All ranks' lowered plans of these schedules.
Result<std::vector<LoweredPlan>> lower_all(std::span<const Schedule> schedules, const LowerOptions& options);

struct RowProof {
  std::uint64_t steps = 0;  ///< schedule steps and lowered actions that were run
  int proofs = 0;
};
/// Everything for one row and rank count: schedules, lowered plans (fused and not), three operations back to back with
/// the row's credits and with a window of slots, slices; every root up to 16 ranks, above that first, second and last.
/// Over more than 300 ranks the schedules and the fused lowered plans only, which take up to 1.5 GB over 1000. The
/// error names row, ranks, root, and the violation.
Result<RowProof> check_row(const Algorithm& row, int ranks);

struct MixProof {
  std::uint64_t steps = 0;
  int mixes = 0;
};
/// `mixes` sequences of `length` operations drawn from `rows` by `seed` over `ranks` ranks, as lowered plans.
Result<MixProof> check_mixes(std::span<const Algorithm> rows, int ranks, int mixes, std::uint64_t seed);

}  // namespace tutti::core
