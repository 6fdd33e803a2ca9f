// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block, block * static_cast<uint64_t>(ranks), block, block, 0};
}

Layout send_layout(const Row& row, int rank) { return {copy_segment(row.operands.send, row.seed, rank)}; }

/// Ranks other than the root must find their receive buffer as it was; in place, their own block is in it.
Layout recv_layout(const Row& row, int rank) {
  const uint64_t block = row.operands.send;
  Layout layout;
  for (int other = 0; other < row.ranks; ++other) {
    const bool filled = rank == row.root || (row.in_place && other == rank);
    layout.push_back(filled ? copy_segment(block, row.seed, other) : untouched_segment(block));
  }
  return layout;
}

tutti_code launch(const Call& call) {
  return tutti_gather(call.send, call.recv, call.row.operands.param, call.row.type, call.row.root, call.comm,
                      call.options, call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row) * row.ranks, seconds, static_cast<double>(row.ranks - 1) / row.ranks);
}

Program make_program() {
  Program program;
  program.name = "gather_perf";
  program.operation = "gather";
  program.has_root = true;
  program.collective = TUTTI_GATHER;
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
