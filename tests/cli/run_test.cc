// SPDX-License-Identifier: Apache-2.0
// What a job of `tutti run` sees and prints, and the exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "src/base/clock.h"
#include "src/cli/run_processes.h"
#include "tests/cli/job.h"

namespace tutti::core::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(run, tells_every_rank_who_it_is) {
  const Finished job = run_to_end(run_shell(3, {}, "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"));
  EXPECT_EQ(job.code, 0);
  EXPECT_THAT(sorted_lines(job.output), ElementsAre("[0] 0 of 3, 0 of 3", "[1] 1 of 3, 1 of 3", "[2] 2 of 3, 2 of 3"));
  EXPECT_EQ(job.errors, "");
  EXPECT_TRUE(job.is_gone);
}

TEST(run, gives_all_ranks_one_unique_id_and_every_job_another) {
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const Finished job = run_to_end(run_shell(2, {"--no-prefix"}, "echo $TUTTI_UNIQUE_ID"));
    const std::vector<std::string> lines = lines_of(job.output);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0], lines[1]);
    EXPECT_THAT(lines[0], MatchesRegex("[0-9a-f]{96}0{160}"));
    ids.insert(lines[0]);
    ids.insert(lines[0].substr(0, 32));   // the job's id alone
    ids.insert(lines[0].substr(32, 64));  // the secret alone
  }
  EXPECT_EQ(ids.size(), 6U);
}

TEST(run, sets_variables_and_the_job_name_and_overrides_inherited_ones) {
  const Finished job = run_to_end(run_shell(1, {"--no-prefix", "--env", "A=1", "--env=B=x=y", "--name", "night"},
                                            "echo $A $B $TUTTI_JOB_NAME $RANK ${TUTTI_RANK-unset}"),
                                  {.environment = {"A=0", "RANK=7", "TUTTI_RANK=7", "TUTTI_JOB_NAME=day"}});
  EXPECT_EQ(job.output, "1 x=y night 0 unset\n");
}

