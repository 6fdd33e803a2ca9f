// SPDX-License-Identifier: Apache-2.0
// The program as a user meets it: exit codes, and which stream says what.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "src/base/config.h"

namespace tutti::core {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  FILE* pipe = popen(("env -u TUTTI_LANES " + arguments).c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const std::size_t bytes = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.output.append(buffer, bytes);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

TEST(Program, version_is_one_line) {
  const Outcome outcome = run(TUTTI_PROGRAM " version 2>&1");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output.substr(0, 6), "tutti ");
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1);
  EXPECT_EQ(run(TUTTI_PROGRAM " --version").output, outcome.output);
}

TEST(Program, wrong_usage_exits_with_2_and_says_what_is_near) {
  const Outcome outcome = run(TUTTI_PROGRAM " confg 2>&1 >/dev/null");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.output, "tutti: no subcommand \"confg\"; did you mean \"config\"?\n");
  EXPECT_EQ(run(TUTTI_PROGRAM " config --no-such-option 2>/dev/null").exit_code, 2);
  const Outcome bare = run(TUTTI_PROGRAM " 2>/dev/null");
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_EQ(bare.output, "");
}

TEST(Program, config_reads_the_environment_and_refuses_bad_values) {
  const Outcome good = run("TUTTI_LANES=3 " TUTTI_PROGRAM " config");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_NE(good.output.find("environment TUTTI_LANES"), std::string::npos);
  const Outcome bad = run("TUTTI_LANES=30 " TUTTI_PROGRAM " config 2>&1 >/dev/null");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.output.find("TUTTI_LANES is \"30\"; allowed: a whole number in 1..8"), std::string::npos) << bad.output;
  const Outcome typo = run("TUTTI_LANE=3 " TUTTI_PROGRAM " config 2>&1 >/dev/null");
  EXPECT_EQ(typo.exit_code, 0);
  EXPECT_NE(typo.output.find("did you mean TUTTI_LANES?"), std::string::npos) << typo.output;
}

TEST(Program, config_prints_the_knobs_page) {
  EXPECT_EQ(run(TUTTI_PROGRAM " config --markdown").output, knobs_markdown());
}

}  // namespace
}  // namespace tutti::core
