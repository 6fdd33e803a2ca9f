// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tutti::perf {

struct ProgramRun {
  int exit_code = -1;  // 128 + signal after a signal
  std::string output, error;
};

/// Runs `command` through the shell and waits for it, for at most `limit` seconds.
ProgramRun run_command(const std::string& command, int limit = 40);
/// build/bin/NAME ARGUMENTS, without a launcher's variables.
ProgramRun run_benchmark(const std::string& name, const std::string& arguments, int limit = 40);
std::string program_path(const std::string& name);

/// One line of the table, split at blanks.
using Words = std::vector<std::string>;
std::vector<Words> table_rows(const std::string& output);
std::vector<std::string> lines_of(const std::string& text);

}  // namespace tutti::perf
