// SPDX-License-Identifier: Apache-2.0
#include "perf/common/traffic.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tutti::perf {
namespace {

constexpr uint64_t kUnit = 16;
constexpr double kLargest = 1.0e15;  // far more than any memory; sums of them fit 64 bits

uint64_t whole_units(double bytes) { return static_cast<uint64_t>(bytes) / kUnit * kUnit; }

/// "line 2, column 3" for people, who count from 1.
std::string place(size_t line, size_t column) {
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// Numbers of one line of a matrix, scaled; returns what is wrong, or "".
std::string parse_line(const std::string& text, size_t line, double scale, std::vector<uint64_t>& numbers) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    const std::string where = place(line, numbers.size() + 1) + ": '" + word + "'";
    if (*end != '\0') return where + " is not a number of bytes";
    if (!(value >= 0)) return where + " is negative or no number";
    if (!(value * scale < kLargest)) return where + " times the scale is too large";
    numbers.push_back(whole_units(value * scale));
  }
  return "";
}

}  // namespace

Traffic Traffic::generated(double spread) {
  Traffic traffic;
  traffic.spread_ = spread;
  return traffic;
}

std::string Traffic::parse(const std::string& text, double scale, Traffic& traffic) {
  Traffic result;
  result.scale_ = scale;
  std::istringstream lines(text);
  size_t columns = 0, rows = 0, number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::vector<uint64_t> values;
    if (std::string error = parse_line(line, number, scale, values); !error.empty()) return error;
    if (values.empty()) continue;  // blank
    if (rows == 0) columns = values.size();
    if (values.size() != columns)
      return "line " + std::to_string(number) + " has " + std::to_string(values.size()) + " numbers, the first one " +
             std::to_string(columns);
    ++rows;
    result.matrix_.insert(result.matrix_.end(), values.begin(), values.end());
  }
  if (rows == 0) return "it is empty";
  if (rows != columns)
    return "it has " + std::to_string(rows) + " lines of " + std::to_string(columns) +
           " numbers: a square matrix expected";
  result.dimension_ = static_cast<int>(rows);
  traffic = std::move(result);
  return "";
}

std::string Traffic::load(const TrafficSettings& settings, int ranks, uint64_t min_bytes, uint64_t max_bytes,
                          Traffic& traffic) {
  traffic = generated(settings.spread);
  if (settings.matrix_file.empty()) return "";
  const std::string name = "traffic matrix " + settings.matrix_file + " (NCCL_TESTS_ALLTOALLV_MATRIX_FILE): ";
  std::ifstream file(settings.matrix_file);
  std::stringstream text;
  if (!(file && text << file.rdbuf())) return name + "cannot be read, or is empty";
  if (const std::string error = parse(text.str(), settings.scale, traffic); !error.empty()) return name + error;
  if (ranks > traffic.dimension_)
    return name + "it has " + std::to_string(traffic.dimension_) + " lines, but there are " + std::to_string(ranks) +
           " ranks; give a larger matrix or start fewer ranks";
  if (min_bytes != max_bytes)
    return name + "it fixes all sizes, so there is no sweep: give -b and -e the same value (-b " +
           std::to_string(max_bytes) + " -e " + std::to_string(max_bytes) + ")";
  const uint64_t needed = std::max(traffic.most_sent(ranks, 0), traffic.most_received(ranks, 0));
  if (needed > max_bytes)
    return name + "a rank sends or receives " + std::to_string(needed) + " bytes, but the buffers hold " +
           std::to_string(max_bytes) + "; give -b " + std::to_string(needed) + " -e " + std::to_string(needed) +
           " or a smaller NCCL_TESTS_ALLTOALLV_MATRIX_SCALE";
  return "";
}

uint64_t Traffic::bytes(int from, int to, int ranks, uint64_t total) const {
  if (is_matrix())
    return matrix_[static_cast<size_t>(from) * static_cast<size_t>(dimension_) + static_cast<size_t>(to)];
  if (ranks == 1) return total / kUnit * kUnit;  // there is no distance: all to oneself
  const double whole = static_cast<double>(total);
  const double distance = (to - from + ranks) % ranks;
  const double all_distances = 0.5 * ranks * (ranks - 1);
  return whole_units((1 - spread_) * whole / ranks + spread_ * distance * whole / all_distances);
}

uint64_t Traffic::sent(int rank, int ranks, uint64_t total) const {
  uint64_t sum = 0;
  for (int peer = 0; peer < ranks; ++peer) sum += bytes(rank, peer, ranks, total);
  return sum;
}

uint64_t Traffic::received(int rank, int ranks, uint64_t total) const {
  uint64_t sum = 0;
  for (int peer = 0; peer < ranks; ++peer) sum += bytes(peer, rank, ranks, total);
  return sum;
}

uint64_t Traffic::most_sent(int ranks, uint64_t total) const {
  if (!is_matrix()) return sent(0, ranks, total);  // all ranks are alike
  uint64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, sent(rank, ranks, total));
  return most;
}

uint64_t Traffic::most_received(int ranks, uint64_t total) const {
  if (!is_matrix()) return received(0, ranks, total);
  uint64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, received(rank, ranks, total));
  return most;
}

std::string Traffic::summary(int ranks, uint64_t total, double seconds) const {
  constexpr char kTitle[] = "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: ";
  char line[256];
  if (is_matrix())
    std::snprintf(line, sizeof line, "%smode=matrix nranks=%d matrix_dim=%d scale=%.3f time_usec=%.2f\n", kTitle, ranks,
                  dimension_, scale_, seconds * 1e6);
  else
    std::snprintf(line, sizeof line, "%smode=generated nranks=%d total_bytes=%llu spread=%.3f time_usec=%.2f\n", kTitle,
                  ranks, static_cast<unsigned long long>(total), spread_, seconds * 1e6);
  std::string lines = line;
  for (int rank = 0; rank < ranks; ++rank) {
    const uint64_t send = sent(rank, ranks, total), receive = received(rank, ranks, total);
    const double rate = static_cast<double>(std::max(send, receive)) / 1e9 / seconds;
    std::snprintf(line, sizeof line, "#   rank=%d send_bytes=%llu recv_bytes=%llu alg_bw=%.2f bus_bw=%.2f\n", rank,
                  static_cast<unsigned long long>(send), static_cast<unsigned long long>(receive), rate,
                  rate * (ranks - 1) / ranks);
    lines += line;
  }
  return lines;
}

}  // namespace tutti::perf
