// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t, int) { return {count, count, count, 0, 0}; }

/// Ranks other than the root hold zeros, so that a broadcast that does nothing is found in place as well.
Layout send_layout(const Row& row, int rank) {
  Segment segment = copy_segment(row.operands.send, row.seed, row.root);
  if (rank != row.root) segment.pattern = Pattern::zero;
  return {segment};
}

Layout recv_layout(const Row& row, int) { return {copy_segment(row.operands.recv, row.seed, row.root)}; }

tutti_code launch(const Call& call) {
  return tutti_broadcast(call.send, call.recv, call.row.operands.param, call.row.type, call.row.root, call.comm,
                         call.options, call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) { return bandwidth_of(bytes_of(row), seconds, 1); }

Program make_program() {
  Program program;
  program.name = "broadcast_perf";
  program.operation = "broadcast";
  program.has_root = true;
  program.collective = TUTTI_BROADCAST;
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
