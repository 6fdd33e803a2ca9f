// SPDX-License-Identifier: Apache-2.0
// A benchmark program whose operation is broken: after each AllReduce, rank 1 flips the lowest bit of one element. It
// proves that the programs notice, name the place and exit 7. Tests only.
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kElement = 5;

Operands operands(uint64_t count, size_t, int) { return {count, count, count, 0, 0}; }
Layout send_layout(const Row& row, int rank) {
  return {reduce_segment(row, Pattern::reduce_input, row.operands.send, rank)};
}
Layout recv_layout(const Row& row, int) {
  return {reduce_segment(row, Pattern::reduce_expected, row.operands.recv, 0)};
}

tutti_code launch(const Call& call) {
  const Row& row = call.row;
  const tutti_code code = tutti_all_reduce(call.send, call.recv, row.operands.param, row.type, row.op, call.comm,
                                           call.options, call.work());
  if (call.rank == 1 && row.operands.param > kElement) {
    char& byte = static_cast<char*>(call.recv)[kElement * row.element_bytes];
    byte = static_cast<char>(byte ^ 1);
  }
  return code;
}

Bandwidth bandwidth(const Row& row, double seconds) { return bandwidth_of(bytes_of(row), seconds, 1); }

Program make_program() {
  Program program;
  program.name = "wrong_data_perf";
  program.operation = "broken all_reduce";
  program.has_op = true;
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
