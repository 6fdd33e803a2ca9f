// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "perf/common/program.h"

// AllGather from point to point operations: in step k, rank r exchanges all that it has (2^k blocks) with r xor 2^k.
//
//   ranks     0    1    2    3
//   start     0    1    2    3
//   step 0    01   01   23   23
//   step 1    0123 on every rank
//
// The steps depend on each other, so each is a group of its own, also with several ranks per thread and with -m
// (nccl-tests nests them in one group there and gets wrong data).
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

int steps(int ranks) {
  int count = 0;
  while ((1 << count) < ranks) ++count;
  return count > 0 ? count : 1;
}

tutti_code launch(const Call& call) {
  const Row& row = call.row;
  const uint64_t block_bytes = row.operands.param * row.element_bytes;
  auto* blocks = static_cast<char*>(call.recv);
  char* own = blocks + block_bytes * static_cast<uint64_t>(call.rank);
  if (call.step == 0 && own != call.send) std::memcpy(own, call.send, block_bytes);
  const int width = 1 << call.step;
  if (width >= row.ranks) return TUTTI_OK;  // one rank
  const int first = call.rank & ~(width - 1);
  const uint64_t count = row.operands.param * static_cast<uint64_t>(width);
  const int peer = call.rank ^ width;
  tutti_code code = tutti_group_begin();
  if (code != TUTTI_OK) return code;
  code = tutti_send(blocks + block_bytes * static_cast<uint64_t>(first), count, row.type, peer, 0, call.comm,
                    call.options, call.work());
  if (code == TUTTI_OK)
    code = tutti_recv(blocks + block_bytes * static_cast<uint64_t>(first ^ width), count, row.type, peer, 0, call.comm,
                      call.options, nullptr, call.work());
  const tutti_code end = tutti_group_end();
  return code != TUTTI_OK ? code : end;
}

Bandwidth bandwidth(const Row& row, double seconds) {
  return bandwidth_of(bytes_of(row) * (row.ranks - 1), seconds, 1);
}

std::string skip(int ranks) {
  if ((ranks & (ranks - 1)) == 0) return "";
  return "nRanks " + std::to_string(ranks) + " is not a power of 2, skipping";
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "hypercube_perf",
      .operation = "hypercube exchange",
      .no_op = "",
      .operands = gathering_operands,
      .send_layout = send_layout,
      .recv_layout = recv_layout,
      .launch = launch,
      .bandwidth = bandwidth,
      .steps = steps,
      .skip = skip,
  };
  return program;
}

}  // namespace tutti::perf
