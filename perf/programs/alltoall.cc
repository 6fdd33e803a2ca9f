// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

namespace tutti::perf {
namespace {

Operands operands(uint64_t count, size_t element_bytes, int ranks) {
  const uint64_t block = block_of(count, element_bytes, ranks);
  return {block * static_cast<uint64_t>(ranks), block * static_cast<uint64_t>(ranks), block, 0, 0};
}

/// Block k is what rank k holds for this rank.
Layout recv_layout(const Row& row, int rank) {
  Layout layout;
  for (int from = 0; from < row.ranks; ++from) {
    layout.push_back(copy_segment(row.operands.param, row.seed, from));
    layout.back().first_index = row.operands.param * static_cast<uint64_t>(rank);
  }
  return layout;
}

tutti_code launch(const Call& call) {
  return tutti_all_to_all(call.send, call.recv, call.row.operands.param, call.row.type, call.comm, call.options,
                          call.work());
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "alltoall_perf",
      .operation = "all_to_all",
      .check_in_place = false,
      .has_in_place = false,
      .collective = TUTTI_ALL_TO_ALL,
      .operands = operands,
      .send_layout = own_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = block_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
