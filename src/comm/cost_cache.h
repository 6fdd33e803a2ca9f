// SPDX-License-Identifier: Apache-2.0
// Where a communicator's cost table is from: the documented constants, a measurement, or one that an earlier process
// kept in a file. A file of the cache never fails a job: one that is damaged, old or somebody else's is measured anew.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/config.h"
#include "src/comm/cost_measure.h"
#include "src/comm/cost_model.h"

namespace tutti::core {

/// A table as text, for files and for the other ranks: "key value" lines, the constants with all their bits, the hash.
std::string format_cost_table(const CostTable& table);
enum class CostTableUse : std::uint8_t {
  cache,  ///< of this very machine, and not old
  named,  ///< a person or rank 0 said so
};
/// Errors: invalid_argument (a line missing or twice, a value out of its plausible range, a wrong hash, another
/// version's table; for the cache another machine's or one older than 30 days), with what is wrong.
Result<CostTable> parse_cost_table(std::string_view text, CostTableUse use);

/// Tells machines apart that need constants of their own: processor, number of cores, host, version and build of this
/// library.
std::uint64_t machine_hash();

/// The knob's file, else $XDG_CACHE_HOME/tutti/cost-MACHINE.txt, else ~/.cache/tutti/...; empty: nowhere.
std::string cost_file_path(const Config& config);
/// Errors: unavailable (no such file: nothing to complain of), invalid_argument (another user's, or as above).
Result<CostTable> read_cost_file(const std::string& path, CostTableUse use);
/// Whole or not at all, whoever else writes. Makes the folder. Errors: unavailable.
Status write_cost_file(const std::string& path, const CostTable& table);

/// Whether find_cost_table measures where no file has the table.
bool measures_cost(const Config& config);
/// What the knobs `cost`, `cost_file` and `reproducible` ask for; measures with `measure` where need be. Errors only
/// for cost=file: that table was asked for by name.
Result<CostTable> find_cost_table(const Config& config, CostProbe (*measure)(const CostProbeLimits&) = measure_costs);

/// The table of a group that is split off: the parent's, unless the group's settings want the documented constants.
CostTable inherited_cost_table(const Config& config, const CostTable& parent);

/// What each rank says of itself at creation. Errors: mismatch, naming both values.
Status compare_selection(std::uint64_t rank_0, std::uint64_t other, int other_rank);
/// The same for the tables of two ranks, by their hashes.
Status compare_cost(std::uint64_t first, int first_rank, std::uint64_t other, int other_rank);

}  // namespace tutti::core
