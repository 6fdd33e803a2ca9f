// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/cli/run_options.h"

namespace CLI {
class App;
}

namespace tutti::core {

/// Only the line in `tutti --help`; main hands the words of `tutti run` to run_command.
void register_run(CLI::App& program, int& exit_code);

/// `tutti run`: the arguments behind "run"; returns the exit code. Call it early in main: it expects a process with one
/// thread and no children.
int run_command(const std::vector<std::string>& arguments);

/// Runs a job and returns its exit code: the first failing rank's (128 + signal), 126 or 127 when the program cannot be
/// started, 1 when the launcher itself fails.
int run_job(const RunOptions& options);

}  // namespace tutti::core
