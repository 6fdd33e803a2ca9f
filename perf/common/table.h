// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/common/options.h"
#include "perf/common/statistics.h"

// The text table of nccl-tests 2.19, byte for byte, as strings. Columns of ours (--explain) come after all of its own.
namespace tutti::perf {

/// One line of `# Using devices`.
struct Device {
  int rank = 0, group = 0, pid = 0, index = 0;
  std::string host, name;
};

struct TableStyle {
  bool timestamps = false;     // -S
  bool per_iteration = false;  // -I
  bool explain = false;
};

/// Results of one row out of place or in place.
struct Placement {
  double seconds = 0;
  double algorithm_gbps = 0, bus_gbps = 0;  // 10^9 bytes per second
  std::optional<uint64_t> wrong;            // nothing: not checked
  std::vector<double> iteration_seconds;    // with -I and --explain: of every outer iteration, the slowest rank's
  std::vector<std::vector<double>> process_seconds;  // the same per process, if there are several
};

struct RowHead {
  uint64_t bytes = 0, count = 0;
  std::string type, op;
  int root = -1;
};

/// --explain: what ran, out of place.
struct Explanation {
  std::string algorithm = "-", lanes = "-";
};

/// library_version: tutti_version() of the library in use.
std::string preamble(const std::string& program, const Options& options, int library_version);
std::string device_line(const Device& device);
std::string header(const TableStyle& style);
std::string row_head(const RowHead& head);
/// The columns of one placement, without what comes after it in the line.
std::string placement_columns(const Placement& placement, bool per_iteration, int skip);
std::string timestamp_column(const std::string& time);
std::string explain_columns(const Explanation& explanation, const std::vector<double>& iteration_seconds);

struct Footer {
  uint64_t out_of_bounds = 0;
  double average_gbps = 0;
  bool has_bandwidth = true;
  std::optional<double> minimum_gbps;
  std::string program;
  std::string memory;  // "" without -M
  std::string error;   // tutti_last_error()
  bool average_okay() const { return !minimum_gbps || average_gbps >= 0.9 * *minimum_gbps; }
};
std::string footer(const Footer& footer);

}  // namespace tutti::perf
