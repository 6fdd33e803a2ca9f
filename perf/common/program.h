// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "perf/common/failure.h"
#include "perf/common/generator.h"
#include "tutti/tutti.h"

// A benchmark program is one `Program`: what its operands are, which data they hold, how it is called. Everything else
// (options, ranks, timing, checking, table, JSON) is common. Adding one: a file in perf/programs that defines
// this_program(), and its row in perf/CMakeLists.txt.
namespace tutti::perf {

/// Elements of one row, on every rank alike.
struct Operands {
  uint64_t send = 0;           // in the send buffer
  uint64_t recv = 0;           // in the receive buffer
  uint64_t param = 0;          // passed to the call and printed as `count`
  uint64_t send_in_place = 0;  // in place, rank r sends from recv + r * send_in_place
  uint64_t recv_in_place = 0;  // and receives at recv + r * recv_in_place
};

/// One line of the table.
struct Row {
  Operands operands;
  tutti_dtype type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int root = -1;
  int ranks = 1;
  uint64_t seed = 0;
  size_t element_bytes = 4;
  bool premultiplied = false;  // mulsum: op is the sum, each rank's values times premultiplier()
  bool in_place = false;       // layouts may differ
};

/// 10^9 bytes per second.
struct Bandwidth {
  double algorithm = 0, bus = 0;
};

/// One call of one rank.
struct Call {
  const Row& row;
  int rank = 0;
  int step = 0;
  tutti_op op = TUTTI_SUM;  // row.op, or the handle of this call's pre-multiplied sum
  const void* send = nullptr;
  void* recv = nullptr;
  tutti_comm* comm = nullptr;
  const tutti_call* options = nullptr;
  std::deque<tutti_work*>* works = nullptr;  // null: blocking

  /// The last argument of Tutti's functions: a new handle if operations are to be asynchronous, else NULL.
  tutti_work** work() const {
    if (works == nullptr) return nullptr;
    works->push_back(nullptr);
    return &works->back();
  }
};

class Worker;
struct Environment;
struct Options;

struct Program {
  const char* name = "";       // "all_reduce_perf"
  const char* operation = "";  // "all_reduce", in messages
  bool has_op = false;         // -o counts, and the op is printed
  bool has_root = false;       // -r counts, and the root is printed
  const char* no_op = "none";  // redop column without an op
  bool check_in_place = true;
  bool has_in_place = true;                      // false: the in-place half of a row repeats the call out of place
  std::optional<tutti_collective> collective{};  // for explain

  Operands (*operands)(uint64_t count, size_t element_bytes, int ranks) = nullptr;
  Layout (*send_layout)(const Row& row, int rank) = nullptr;  // what a rank gives
  Layout (*recv_layout)(const Row& row, int rank) = nullptr;  // what it must get
  tutti_code (*launch)(const Call& call) = nullptr;
  Bandwidth (*bandwidth)(const Row& row, double seconds) = nullptr;

  /// Dependent steps of one operation (Call::step counts them); each step is a group of its own. Null: 1.
  int (*steps)(int ranks) = nullptr;
  /// Not empty: the reason why this number of ranks is left out, a line for stdout. Null: any number will do.
  std::string (*skip)(int ranks) = nullptr;
  /// Reads what this program alone needs to know, once, before there are threads. Returns what is wrong, or "".
  std::string (*configure)(const Options& options, const Environment& environment, int ranks) = nullptr;
  /// Lines about a row that took `seconds` out of place, printed after it. Null: none.
  std::string (*summary)(const Row& row, double seconds) = nullptr;
  /// Replaces the whole sweep over sizes. Null: the common one.
  ExitCode (*run)(Worker& worker) = nullptr;
};

/// The program that this binary is.
const Program& this_program();

// ---- what several programs need ----------------------------------------------------------------------------------

/// count / ranks rounded down to whole 16 bytes: the block of one rank where all ranks' blocks make up the size.
inline uint64_t block_of(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t unit = 16 / element_bytes;
  return count / static_cast<uint64_t>(ranks) / unit * unit;
}

/// All ranks hold as much as the size says.
inline Operands whole_operands(uint64_t count, size_t, int) { return {count, count, count, 0, 0}; }

/// Every rank gives its block and some get all of them; in place, it lies where it belongs among them.
inline Operands gathering_operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block, block * static_cast<uint64_t>(ranks), block, block, 0};
}

/// Backwards: some give all blocks, every rank gets its own.
inline Operands scattering_operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block * static_cast<uint64_t>(ranks), block, block, 0, block};
}

/// `bytes` moved in `seconds`, and the share of it that crosses the links of a rank.
inline Bandwidth bandwidth_of(double bytes, double seconds, double bus_factor) {
  const double rate = bytes / 1e9 / seconds;
  return {rate, rate * bus_factor};
}

inline double bytes_of(const Row& row) {
  return static_cast<double>(row.operands.param) * static_cast<double>(row.element_bytes);
}

inline Bandwidth plain_bandwidth(const Row& row, double seconds) { return bandwidth_of(bytes_of(row), seconds, 1); }

/// Of all ranks' blocks, of which a rank's own crosses no link.
inline Bandwidth block_bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row) * row.ranks, seconds, static_cast<double>(row.ranks - 1) / row.ranks);
}

inline Segment copy_segment(uint64_t count, uint64_t seed, int rank) {
  Segment segment;
  segment.pattern = Pattern::copy;
  segment.count = count;
  segment.seed = seed;
  segment.rank = rank;
  return segment;
}

/// What was in a receive buffer before the call.
inline Segment untouched_segment(uint64_t count) {
  Segment segment;
  segment.pattern = Pattern::untouched;
  segment.count = count;
  return segment;
}

inline Segment reduce_segment(const Row& row, Pattern pattern, uint64_t count, int rank) {
  Segment segment;
  segment.pattern = pattern;
  segment.count = count;
  segment.seed = row.seed;
  segment.rank = rank;
  segment.ranks = row.ranks;
  segment.op = row.op;
  segment.premultiplied = row.premultiplied;
  return segment;
}

/// What a rank sends where data only move.
inline Layout own_layout(const Row& row, int rank) { return {copy_segment(row.operands.send, row.seed, rank)}; }

/// What a rank sends into a reduction.
inline Layout reduce_input_layout(const Row& row, int rank) {
  return {reduce_segment(row, Pattern::reduce_input, row.operands.send, rank)};
}

}  // namespace tutti::perf
