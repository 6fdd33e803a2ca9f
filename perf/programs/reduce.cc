// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

/// Ranks other than the root must find their receive buffer as it was; in place that is their input.
Layout recv_layout(const Row& row, int rank) {
  if (rank == row.root) return {reduce_segment(row, Pattern::reduce_expected, row.operands.recv, 0)};
  if (row.in_place) return reduce_input_layout(row, rank);
  return {untouched_segment(row.operands.recv)};
}

tutti_code launch(const Call& call) {
  return tutti_reduce(call.send, call.recv, call.row.operands.param, call.row.type, call.op, call.row.root, call.comm,
                      call.options, call.work());
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "reduce_perf",
      .operation = "reduce",
      .has_op = true,
      .has_root = true,
      .collective = TUTTI_REDUCE,
      .operands = whole_operands,
      .send_layout = reduce_input_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = plain_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
