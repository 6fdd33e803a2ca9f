// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block * static_cast<uint64_t>(ranks), block * static_cast<uint64_t>(ranks), block, 0, 0};
}

Layout send_layout(const Row& row, int rank) { return {copy_segment(row.operands.send, row.seed, rank)}; }

/// Block k is what rank k holds for this rank.
Layout recv_layout(const Row& row, int rank) {
  Layout layout;
  for (int from = 0; from < row.ranks; ++from) {
    layout.push_back(copy_segment(row.operands.param, row.seed, from));
    layout.back().first_index = row.operands.param * static_cast<uint64_t>(rank);
  }
  return layout;
}

tutti_code launch(const Call& call) {
  return tutti_all_to_all(call.send, call.recv, call.row.operands.param, call.row.type, call.comm, call.options,
                          call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row) * row.ranks, seconds, static_cast<double>(row.ranks - 1) / row.ranks);
}

Program make_program() {
  Program program;
  program.name = "alltoall_perf";
  program.operation = "all_to_all";
  program.check_in_place = false;
  program.has_in_place = false;
  program.collective = TUTTI_ALL_TO_ALL;
  program.operands = operands;
  program.send_layout = send_layout;
  program.recv_layout = recv_layout;
  program.launch = launch;
  program.bandwidth = bandwidth;
  return program;
}

}  // namespace

const Program& this_program() {
  static const Program program = make_program();
  return program;
}

}  // namespace tutti::perf
