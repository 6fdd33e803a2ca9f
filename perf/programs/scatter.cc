// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block * static_cast<uint64_t>(ranks), block, block, 0, block};
}

/// Ranks other than the root hold zeros, so that a scatter that does nothing is found in place as well.
Layout send_layout(const Row& row, int rank) {
  Segment segment = copy_segment(row.operands.send, row.seed, row.root);
  if (rank != row.root) segment.pattern = Pattern::zero;
  return {segment};
}

Layout recv_layout(const Row& row, int rank) {
  Segment block = copy_segment(row.operands.recv, row.seed, row.root);
  block.first_index = row.operands.recv * static_cast<uint64_t>(rank);
  return {block};
}

tutti_code launch(const Call& call) {
  return tutti_scatter(call.send, call.recv, call.row.operands.param, call.row.type, call.row.root, call.comm,
                       call.options, call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row) * row.ranks, seconds, static_cast<double>(row.ranks - 1) / row.ranks);
}

Program make_program() {
  Program program;
  program.name = "scatter_perf";
  program.operation = "scatter";
  program.has_root = true;
  program.collective = TUTTI_SCATTER;
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
