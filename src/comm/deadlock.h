// SPDX-License-Identifier: Apache-2.0
// Who waits for whom, told from the control pages of a communicator at a deadline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/comm/operation.h"

namespace tutti::core {

/// The call that a rank's caller waits in.
struct BlockedIn {
  int peer = -1;     ///< rank that it needs; -1: any
  std::string text;  ///< "send to 1 (tag 5, 1 MiB)"
};

/// What `call`'s page entry says about it, without the number of a collective.
std::string describe_blocked(const Call& call);
/// "1 MiB", "3 KiB", "100 bytes": exact.
std::string human_bytes(std::uint64_t bytes);

struct WaitChain {
  bool deadlock = false;  ///< it comes back to a rank that is in it
  std::string text;       ///< "rank 0 waits in send to 1 (tag 5, 1 MiB) -> rank 1 waits in ... -> rank 0"
};

/// Follows who waits for whom from `rank`. `blocked[r]`: what rank r waits in, if it does.
WaitChain follow_waits(int rank, const std::vector<std::optional<BlockedIn>>& blocked);

}  // namespace tutti::core
