// SPDX-License-Identifier: Apache-2.0
// Runs collectives over all ranks of a World in one thread: every interleaving is possible and repeatable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/exec/executor.h"
#include "src/plan/algorithm.h"
#include "src/plan/lower.h"
#include "tests/exec/world.h"

namespace tutti::core {

struct RunOptions {
  tutti_dtype type = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  std::uint64_t count = 100;
  std::uint64_t slice = 1024;
  std::uint32_t streams = 1;
  bool fuse = true;
  bool in_place = false;
  std::uint64_t seed = 0;  ///< 0: ranks take turns; else they are driven in this random order
};

using Buffer = std::vector<std::byte>;

struct Outcome {
  std::string problem;          ///< empty: every rank finished
  std::vector<Buffer> outputs;  ///< by rank
};

/// Input of element `index` of the collective's input on `rank`: the same for every type.
std::int64_t input_value(int rank, std::uint64_t index);
/// Writes and reads one element.
void store_element(std::byte* place, tutti_dtype type, double value);
double load_element(const std::byte* place, tutti_dtype type);

Outcome run_row(World& world, const Algorithm& row, const RunOptions& options);
/// What `rank` must hold, element by element, with exact arithmetic. Averages of integers truncate.
std::vector<double> expected_output(const Algorithm& row, const RunOptions& options, int rank, int ranks);

/// Drives the executions of all ranks to their end; returns what went wrong, or "".
std::string drive_all(World& world, std::vector<CpuExecution>& executions, std::uint64_t seed);

}  // namespace tutti::core
