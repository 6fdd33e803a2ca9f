// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/top_model.h"

namespace tutti::core {

void register_top(CLI::App& program, int& exit_code);

struct TopRequest {
  std::string run_dir;       // also looked into; empty: TUTTI_RUN_DIR
  std::string job_prefix;    // only jobs whose id begins so
  bool is_complete = false;  // all dead jobs, and communicators that every rank has destroyed
};

/// Reads the recorders of this machine. Files that cannot be read are reported in `problems`.
struct TopPage {
  std::vector<JobView> jobs;
  std::size_t hidden_jobs = 0;  // dead ones beyond the latest few
  std::vector<std::string> problems;
  std::vector<std::string> folders;  // that were looked into
  std::int64_t now_ns = 0;           // CLOCK_REALTIME of the look
};
TopPage read_top(const TopRequest& request);

std::string top_text(const TopPage& page);
std::string top_json(const TopPage& page);

}  // namespace tutti::core
