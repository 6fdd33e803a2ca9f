// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace tutti::core {

enum class RunBind : std::uint8_t { none, core };
enum class RunOnFailure : std::uint8_t { kill, carry_on };
/// Whose lines get "[rank] " in front: every rank's, every rank's but 0's, nobody's.
enum class RunPrefix : std::uint8_t { rank, others, none };

/// The command line of `tutti run`.
struct RunOptions {
  int ranks = 0;
  RunBind bind = RunBind::none;
  RunOnFailure on_failure = RunOnFailure::kill;
  RunPrefix prefix = RunPrefix::rank;
  std::int64_t grace_ns = 3'000'000'000;
  std::string job_name;
  std::vector<std::string> environment;  // "KEY=VALUE" of each --env, in order
  std::vector<std::string> command;      // program and arguments
  bool help = false;
};

/// `arguments` without "tutti run". Options end at the first word that is none, or at "--".
Result<RunOptions> parse_run_options(const std::vector<std::string>& arguments);

std::string run_usage();

}  // namespace tutti::core
