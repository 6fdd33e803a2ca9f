// SPDX-License-Identifier: Apache-2.0
#include "transports/registry.h"

#include "transports/shm/shm_endpoint.h"

namespace tutti::core {
namespace {

constexpr TransportRow kTransports[] = {
    {"shm", make_shm_endpoint},
};

}  // namespace

std::span<const TransportRow> transport_registry() { return kTransports; }

const TransportRow* find_transport(std::string_view name) {
  for (const TransportRow& row : kTransports)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace tutti::core
