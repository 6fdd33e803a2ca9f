// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/cli/run_options.h"

namespace tutti::core {

/// True for the variables that `tutti run` sets for every rank.
bool is_launcher_variable(std::string_view name);

/// A fresh unique id as text: 256 hexadecimal digits of 128 bytes: 16 random bytes that name the job, 32 random bytes
/// that are its secret, zeros.
Result<std::string> make_unique_id_text();

/// The environment of one rank: `inherited` ("KEY=VALUE" each), then --env, then the launcher's own variables; a later
/// one replaces an earlier one of the same name, so a launcher inside a launcher starts a job of its own.
std::vector<std::string> rank_environment(const std::vector<std::string>& inherited, const RunOptions& options,
                                          const std::string& unique_id, int rank);

/// This process's environment.
std::vector<std::string> inherited_environment();

}  // namespace tutti::core
