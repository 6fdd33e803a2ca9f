// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/cli/command.h"

namespace tutti::core {

void register_report(CLI::App& program, int& exit_code);

struct ReportRequest {
  std::string job_prefix;  // of exactly one job
  std::string run_dir;     // as in TopRequest
  std::string output;      // empty: tutti-report-JOB.tar
};

/// Packs what a stranger needs to see what happened to a job: its recorders as they are, what `tutti top` makes of
/// them, `tutti topo`, `tutti config` (of the environment of this command; secrets are left out) and the versions.
/// Returns the archive's name.
Result<std::string> write_report(const ReportRequest& request);

}  // namespace tutti::core
