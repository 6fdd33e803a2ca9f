// SPDX-License-Identifier: Apache-2.0
// A transport that breaks on purpose: a decorator around another one, for tests. Everything is counted, nothing timed,
// so that a failure found once is found again.
#pragma once

#include <cstddef>
#include <memory>

#include "transports/transport.h"

namespace tutti::core {

/// What goes wrong. Polls are calls of the decorator's poll(); sends are counted over all its links, from 0.
struct FaultPlan {
  int fail_connects = 0;       ///< the first so many calls of connect() fail
  int ready_after_polls = 0;   ///< a link says `connecting` for so many polls after connect()
  int abort_after_polls = -1;  ///< at this poll every link aborts (peer_lost)
  bool refuse_allocate = false;
  int drop_send = -1;           ///< this send completes and never arrives
  int truncate_send = -1;       ///< this send completes as if whole,
  std::size_t truncate_to = 0;  ///< and carries only so many bytes
  int hold_completions = 0;     ///< completions are reported so many polls late
};

/// Without faults it passes the contract suite as `inner` does. Its name is "faulty".
std::unique_ptr<Endpoint> make_faulty_endpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan);

}  // namespace tutti::core
