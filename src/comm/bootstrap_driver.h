// SPDX-License-Identifier: Apache-2.0
// The two drivers behind join(): they feed the state machines of bootstrap_protocol.h from sockets and the clock.
#pragma once

#include <poll.h>

#include <cstdint>
#include <vector>

#include "src/comm/bootstrap.h"
#include "src/comm/bootstrap_protocol.h"
#include "src/comm/bootstrap_socket.h"

namespace tutti::core {

Result<JoinResult> run_root(ProtocolSettings settings);
Result<JoinResult> run_member(ProtocolSettings settings);

/// Sleeps until an event or `until_ns` (CLOCK_MONOTONIC). False: ppoll itself failed.
bool poll_until(std::vector<pollfd>& entries, std::uint64_t until_ns);
std::uint64_t now_ns();
Result<Nonce> make_nonce();

/// The table as join() returns it. Descriptors of processes other than `self` change hands, all others close.
std::vector<Introduction> hand_over_members(const std::vector<Introduction>& members,
                                            const std::vector<std::vector<DescriptorPtr>>& descriptors,
                                            const ProcessId& self);

}  // namespace tutti::core
