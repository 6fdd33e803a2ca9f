// SPDX-License-Identifier: Apache-2.0
// A rank dies in the middle of a benchmark: the others say who, and doing what.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/perf/run_program.h"

namespace tutti::perf {
namespace {

TEST(Failure, a_killed_rank_is_named_by_the_others) {
  // -N 0 repeats for ever; the processes' ids stand in the device lines.
  const std::string command = "exec timeout 60 " + program_path("tutti") + " run -n 3 --prefix others --grace 5s " +
                              program_path("all_reduce_perf") + " -b 64K -e 64K -n 10 -N 0 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output, line;
  int victim = -1;
  bool killed = false;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    line = buffer;
    output += line;
    if (const size_t at = line.find("#  Rank  1 Group"); at != std::string::npos)
      victim = std::atoi(line.c_str() + line.find("Pid", at) + 3);
    if (killed || victim < 0 || table_rows(line).empty()) continue;
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    killed = true;
  }
  const int status = pclose(pipe);
  ASSERT_TRUE(killed) << output;
  // The others are so quick that the launcher may see one of them end first.
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(WEXITSTATUS(status) == 128 + SIGKILL || WEXITSTATUS(status) == 3) << WEXITSTATUS(status);
  const size_t end = output.rfind("Test Tutti failure");
  ASSERT_NE(end, std::string::npos) << output.substr(output.size() > 2000 ? output.size() - 2000 : 0);
  const std::string tail = output.substr(end > 300 ? end - 300 : 0);
  EXPECT_NE(tail.find("peer_lost"), std::string::npos) << tail;
  EXPECT_NE(tail.find("rank 1"), std::string::npos) << tail;
}

}  // namespace
}  // namespace tutti::perf
