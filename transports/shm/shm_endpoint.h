// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti::core {

/// Shared memory between the processes of one running kernel (equal boot id), and between the threads of one process:
/// there the two ends of the link are the same memory and the code above does not change.
Result<std::unique_ptr<Endpoint>> make_shm_endpoint();

}  // namespace tutti::core
