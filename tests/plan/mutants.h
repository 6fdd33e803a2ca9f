// SPDX-License-Identifier: Apache-2.0
// Judges the mutants of one row and rank count: by the checker, and independently by the interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/algorithm.h"

namespace tutti::core {

struct MutantCount {
  std::uint64_t mutants = 0;
  std::uint64_t harmful = 0;           ///< by the interpreter
  std::uint64_t rejected = 0;          ///< by the checker
  std::uint64_t lowered = 0;           ///< accepted ones whose lowered plans were proved as well
  std::vector<std::string> survivors;  ///< harmful and not rejected, or broken by lowering: must stay empty
  void add(const MutantCount& other);
};

struct MutantOptions {
  int interleavings = 200;
  std::uint64_t at_most = 0;  ///< this many, drawn by `seed`; 0: all
  std::uint64_t seed = 1;
};

MutantCount count_mutants(const Algorithm& row, int ranks, const MutantOptions& options);

/// "ring_all_reduce: 1234 mutants, 1100 harmful, all rejected; harmless 10.9 %, of which the checker rejects 40 %".
std::string summary(const std::string& label, const MutantCount& count);

}  // namespace tutti::core
