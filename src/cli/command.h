// SPDX-License-Identifier: Apache-2.0
// A subcommand of `tutti` is one file src/cli/NAME.{h,cc} with one function
//
//   void register_NAME(CLI::App& program, int& exit_code);
//
// and one row in kCommands of main.cc (and its sources in src/cli/CMakeLists.txt). The function adds the subcommand and
// its options and gives it a callback that does the work, prints to stdout, and sets exit_code when it fails:
//
//   auto options = std::make_shared<Options>();            // lives as long as the callback
//   CLI::App* command = program.add_subcommand("plan", "Prints schedules");
//   command->add_option("--ranks", options->ranks, "Number of ranks")->capture_default_str();
//   command->callback([options, &exit_code] { exit_code = run_plan(*options); });
//
// Exit codes: 0 success, 1 the work failed (report_error says why), 2 wrong usage; a launcher passes on its program's.
#pragma once

#include "src/base/status.h"

namespace CLI {
class App;
}

namespace tutti::core {

using RegisterCommand = void (*)(CLI::App& program, int& exit_code);

/// Prints "tutti: TEXT" on stderr; returns the exit code: 2 for invalid_argument, else 1.
int report_error(const Status& status);

}  // namespace tutti::core