TEST(run, gives_ranks_the_signal_state_and_limits_of_the_launcher) {
  const Finished job = run_to_end(run_shell(1, {"--no-prefix"}, "grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  // Ignored signals are inherited from this test; blocked ones would be, but the job starts with none.
  std::ifstream file("/proc/self/status");
  std::string ignored;
  while (std::getline(file, ignored) && !ignored.starts_with("SigIgn")) {
  }
  EXPECT_THAT(lines_of(job.output), ElementsAre("SigBlk:\t0000000000000000", ignored));
  // The reaper raises its own limit of files.
  EXPECT_EQ(
      run_to_end(run_shell(1, {}, "ulimit -Sn 500; exec " TUTTI_PROGRAM " run -n 1 --no-prefix sh -c 'ulimit -Sn'"))
          .output,
      "[0] 500\n");
}

TEST(run, works_inside_itself) {
  const std::string inner = std::string(TUTTI_PROGRAM) + " run -n 2 sh -c 'echo $RANK/$WORLD_SIZE'";
  const Finished job = run_to_end(run_shell(2, {}, inner));
  EXPECT_EQ(job.code, 0);
  EXPECT_THAT(sorted_lines(job.output), ElementsAre("[0] [0] 0/2", "[0] [1] 1/2", "[1] [0] 0/2", "[1] [1] 1/2"));
  EXPECT_TRUE(job.is_gone);
}

TEST(run, keeps_stdout_and_stderr_apart) {
  const Finished job = run_to_end(run_shell(1, {}, "echo out; echo err >&2"));
  EXPECT_EQ(job.output, "[0] out\n");
  EXPECT_EQ(job.errors, "[0] err\n");
}

TEST(run, completes_an_unfinished_last_line) {
  const Finished job = run_to_end(run_shell(2, {}, "printf 'one\\n\\ntwo'"));
  EXPECT_THAT(sorted_lines(job.output), ElementsAre("[0] ", "[0] one", "[0] two", "[1] ", "[1] one", "[1] two"));
  EXPECT_EQ(job.output.back(), '\n');
}

TEST(run, without_prefix_changes_no_byte) {
  const std::string bytes = std::string("a\0b\r\n\n\xff", 7) + "no newline";
  const Finished job = run_to_end({"run", "-n", "1", "--no-prefix", "cat"}, {.input = bytes});
  EXPECT_EQ(job.output, bytes);
}

TEST(run, can_leave_rank_0_without_prefix) {
  const Finished job = run_to_end(run_shell(2, {"--prefix", "others"}, "echo $RANK"));
  EXPECT_THAT(lines_of(job.output), UnorderedElementsAre("0", "[1] 1"));
}

TEST(run, gives_standard_input_to_rank_0_alone) {
  const Finished job = run_to_end({"run", "-n", "3", "cat"}, {.input = "hello\n"});
  EXPECT_EQ(job.code, 0);
  EXPECT_EQ(job.output, "[0] hello\n");
}

// Every rank writes in pieces that end inside a line. Each of the lines must come out whole and in order.
TEST(run, loses_and_mixes_nothing_of_a_large_output) {
  constexpr int kRanks = 4;
  constexpr int kLines = 100'000;
  const Finished job = run_to_end(run_shell(kRanks, {}, "seq " + std::to_string(kLines)));
  EXPECT_EQ(job.code, 0);
  std::vector<int> next(kRanks, 1);
  for (const std::string& line : lines_of(job.output)) {
    ASSERT_GE(line.size(), 5U);
    const int rank = line[1] - '0';
    ASSERT_TRUE(rank >= 0 && rank < kRanks) << line;
    const std::string want = "[" + std::to_string(rank) + "] " + std::to_string(next[static_cast<std::size_t>(rank)]++);
    ASSERT_EQ(line, want);
  }
  EXPECT_THAT(next, ::testing::Each(kLines + 1));
}

TEST(run, keeps_long_lines_whole) {
  // 3,000,000 bytes without a newline: longer than any buffer of the launcher.
  const Finished job = run_to_end(run_shell(1, {}, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"));
  EXPECT_EQ(job.output, "[0] " + std::string(3'000'000, 'x') + "\n[0] end\n");
}

TEST(run, starts_many_ranks) {
  const Finished job = run_to_end(run_shell(64, {}, "echo $RANK"));
  EXPECT_EQ(job.code, 0);
  std::set<std::string> lines;
  for (const std::string& line : lines_of(job.output)) lines.insert(line);
  EXPECT_EQ(lines.size(), 64U);
  EXPECT_TRUE(lines.count("[63] 63") == 1 && lines.count("[0] 0") == 1);
  EXPECT_TRUE(job.is_gone);
}

TEST(run, binds_ranks_to_the_cpus_it_may_use) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  const int ranks = static_cast<int>(cpus.size()) + 1;  // the last one starts over
  const Finished job =
      run_to_end(run_shell(ranks, {"--bind", "core"}, "echo $(grep Cpus_allowed_list /proc/self/status)"));
  EXPECT_EQ(job.code, 0);
  std::vector<std::string> want;
  for (int rank = 0; rank < ranks; ++rank)
    want.push_back("[" + std::to_string(rank) +
                   "] Cpus_allowed_list: " + std::to_string(cpus[static_cast<std::size_t>(rank) % cpus.size()]));
  EXPECT_THAT(lines_of(job.output), ::testing::UnorderedElementsAreArray(want));
}

TEST(run, binds_within_its_own_affinity) {
  const std::vector<int> cpus = allowed_cpus();
  const int last = cpus.back();
  const Finished job = run_to_end(
      run_shell(1, {},
                "taskset -c " + std::to_string(last) +
                    " " TUTTI_PROGRAM " run -n 2 --no-prefix --bind core grep Cpus_allowed_list /proc/self/status"));
  const std::string line = "[0] Cpus_allowed_list:\t" + std::to_string(last);
  EXPECT_THAT(lines_of(job.output), ElementsAre(line, line));
}

TEST(run, exits_with_the_code_of_the_failing_rank_and_names_it) {
  const Finished job = run_to_end(run_shell(3, {}, "[ $RANK != 1 ] || exit 5"));
  EXPECT_EQ(job.code, 5);
  EXPECT_THAT(job.errors,
              MatchesRegex("tutti run: rank 1 \\(pid [0-9]+\\) exited with code 5 after [0-9]+.[0-9] s\n(.|\n)*"));
}

TEST(run, exits_with_128_plus_the_signal_that_killed_a_rank) {
  const Finished job = run_to_end(run_shell(2, {}, "[ $RANK != 1 ] || kill -9 $$"));
  EXPECT_EQ(job.code, 137);
  EXPECT_THAT(job.errors,
              MatchesRegex("tutti run: rank 1 \\(pid [0-9]+\\) killed by signal 9 \\(SIGKILL\\) after (.|\n)*"));
}

TEST(run, reports_a_failure_after_the_last_words_of_the_rank) {
  const Finished job = run_to_end(run_shell(1, {}, "printf 'last words' >&2; exit 3"));
  EXPECT_THAT(job.errors, MatchesRegex("\\[0\\] last words\ntutti run: rank 0 .*\n"));
}

TEST(run, can_continue_after_a_failure) {
  // Rank 1 is let go by the news that rank 0 has failed, which the launcher prints.
  Job job(run_shell(2, {"--on-failure", "continue"},
                    "[ $RANK = 1 ] || exit 4; trap 'echo done; exit 6' USR1; "
                    "echo ready; while :; do sleep 1000 & wait $!; done"));
  ASSERT_TRUE(job.wait_for_output("[1] ready"));
  ASSERT_TRUE(job.wait_for_errors("rank 0"));
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 4);
  EXPECT_THAT(job.output(), HasSubstr("[1] done"));
  EXPECT_THAT(job.errors(), HasSubstr("exited with code 6"));
  EXPECT_THAT(job.errors(), Not(HasSubstr("TERM")));
}

TEST(run, gives_the_others_a_grace_then_terminates_then_kills) {
  Job job(run_shell(3, {"--grace", "200ms"},
                    "case $RANK in 0) trap 'exit 3' USR1;; 1) trap 'echo got TERM; exit 0' TERM; trap '' USR1;; "
                    "2) trap '' TERM USR1;; esac; echo ready; while :; do sleep 1000 & wait $!; done"));
  ASSERT_TRUE(job.wait_for_output("ready", 3));
  const std::int64_t begin = monotonic_ns();
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 3);
  EXPECT_GE(monotonic_ns() - begin, 400'000'000);  // one grace before TERM, one before KILL
  EXPECT_THAT(job.output(), HasSubstr("[1] got TERM\n"));
  const std::vector<std::string> lines = lines_of(job.errors());
  ASSERT_GE(lines.size(), 4U);
  EXPECT_THAT(lines[1], HasSubstr("ranks 1-2 have 200ms to report"));
  EXPECT_EQ(lines[2], "tutti run: ranks 1-2 still running: TERM");
  EXPECT_EQ(lines[3], "tutti run: rank 2 still running: KILL");
  EXPECT_TRUE(job.is_gone());
}

TEST(run, lets_the_others_report_within_the_grace) {
  // Rank 1 sees the end of rank 0 in a FIFO of the test's own making: no time is involved.
  const Finished job =
      run_to_end(run_shell(2, {"--grace", "20s"},
                           "F=/tmp/tutti-run-test-$PPID; [ $RANK = 1 ] || { mkfifo $F; exec 3>$F; exit 7; }; "
                           "until [ -p $F ]; do :; done; cat $F; rm $F; echo reported; exit 8"));
  EXPECT_EQ(job.code, 7);
  EXPECT_THAT(job.output, HasSubstr("[1] reported"));
  EXPECT_THAT(job.errors, HasSubstr("exited with code 8"));
  EXPECT_THAT(job.errors, Not(HasSubstr("still running")));
}

TEST(run, says_once_that_a_program_cannot_be_run) {
  const Finished missing = run_to_end({"run", "-n", "8", "tutti-no-such-program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.errors,
              MatchesRegex("tutti run: cannot run 'tutti-no-such-program': No such file[^\n]*PATH[^\n]*\n"));
  EXPECT_EQ(missing.output, "");
  const Finished forbidden = run_to_end({"run", "-n", "8", "/proc/self/status"});
  EXPECT_EQ(forbidden.code, 126);
  EXPECT_THAT(forbidden.errors, MatchesRegex("tutti run: cannot run '/proc/self/status': Permission denied[^\n]*\n"));
}

TEST(run, refuses_a_wrong_command_line_with_2) {
  const Finished job = run_to_end({"run", "-n", "0", "true"});
  EXPECT_EQ(job.code, 2);
  EXPECT_THAT(job.errors, HasSubstr("1 to 4096"));
  EXPECT_THAT(run_to_end({"run", "--help"}).output, HasSubstr("usage: tutti run"));
}

TEST(run, forwards_signals_to_all_ranks) {
  for (const auto& [number, name] : std::vector<std::pair<int, std::string>>{{SIGINT, "INT"},
                                                                             {SIGTERM, "TERM"},
                                                                             {SIGHUP, "HUP"},
                                                                             {SIGQUIT, "QUIT"},
                                                                             {SIGUSR1, "USR1"},
                                                                             {SIGUSR2, "USR2"}}) {
    Job job(run_shell(
        2, {},
        "trap 'echo got " + name + "; exit 0' " + name + "; echo ready; while :; do sleep 1000 & wait $!; done"));
    ASSERT_TRUE(job.wait_for_output("ready", 2));
    job.send(number);
    EXPECT_EQ(job.wait(), 0) << name << "\n" << job.errors();
    EXPECT_EQ(count_of(job.output(), "got " + name), 2) << job.output();
  }
}

TEST(run, exits_as_its_ranks_do_when_it_is_interrupted) {
  Job job(run_shell(2, {"--grace", "100ms"}, "echo ready; exec sleep 1000"));
  ASSERT_TRUE(job.wait_for_output("ready", 2));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST(run, does_not_forward_what_it_was_told_to_ignore) {
  // As under nohup. The inner rank takes HUP again, and would die of it.
  Job job(run_shell(1, {}, "trap '' HUP; exec " TUTTI_PROGRAM " run -n 1 env --default-signal=HUP sh -c \"$SCRIPT\""),
          {.environment = {"SCRIPT=trap 'echo end; exit 0' USR1; echo ready; while :; do sleep 1000 & wait $!; done"}});
  ASSERT_TRUE(job.wait_for_output("ready"));
  job.send(SIGHUP);
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.output(), HasSubstr("end"));
}

TEST(run, on_a_terminal_shows_prompts_and_passes_control_c_on_once) {
  Job job(run_shell(2, {},
                    "trap 'echo int' INT; trap 'echo end; exit 0' USR1; printf 'prompt> '; "
                    "[ $RANK = 1 ] || { read x; echo read $x; }; echo ready; "
                    "while :; do sleep 1000 & wait $!; done"),
          {.has_terminal = true});
  ASSERT_TRUE(job.wait_for_output("prompt> "));  // without an end of line
  job.type("word\n");
  ASSERT_TRUE(job.wait_for_output("read word"));
  ASSERT_TRUE(job.wait_for_output("ready", 2));
  job.type("\x03");
  ASSERT_TRUE(job.wait_for_output("int\r\n", 2));
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(count_of(job.output(), "] int\r\n"), 2) << job.output();
}

}  // namespace
}  // namespace tutti::core::testing
