// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "perf/common/environment.h"
#include "perf/common/options.h"
#include "perf/common/program.h"
#include "perf/common/traffic.h"

// Blocks of different sizes: generated from the size of the row, or a matrix of bytes from a file
// (perf/common/traffic). Blocks follow each other in rank order on both sides.
namespace tutti::perf {
namespace {

/// Set once by configure(), before there are threads.
struct Setup {
  Traffic traffic;
  bool summary = false;
};
Setup& setup() {
  static Setup the_setup;
  return the_setup;
}
const Traffic& traffic() { return setup().traffic; }

std::string configure(const Options& options, const Environment& environment, int ranks) {
  setup().summary = environment.traffic.summary;
  return Traffic::load(environment.traffic, ranks, options.min_bytes, options.max_bytes, setup().traffic);
}

/// What a row gives every rank to send in all.
uint64_t total_bytes(const Row& row) {
  return row.operands.param * static_cast<uint64_t>(row.ranks) * row.element_bytes;
}

uint64_t block(const Row& row, int from, int to) {
  return traffic().bytes(from, to, row.ranks, total_bytes(row)) / row.element_bytes;
}

Operands operands(uint64_t count, size_t element_bytes, int ranks) {
  Operands result;
  result.param = traffic().is_matrix() ? 0 : block_of(count, element_bytes, ranks);
  const uint64_t total = result.param * static_cast<uint64_t>(ranks) * element_bytes;
  result.send = traffic().most_sent(ranks, total) / element_bytes;
  result.recv = traffic().most_received(ranks, total) / element_bytes;
  return result;
}

Layout send_layout(const Row& row, int rank) {
  return {copy_segment(traffic().sent(rank, row.ranks, total_bytes(row)) / row.element_bytes, row.seed, rank)};
}

/// Block k is what rank k holds for this rank; what other ranks receive more must be as it was.
Layout recv_layout(const Row& row, int rank) {
  Layout layout;
  for (int from = 0; from < row.ranks; ++from) {
    layout.push_back(copy_segment(block(row, from, rank), row.seed, from));
    for (int other = 0; other < rank; ++other) layout.back().first_index += block(row, from, other);
  }
  layout.push_back(untouched_segment(row.operands.recv - element_count(layout)));
  return layout;
}

/// Arguments of the call. They are kept per thread and rank, because calls of a group may read them until its end, and
/// because a timed call must not allocate.
struct Counts {
  int ranks = 0;
  uint64_t param = 0;
  size_t element_bytes = 0;
  std::vector<uint64_t> send, recv;
};

const Counts& counts_of(const Row& row, int rank) {
  thread_local std::deque<Counts> of_ranks;  // grows without moving what is there
  const auto index = static_cast<size_t>(rank);
  if (of_ranks.size() <= index) of_ranks.resize(index + 1);
  Counts& counts = of_ranks[index];
  if (counts.ranks == row.ranks && counts.param == row.operands.param && counts.element_bytes == row.element_bytes)
    return counts;
  counts = {row.ranks, row.operands.param, row.element_bytes, {}, {}};
  for (int peer = 0; peer < row.ranks; ++peer) {
    counts.send.push_back(block(row, rank, peer));
    counts.recv.push_back(block(row, peer, rank));
  }
  return counts;
}

tutti_code launch(const Call& call) {
  const Counts& counts = counts_of(call.row, call.rank);
  return tutti_all_to_all_v(call.send, counts.send.data(), nullptr, call.recv, counts.recv.data(), nullptr,
                            call.row.type, call.comm, call.options, call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) {
  const uint64_t most = std::max(row.operands.send, row.operands.recv) * row.element_bytes;
  return bandwidth_of(static_cast<double>(most), seconds, static_cast<double>(row.ranks - 1) / row.ranks);
}

std::string summary(const Row& row, double seconds) {
  return setup().summary ? traffic().summary(row.ranks, total_bytes(row), seconds) : "";
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "alltoallv_perf",
      .operation = "all_to_all_v",
      .check_in_place = false,
      .has_in_place = false,
      .collective = TUTTI_ALL_TO_ALL_V,
      .operands = operands,
      .send_layout = send_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = bandwidth,
      .configure = configure,
      .summary = summary,
  };
  return program;
}

}  // namespace tutti::perf
