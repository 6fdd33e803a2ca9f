// SPDX-License-Identifier: Apache-2.0
// `tutti plan --check`: proves rows over many rank counts, two at a time.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

/// What --check proves unless told otherwise: all small counts, and large ones of different kinds (even, power of two,
/// one more than a power of two, round).
inline constexpr const char* kCheckedRanks = "1..64,96,128,257,1000";

/// "8", "1..64" or several of these with commas between, ascending and without repetition. invalid_argument naming
/// `text` and what is allowed.
Result<std::vector<int>> parse_rank_list(const std::string& text);

/// Prints a line a row and totals; reasons of failures go to stderr. Returns the exit code. `text`: how the list of
/// rank counts was written.
int check_plans(const std::vector<const Algorithm*>& rows, const std::vector<int>& rank_counts,
                const std::string& text);

}  // namespace tutti::core
