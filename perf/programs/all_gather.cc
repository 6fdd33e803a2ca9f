// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

uint64_t rank_seed(const Row& row, int rank) { return 33 * row.seed + static_cast<uint64_t>(rank); }

Layout send_layout(const Row& row, int rank) { return {copy_segment(row.operands.send, rank_seed(row, rank), 0)}; }

Layout recv_layout(const Row& row, int) {
  Layout layout;
  for (int rank = 0; rank < row.ranks; ++rank)
    layout.push_back(copy_segment(row.operands.send, rank_seed(row, rank), 0));
  return layout;
}

tutti_code launch(const Call& call) {
  return tutti_all_gather(call.send, call.recv, call.row.operands.param, call.row.type, call.comm, call.options,
                          call.work());
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "all_gather_perf",
      .operation = "all_gather",
      .collective = TUTTI_ALL_GATHER,
      .operands = gathering_operands,
      .send_layout = send_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = block_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
