// SPDX-License-Identifier: Apache-2.0
// The differential matrix: which combinations to run, and one combination run and compared.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/api/harness.h"
#include "tests/api/pattern.h"

namespace api_test {

/// Rows of the registry that a collective runs, in its order; asked of the library, so that none can be missing.
const std::vector<std::string>& rows_of(tutti_collective what);
/// Some rows want a power of two: `tutti plan --list` says which.
bool runs_over(tutti_collective what, const std::string& row, int ranks);

struct Case {
  tutti_collective what = TUTTI_ALL_REDUCE;
  tutti_dtype type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int ranks = 2;
  std::uint64_t count = 0;
  bool in_place = false;
  std::uint64_t shift = 0;  ///< bytes by which the buffers miss the alignment of a page
  std::string algorithm{};  ///< empty: the selector's choice
  int root = 0;
  std::uint64_t seed = 0;
};
std::string to_string(const Case& c);

/// A case with what is expected of it; the reduced values are computed once for all ranks of a process.
class Expectation {
 public:
  explicit Expectation(const Case& c) : case_(c) {}
  const Case& what() const { return case_; }
  /// Element `first` of the result of the reduction, and those after it.
  const std::byte* reduced(std::uint64_t first);

 private:
  Case case_;
  std::once_flag once_;
  std::vector<std::byte> bytes_;
};

/// Runs the case on `comm` and compares every byte; also that nothing around the buffers, and no input, was changed.
void run_case(tutti::Communicator& comm, Expectation& expectation);

/// Combinations such that every pair of values of two factors occurs (same seed, same list); `full`: all of them but
/// for placement and alignment, which take turns.
std::vector<Case> make_cases(tutti_collective what, bool full);

}  // namespace api_test
