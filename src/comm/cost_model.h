// SPDX-License-Identifier: Apache-2.0
// T = rounds * alpha + messages * overhead + n * (sent * beta + reduced * gamma + copied * delta), Hockney's model with
// terms for what a receiver does with the bytes: reduce them where they lie, or copy them out (copied = sent - reduced
// in rows where every rank receives what it sends). The constants per kind of link are documented in cost_model.cc;
// measured ones replace them later without a change here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/plan/algorithm.h"

namespace tutti::core {

struct LinkCost {
  std::string_view kind;  ///< "shm", "shm, more ranks than cores"
  double alpha_ns;        ///< latency of a message that its receiver waits for
  double overhead_ns;     ///< processor time of a message at either end
  double beta_ns;         ///< per byte sent: the copy into the peer's reach
  double gamma_ns;        ///< per byte reduced from where the sender put it
  double delta_ns;        ///< per byte copied out
};

/// Constants for `local_ranks` ranks on `cores` usable cores of one machine.
LinkCost shared_memory_cost(int local_ranks, int cores);

/// Predicted nanoseconds of a row for `bytes` = the larger buffer of a rank.
double predict_ns(const RowCost& row, const LinkCost& link, std::uint64_t bytes);

}  // namespace tutti::core
