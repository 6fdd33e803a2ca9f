// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t, int) { return {count, count, count, 0, 0}; }

Layout send_layout(const Row& row, int rank) {
  return {reduce_segment(row, Pattern::reduce_input, row.operands.send, rank)};
}

Layout recv_layout(const Row& row, int) {
  return {reduce_segment(row, Pattern::reduce_expected, row.operands.recv, 0)};
}

tutti_code launch(const Call& call) {
  return tutti_all_reduce(call.send, call.recv, call.row.operands.param, call.row.type, call.op, call.comm,
                          call.options, call.work());
}

Bandwidth bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row), seconds, 2.0 * (row.ranks - 1) / row.ranks);
}

Program make_program() {
  Program program;
  program.name = "all_reduce_perf";
  program.operation = "all_reduce";
  program.has_op = true;
  program.collective = TUTTI_ALL_REDUCE;
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
