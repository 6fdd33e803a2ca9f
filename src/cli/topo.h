// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/cli/command.h"
#include "src/facts/machine.h"

namespace tutti::core {

void register_topo(CLI::App& program, int& exit_code);

/// The machine in a page, in one line, and as JSON (every fact with the path it was read from).
std::string topo_text(const MachineFacts& facts);
std::string topo_brief(const MachineFacts& facts);
std::string topo_json(const MachineFacts& facts);

}  // namespace tutti::core
