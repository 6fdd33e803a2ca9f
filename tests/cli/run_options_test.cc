// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunOptions parsed(const std::vector<std::string>& arguments) {
  Result<RunOptions> options = parse_run_options(arguments);
  EXPECT_TRUE(options.is_ok()) << options.status().to_string();
  return options.is_ok() ? options.value() : RunOptions{};
}

std::string error_of(const std::vector<std::string>& arguments) {
  const Result<RunOptions> options = parse_run_options(arguments);
  EXPECT_EQ(options.status().code(), TUTTI_INVALID_ARGUMENT);
  return options.status().to_string();
}

TEST(run_options, reads_every_option_in_every_spelling) {
  const RunOptions options = parsed({"-n", "4", "--bind=core", "--grace", "500ms", "--on-failure", "continue", "--env",
                                     "A=1", "--env=B=", "--name", "night", "--prefix", "others", "prog"});
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.bind, RunBind::core);
  EXPECT_EQ(options.grace_ns, 500'000'000);
  EXPECT_EQ(options.on_failure, RunOnFailure::carry_on);
  EXPECT_EQ(options.prefix, RunPrefix::others);
  EXPECT_EQ(options.job_name, "night");
  EXPECT_THAT(options.environment, ElementsAre("A=1", "B="));
  EXPECT_EQ(parsed({"-n3", "prog"}).ranks, 3);
  EXPECT_EQ(parsed({"--ranks=3", "prog"}).ranks, 3);
  EXPECT_EQ(parsed({"-n", "3", "--no-prefix", "prog"}).prefix, RunPrefix::none);
}

TEST(run_options, has_the_documented_defaults) {
  const RunOptions options = parsed({"-n", "1", "prog"});
  EXPECT_EQ(options.bind, RunBind::none);
  EXPECT_EQ(options.grace_ns, 3'000'000'000);
  EXPECT_EQ(options.on_failure, RunOnFailure::kill);
  EXPECT_EQ(options.prefix, RunPrefix::rank);
}

TEST(run_options, leaves_what_follows_the_program_alone) {
  EXPECT_THAT(parsed({"-n", "2", "prog", "-n", "5", "--", "--help"}).command,
              ElementsAre("prog", "-n", "5", "--", "--help"));
  EXPECT_THAT(parsed({"-n", "2", "--", "-odd-name", "x"}).command, ElementsAre("-odd-name", "x"));
}

TEST(run_options, says_what_is_wrong_and_what_is_allowed) {
  EXPECT_THAT(error_of({"prog"}), HasSubstr("number of ranks is missing"));
  EXPECT_THAT(error_of({"-n", "2"}), HasSubstr("program to run is missing"));
  EXPECT_THAT(error_of({"-n", "2", "--"}), HasSubstr("program to run is missing"));
  for (const char* ranks : {"0", "-1", "4097", "two", "", "2x"})
    EXPECT_THAT(error_of({"-n", ranks, "prog"}), HasSubstr("allowed: 1 to 4096"));
  EXPECT_THAT(error_of({"-n"}), HasSubstr("-n needs a value"));
  EXPECT_THAT(error_of({"-n", "2", "--bind", "socket", "prog"}), HasSubstr("allowed: core, none"));
  EXPECT_THAT(error_of({"-n", "2", "--grace", "soon", "prog"}), HasSubstr("like 3s"));
  EXPECT_THAT(error_of({"-n", "2", "--grace", "-1s", "prog"}), HasSubstr("like 3s"));
  EXPECT_THAT(error_of({"-n", "2", "--grace", "1001h", "prog"}), HasSubstr("up to 1000h"));
  EXPECT_THAT(error_of({"-n", "2", "--on-failure", "retry", "prog"}), HasSubstr("allowed: kill, continue"));
  EXPECT_THAT(error_of({"-n", "2", "--prefix", "all", "prog"}), HasSubstr("allowed: rank, others, none"));
  EXPECT_THAT(error_of({"-n", "2", "--env", "A", "prog"}), HasSubstr("not KEY=VALUE"));
  EXPECT_THAT(error_of({"-n", "2", "--env", "=A", "prog"}), HasSubstr("not KEY=VALUE"));
  EXPECT_THAT(error_of({"-n", "2", "--env", "RANK=1", "prog"}), HasSubstr("RANK"));
  EXPECT_THAT(error_of({"-n", "2", "--name", "", "prog"}), HasSubstr("--name is empty"));
  EXPECT_THAT(error_of({"-n", "2", "--gracee", "1s", "prog"}), HasSubstr("did you mean --grace?"));
}

}  // namespace
}  // namespace tutti::core
