// SPDX-License-Identifier: Apache-2.0
// Small faults put into schedules on purpose: the checker's own test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/plan/schedule.h"

namespace tutti::core {

enum class MutationKind : std::uint8_t {
  drop,             ///< the step is not there
  duplicate,        ///< the step is there twice
  next_peer,        ///< the message goes to, or is expected from, the peer's right neighbour
  previous_peer,    ///< ... the left one
  next_source,      ///< src is the next chunk of its space
  previous_source,  ///< ... the one before
  next_target,      ///< dst is the next chunk of its space
  previous_target,
  other_op,  ///< send and recv, copy and reduce exchanged
  swap,      ///< exchanged with the next step of its lane
};
std::string_view mutation_name(MutationKind kind);

struct Mutation {
  MutationKind kind;
  int rank;
  std::uint32_t step;  ///< index into the rank's steps
};

/// Every mutation that changes something. (A swap of two steps that touch neither a common slot nor a common edge in
/// the same direction changes nothing by definition and is left out, unless one sends and the other receives: that may
/// deadlock.)
std::vector<Mutation> list_mutations(std::span<const Schedule> schedules);

/// The schedule of mutation.rank with the fault in it.
Schedule mutate(std::span<const Schedule> schedules, const Mutation& mutation);

/// "rank 3 step 7 swap: send input 3 to rank 1 as scratch 0".
std::string describe(std::span<const Schedule> schedules, const Mutation& mutation);

}  // namespace tutti::core
