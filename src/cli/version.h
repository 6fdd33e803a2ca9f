// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/cli/command.h"

namespace tutti::core {

/// "tutti 0.1.0 (g++ 12.2.0, Release)".
std::string version_line();
void register_version(CLI::App& program, int& exit_code);

}  // namespace tutti::core
