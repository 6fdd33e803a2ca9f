// SPDX-License-Identifier: Apache-2.0
// No way to end a job leaves a process behind. ~Job checks it once more in every test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/cli/job.h"

namespace tutti::core::testing {
namespace {

using ::testing::HasSubstr;

/// Ranks with an ordinary child, a daemonised one in its own session, and a grandchild of that; all ignore TERM.
constexpr char kFamily[] =
    "trap '' TERM HUP INT; sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000 & wait' & "
    "(setsid sleep 1000 &) ; echo ready; ";

TEST(run_cleanup, after_success) {
  const Finished job = run_to_end(run_shell(2, {"--grace", "100ms"}, std::string(kFamily) + "exit 0"));
  EXPECT_EQ(job.code, 0);
  EXPECT_TRUE(job.is_gone);
  EXPECT_THAT(job.errors, HasSubstr("killing what the ranks left behind"));
}

TEST(run_cleanup, lets_what_is_left_behind_end_by_itself) {
  const Finished job = run_to_end(run_shell(
      1, {"--grace", "20s"},
      "setsid sh -c 'trap \"echo goodbye; exit\" TERM; echo ready >&2; while :; do sleep 1000 & wait $!; done' "
      "2>/tmp/tutti-run-cleanup-$$ & until [ -s /tmp/tutti-run-cleanup-$$ ]; do :; done; "
      "rm /tmp/tutti-run-cleanup-$$"));
  EXPECT_EQ(job.code, 0);
  EXPECT_EQ(job.output, "[0] goodbye\n");
  EXPECT_TRUE(job.is_gone);
}

TEST(run_cleanup, after_a_failure) {
  const Finished job =
      run_to_end(run_shell(3, {"--grace", "100ms"}, std::string(kFamily) + "[ $RANK = 1 ] && exit 9; sleep 1000"));
  EXPECT_EQ(job.code, 9);
  EXPECT_TRUE(job.is_gone);
}

TEST(run_cleanup, after_a_program_that_cannot_be_run) {
  const Finished job = run_to_end({"run", "-n", "4", "./no-such-program"});
  EXPECT_EQ(job.code, 127);
  EXPECT_TRUE(job.is_gone);
}

TEST(run_cleanup, after_the_launcher_was_killed) {
  Job job(run_shell(3, {}, std::string(kFamily) + "sleep 1000"));
  ASSERT_TRUE(job.wait_for_output("ready", 3));
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_TRUE(job.is_gone());
  EXPECT_THAT(job.errors(), HasSubstr("the launcher has died"));
}

TEST(run_cleanup, after_the_launchers_process_group_was_killed) {
  Job job(run_shell(3, {}, std::string(kFamily) + "sleep 1000"));
  ASSERT_TRUE(job.wait_for_output("ready", 3));
  kill(-job.pid(), SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_TRUE(job.is_gone());
}

TEST(run_cleanup, after_the_reaper_was_killed) {
  Job job(run_shell(3, {}, std::string(kFamily) + "sleep 1000"));
  ASSERT_TRUE(job.wait_for_output("ready", 3));
  const pid_t reaper = job.reaper_pid();
  ASSERT_GT(reaper, 0);
  kill(reaper, SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_TRUE(job.is_gone());
  EXPECT_THAT(job.errors(), HasSubstr("the reaper process was killed by SIGKILL"));
}

TEST(run_cleanup, after_the_launcher_of_a_nested_job_was_killed) {
  Job job(run_shell(1, {"--grace", "100ms"},
                    TUTTI_PROGRAM " run -n 2 sh -c \"$FAMILY sleep 1000\" & inner=$!; trap 'kill -9 $inner' USR1; "
                                  "while ! wait $inner; do kill -0 $inner 2>/dev/null || break; done; exit 11"),
          {.environment = {"FAMILY=" + std::string(kFamily)}});
  ASSERT_TRUE(job.wait_for_output("ready", 2));
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 11);
  EXPECT_TRUE(job.is_gone());
}

TEST(run_cleanup, after_the_third_interrupt) {
  Job job(run_shell(2, {}, std::string(kFamily) + "while :; do sleep 1000; done"));
  ASSERT_TRUE(job.wait_for_output("ready", 2));
  // One by one: equal signals that wait together count as one.
  for (int i = 0; i < 3; ++i) {
    job.send(SIGINT);
    if (i < 2) {
      ASSERT_TRUE(job.is_signal_taken(SIGINT));
    }
  }
  EXPECT_EQ(job.wait(), 137);
  EXPECT_THAT(job.errors(), HasSubstr("killing the job (SIGINT for the third time)"));
}

TEST(run_cleanup, after_a_stopped_rank) {
  const Finished job =
      run_to_end(run_shell(2, {"--grace", "100ms"}, "[ $RANK = 1 ] || exit 2; kill -STOP $$; sleep 1000"));
  EXPECT_EQ(job.code, 2);
  EXPECT_TRUE(job.is_gone);
}

// Nobody reads the output, the launcher's buffers are full, the ranks block in write: it must notice its end all the
// same.
TEST(run_cleanup, while_the_output_is_blocked) {
  for (const int number : {SIGKILL, SIGTERM}) {
    Job job(run_shell(2, {"--grace", "100ms"}, "echo ready >&2; exec yes"), {.is_output_read = false});
    ASSERT_TRUE(job.wait_for_errors("ready", 2));
    job.send(number);
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_TRUE(job.is_gone());
  }
}

}  // namespace
}  // namespace tutti::core::testing
