// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/base/unique_fd.h"
#include "src/cli/run_options.h"
#include "src/cli/run_processes.h"

namespace tutti::core {

/// What the launcher hands to its reaper child.
struct ReaperSetup {
  const RunOptions& options;
  InheritedState state;
  std::vector<int> forwarded;  // signals to pass on
  std::string unique_id;
  std::vector<std::string> environment;  // the launcher's
  UniqueFd control;                      // one byte per signal; end of file: the launcher has died
  pid_t group = 0;                       // process group for the ranks; 0: each its own
};

/// In a control byte: the terminal has sent this signal to the ranks already.
constexpr unsigned char kAlreadyDelivered = 0x80;

/// The body of the reaper process: starts the ranks, merges their output, passes signals on, ends the job, and leaves
/// no descendant behind. Returns the exit code of `tutti run`.
int run_reaper(ReaperSetup setup);

}  // namespace tutti::core
