// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/cli/command.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

/// "8" or "1..64".
struct RankRange {
  int first = 1;
  int last = 1;
};
/// invalid_argument naming `text` and what is allowed.
Result<RankRange> parse_rank_range(const std::string& text);

/// The table of `tutti plan --list`: rows, formulas, their values at `ranks`, restrictions, sources.
std::string plan_list_text(int ranks);
/// The same as {"ranks": P, "rows": [{"collective", "algorithm", "steps", "bytes", ...} ...]}.
std::string plan_list_json(int ranks);
/// "L3 rank_order": what a reduction's bits do not depend on, and the tree that guarantees it.
std::string determinism_text(const Algorithm& row);
/// "needs 1 credit; forwards". What a row asks for, in words.
std::string restrictions_text(const Needs& needs);

void register_plan(CLI::App& program, int& exit_code);

}  // namespace tutti::core
