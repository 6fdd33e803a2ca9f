// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::perf {

/// A type or operator by its name on the command line and in the table.
struct NamedType {
  std::string name;
  tutti_dtype type;
};
struct NamedOp {
  std::string name;
  tutti_op op;
  bool premultiplied = false;  // mulsum
};
/// What -d and -o know by name, in the order of dtypes.def and of tutti_op, with mulsum after avg. float16, float32,
/// float64, float8_e4m3 and float8_e5m2 are called half, float, double, f8e4m3 and f8e5m2 as in nccl-tests.
const std::vector<NamedType>& named_types();
const std::vector<NamedOp>& named_ops();
/// What "all" means: nccl-tests' lists. It has no bool and no bitwise operators.
const std::vector<NamedType>& all_types();
const std::vector<NamedOp>& all_ops();

/// The command line of nccl-tests (same letters, long names, defaults), and ours: --procs, --bind, --explain.
struct Options {
  int threads = 1;           // -t
  int ranks_per_thread = 1;  // -g
  uint64_t min_bytes = 32u << 20;
  uint64_t max_bytes = 32u << 20;
  uint64_t step_bytes = 1u << 20;
  uint64_t step_factor = 1;  // > 1 wins over step_bytes
  int iterations = 20;
  int aggregate = 1;  // -m: calls in one group
  int warmup = 1;
  int cycles = 1;  // -N; <= 0: for ever
  bool parallel_init = false;
  int check = 1;
  std::vector<NamedOp> ops;      // -o
  std::vector<NamedType> types;  // -d
  int root = 0;                  // -1: every root in turn
  int blocking = 0;              // -z
  int timeout_s = 0;
  int graph = 0;
  bool report_cputime = false;
  bool report_timestamps = false;
  std::string json_file;
  int average = 1;  // -a: 0 rank 0, 1 mean, 2 min, 3 max
  int local_register = 0;
  bool memory_report = false;
  int unalign = 0;
  bool per_iteration = false;
  int per_iteration_skip = 0;

  int processes = 2;  // --procs: local processes started when neither a launcher nor -t nor -g is there
  bool bind = true;   // --bind core: every thread with ranks stays on one CPU
  bool threads_given = false;
  bool explain = false;
  std::vector<std::string> without_effect;  // GPU-only options in use, "-G"
};

struct ParsedOptions {
  Options options;
  std::string output;       // for stdout
  std::string error;        // for stderr
  std::optional<int> exit;  // set: print both and leave with this status
};

/// Parses with getopt_long, which writes its own line for an unknown option to stderr.
ParsedOptions parse_options(int argc, char** argv);

/// "4", "1.5K", "64M", "2G" (binary units) -> bytes.
std::optional<uint64_t> parse_size(const std::string& text);

std::string usage(const std::string& program);

}  // namespace tutti::perf
