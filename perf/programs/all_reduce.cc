// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

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

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "all_reduce_perf",
      .operation = "all_reduce",
      .has_op = true,
      .collective = TUTTI_ALL_REDUCE,
      .operands = whole_operands,
      .send_layout = reduce_input_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
