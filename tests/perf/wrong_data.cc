// SPDX-License-Identifier: Apache-2.0
// A benchmark program whose operation is broken: after each AllReduce, rank 1 flips the lowest bit of one element. It
// proves that the programs notice, name the place and exit 7. Tests only.
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kElement = 5;

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

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "wrong_data_perf",
      .operation = "broken all_reduce",
      .has_op = true,
      .operands = whole_operands,
      .send_layout = reduce_input_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = plain_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
