// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

/// Ranks other than the root must find their receive buffer as it was; in place, their own block is in it.
Layout recv_layout(const Row& row, int rank) {
  const uint64_t block = row.operands.send;
  Layout layout;
  for (int other = 0; other < row.ranks; ++other) {
    const bool filled = rank == row.root || (row.in_place && other == rank);
    layout.push_back(filled ? copy_segment(block, row.seed, other) : untouched_segment(block));
  }
  return layout;
}

tutti_code launch(const Call& call) {
  return tutti_gather(call.send, call.recv, call.row.operands.param, call.row.type, call.row.root, call.comm,
                      call.options, call.work());
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "gather_perf",
      .operation = "gather",
      .has_root = true,
      .collective = TUTTI_GATHER,
      .operands = gathering_operands,
      .send_layout = own_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = block_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
