// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Layout recv_layout(const Row& row, int rank) {
  Segment block = reduce_segment(row, Pattern::reduce_expected, row.operands.recv, rank);
  block.first_index = row.operands.recv * static_cast<uint64_t>(rank);
  return {block};
}

tutti_code launch(const Call& call) {
  return tutti_reduce_scatter(call.send, call.recv, call.row.operands.param, call.row.type, call.op, call.comm,
                              call.options, call.work());
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "reduce_scatter_perf",
      .operation = "reduce_scatter",
      .has_op = true,
      .collective = TUTTI_REDUCE_SCATTER,
      .operands = scattering_operands,
      .send_layout = reduce_input_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = block_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
