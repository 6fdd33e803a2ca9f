// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t, int) { return {count, count, count, 0, 0}; }

Layout send_layout(const Row& row, int rank) {
  return {reduce_segment(row, Pattern::reduce_input, row.operands.send, rank)};
}

/// Ranks other than the root must find their receive buffer as it was; in place that is their input.
Layout recv_layout(const Row& row, int rank) {
  if (rank == row.root) return {reduce_segment(row, Pattern::reduce_expected, row.operands.recv, 0)};
  if (row.in_place) return send_layout(row, rank);
  return {untouched_segment(row.operands.recv)};
}

tutti_code launch(const Call& call) {
  return tutti_reduce(call.send, call.recv, call.row.operands.param, call.row.type, call.op, call.row.root, call.comm,
                      call.options, call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) { return bandwidth_of(bytes_of(row), seconds, 1); }

Program make_program() {
  Program program;
  program.name = "reduce_perf";
  program.operation = "reduce";
  program.has_op = true;
  program.has_root = true;
  program.collective = TUTTI_REDUCE;
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
