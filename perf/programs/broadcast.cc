// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

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

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "broadcast_perf",
      .operation = "broadcast",
      .has_root = true,
      .collective = TUTTI_BROADCAST,
      .operands = whole_operands,
      .send_layout = send_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = plain_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
