// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::perf {

/// What NCCL_TESTS_ALLTOALLV_* say.
struct TrafficSettings {
  double spread = 1;        // _SPREAD: 0 the same to everyone, 1 in proportion to the distance
  std::string matrix_file;  // _MATRIX_FILE: explicit bytes instead
  double scale = 1;         // _MATRIX_SCALE: factor for all of them
  bool summary = false;     // _PRINT_SUMMARY: lines per rank after each row
};

/// How many bytes each rank sends to each other one in alltoallv_perf: generated from the size of a row, or read from a
/// matrix. Always whole units of 16 bytes, so that every type divides them.
///
///   generated   a share (1 - spread) of the total T of a rank goes to all ranks alike, the rest in proportion to the
///               distance d = (to - from) mod n. All distances of a rank add up to n(n-1)/2, so every rank sends and
///               receives T. At spread 1 nothing goes to oneself.
///   matrix      line i, column j: bytes from rank i to rank j, times the scale. More lines than ranks are fine.
class Traffic {
 public:
  Traffic() = default;
  static Traffic generated(double spread);
  /// Reads the text of a matrix into `traffic`. Returns what is wrong with it, or "".
  static std::string parse(const std::string& text, double scale, Traffic& traffic);
  /// What `settings` ask for, checked against this run: the matrix is read, holds every rank, fits into `max_bytes`
  /// (sum of every line and column), and there is one size only. Returns what is wrong, or "".
  static std::string load(const TrafficSettings& settings, int ranks, uint64_t min_bytes, uint64_t max_bytes,
                          Traffic& traffic);

  bool is_matrix() const { return dimension_ > 0; }
  int dimension() const { return dimension_; }
  double spread() const { return spread_; }
  double scale() const { return scale_; }
  /// From one rank to another of `ranks`; `total`: what the row gives every rank (a matrix does not care).
  uint64_t bytes(int from, int to, int ranks, uint64_t total) const;
  uint64_t sent(int rank, int ranks, uint64_t total) const;
  uint64_t received(int rank, int ranks, uint64_t total) const;
  /// The largest of these over all ranks.
  uint64_t most_sent(int ranks, uint64_t total) const;
  uint64_t most_received(int ranks, uint64_t total) const;

  /// Lines for people about one row that took `seconds`, each starting with '#'.
  std::string summary(int ranks, uint64_t total, double seconds) const;

 private:
  double spread_ = 1;
  double scale_ = 1;
  int dimension_ = 0;
  std::vector<uint64_t> matrix_;  // dimension_ lines of dimension_ numbers
};

}  // namespace tutti::perf
