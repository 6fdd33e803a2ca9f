// SPDX-License-Identifier: Apache-2.0
// Executes schedules on concrete data under random interleavings. The judge of mutants: it shares no code with the
// checker and knows nothing of contracts beyond what memory a rank has, so it cannot repeat the checker's mistakes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/types.h"
#include "src/plan/schedule.h"

namespace tutti::core {

struct InterpretOptions {
  tutti_collective what = TUTTI_ALL_REDUCE;
  int root = 0;
  int credits = 1;  ///< messages that an edge holds; 0: a send ends when its message is taken
  bool in_place = false;
  bool fixed_tree = false;  ///< the row declares its expression tree: another one is harmful even where all ranks agree
};

/// One datum: `word` adds up as integers do, in any order. `ordered` adds up as floats do: a + b is b + a, but another
/// association gives other bits - here always, where with real floats it depends on the numbers.
struct Element {
  std::uint64_t word = 0;
  std::uint64_t ordered = 0;
};

enum class RunEnd : std::uint8_t {
  finished,
  deadlock,
  left_over,  ///< finished, but messages lie in edges, where the next operation would find them
  invalid,    ///< touched memory that the rank has not
  too_early,  ///< barrier: a rank left before another had entered
};

struct RunResult {
  RunEnd end = RunEnd::finished;
  std::vector<std::vector<Element>> outputs;  ///< [rank][chunk]
};

/// One run. Every step happens in two moves, reading and writing, with others' moves in between; `seed` picks the
/// order, the garbage in unwritten memory, and often one rank that moves only when nobody else can.
RunResult interpret(std::span<const Schedule> schedules, const InterpretOptions& options, std::uint64_t seed);

/// Compares mutants with the schedules they come from.
class Judge {
 public:
  explicit Judge(std::span<const Schedule> original, const InterpretOptions& options);

  /// True if one of `interleavings` runs, half of them in place, does not finish cleanly, gives other integers than
  /// the original, gives ranks different bits of one chunk, or other bits than the original where the tree is fixed.
  bool is_harmful(std::span<const Schedule> mutant, int interleavings) const;

 private:
  bool is_wrong(const RunResult& result) const;

  InterpretOptions options_;
  std::vector<std::vector<Element>> expected_;
};

}  // namespace tutti::core
