// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/base/config.h"
#include "src/cli/command.h"

namespace tutti::core {

/// One line a knob: variable, value, where it comes from.
std::string config_text(const Config& config);
/// {"knobs": [{"name", "variable", "value", "origin", "default", "scope", "meaning"} ...], "warnings": [...]}.
std::string config_json(const Config& config);
void register_config(CLI::App& program, int& exit_code);

}  // namespace tutti::core
