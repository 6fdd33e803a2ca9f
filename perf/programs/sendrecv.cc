// SPDX-License-Identifier: Apache-2.0
#include "perf/common/program.h"

// Every rank sends to its successor and receives from its predecessor, in one group.
namespace tutti::perf {
namespace {

int previous(const Row& row, int rank) { return (rank + row.ranks - 1) % row.ranks; }

Layout recv_layout(const Row& row, int rank) {
  return {copy_segment(row.operands.recv, row.seed, previous(row, rank))};
}

tutti_code launch(const Call& call) {
  const Row& row = call.row;
  const uint64_t count = row.operands.param;
  tutti_code code = tutti_group_begin();
  if (code != TUTTI_OK) return code;
  const int next = (call.rank + 1) % row.ranks;
  code = tutti_send(call.send, count, row.type, next, 0, call.comm, call.options, call.work());
  if (code == TUTTI_OK)
    code = tutti_recv(call.recv, count, row.type, previous(row, call.rank), 0, call.comm, call.options, nullptr,
                      call.work());
  const tutti_code end = tutti_group_end();
  return code != TUTTI_OK ? code : end;
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "sendrecv_perf",
      .operation = "send and receive",
      // nccl-tests loops over operators here too, without an effect
      .has_op = true,
      .check_in_place = false,
      .operands = whole_operands,
      .send_layout = own_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = plain_bandwidth,
  };
  return program;
}

}  // namespace tutti::perf
