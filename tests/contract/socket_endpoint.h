// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti::core::contract {

/// A small message transport over UNIX stream sockets, for tests only: the contract suite's message half and the faulty
/// decorator run over it. One socket per link, all lanes multiplexed, whole messages buffered until asked for.
Result<std::unique_ptr<Endpoint>> make_socket_endpoint();

}  // namespace tutti::core::contract
