// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "transports/transport.h"

namespace tutti::core {

/// Every transport of this build, best first. A transport is one folder, one row here and one instantiation of the
/// contract suite (docs/adding-a-transport.md).
std::span<const TransportRow> transport_registry();

/// Null for a name that no row has.
const TransportRow* find_transport(std::string_view name);

}  // namespace tutti::core
