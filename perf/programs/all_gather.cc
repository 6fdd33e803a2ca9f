// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

uint64_t rank_seed(const Row& row, int rank) { return 33 * row.seed + static_cast<uint64_t>(rank); }

Operands operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block, block * static_cast<uint64_t>(ranks), block, block, 0};
}

Layout send_layout(const Row& row, int rank) { return {copy_segment(row.operands.send, rank_seed(row, rank), 0)}; }

Layout recv_layout(const Row& row, int) {
  Layout layout;
  for (int rank = 0; rank < row.ranks; ++rank)
    layout.push_back(copy_segment(row.operands.send, rank_seed(row, rank), 0));
  return layout;
}

tutti_code launch(const Call& call) {
  return tutti_all_gather(call.send, call.recv, call.row.operands.param, call.row.type, call.comm, call.options,
                          call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row) * row.ranks, seconds, static_cast<double>(row.ranks - 1) / row.ranks);
}

Program make_program() {
  Program program;
  program.name = "all_gather_perf";
  program.operation = "all_gather";
  program.collective = TUTTI_ALL_GATHER;
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
