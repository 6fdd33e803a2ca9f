// SPDX-License-Identifier: Apache-2.0
// A row of the registry: what an algorithm promises, needs and costs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"
#include "src/plan/schedule.h"
#include "src/plan/tree.h"
#include "topology/placement.h"

namespace tutti::core {

struct BuildRequest {
  const Placement* placement = nullptr;  ///< whose rank's schedule to build
  int root = 0;                          ///< rooted collectives only
};

/// Restrictions, part of the row so that `tutti plan --list`, the selector and the checker read the same facts.
struct Needs {
  int credits = 1;  ///< messages that an edge (sender, receiver, lane) must hold unconsumed; 0: rendezvous suffices
  bool power_of_two = false;  ///< ranks must be a power of two
  int max_ranks = 0;          ///< 0: no bound
  bool forwards = false;      ///< relays chunks that belong to other ranks (excluded where only own sizes are known)
  /// Lanes of its schedules: all ranks share the executor's lanes out by it, though some may use fewer.
  int lanes = 1;
};

/// Cost of the row in units of the model T = rounds*alpha + sent*n*beta + reduced*n*gamma + messages*overhead, n =
/// bytes of the larger user buffer of a rank; worst rank. Tests assert these against the built schedules.
struct RowCost {
  double rounds = 0;    ///< messages on the longest dependent chain
  double sent = 0;      ///< bytes sent by the busiest rank, divided by n
  double reduced = 0;   ///< bytes that a reduction reads besides its destination, busiest rank, divided by n
  double messages = 0;  ///< messages sent by the busiest rank
};

struct Algorithm {
  std::string_view name;
  tutti_collective what;
  Needs needs;
  Result<Schedule> (*build)(const BuildRequest&);
  RowCost (*cost)(int ranks);
  std::string_view steps;      ///< formula of `rounds`, for people: "2(p-1)"
  std::string_view bytes;      ///< formula of `sent`
  std::string_view source;     ///< paper or text the algorithm and its formula come from
  Tree tree = Tree::any;       ///< of every output chunk of a reduction; proved, so `reproducible` may rely on it
  std::string_view file = {};  ///< algorithms/FILE.cc, which sites are lines of; empty: named as the row
};

/// The determinism level that a row keeps (1: same bits run to run; 3: whatever the size, chunking, lanes, transport
/// and placement; 4: also whatever the number of ranks, of power-of-two leaves). Collectives that only move data
/// keep 4.
int determinism_level(const Algorithm& row);

/// All rows, in the order of algorithms/registry.cc.
std::span<const Algorithm> algorithms();
/// Null if there is none. The error text for users comes from `unknown_algorithm`.
const Algorithm* find_algorithm(tutti_collective what, std::string_view name);
/// invalid_argument; its remedy lists the names that `what` has.
Status unknown_algorithm(tutti_collective what, std::string_view name);
/// True if `row` may run over `ranks` ranks (power of two, bounds).
bool admits(const Algorithm& row, int ranks);

}  // namespace tutti::core
