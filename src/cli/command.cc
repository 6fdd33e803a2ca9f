// SPDX-License-Identifier: Apache-2.0
#include "src/cli/command.h"

#include <cstdio>

namespace tutti::core {

int report_error(const Status& status) {
  std::fprintf(stderr, "tutti: %s\n", status.to_string().c_str());
  return status.code() == TUTTI_INVALID_ARGUMENT ? 2 : 1;
}

}  // namespace tutti::core
