// SPDX-License-Identifier: Apache-2.0
// alltoallv_perf and the variables that shape its blocks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/perf/run_program.h"

namespace tutti::perf {
namespace {

constexpr size_t kSize = 0, kCount = 1, kWrong = 8, kWrongInPlace = 12;

ProgramRun run_with(const std::string& variables, const std::string& arguments) {
  return run_command("env -u RANK -u WORLD_SIZE -u TUTTI_UNIQUE_ID " + variables + " " +
                     program_path("alltoallv_perf") + " " + arguments);
}

void expect_right(const ProgramRun& run) {
  EXPECT_EQ(run.exit_code, 0) << run.output << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_FALSE(table_rows(run.output).empty());
  for (const Words& row : table_rows(run.output)) {
    ASSERT_EQ(row.size(), 13u);
    EXPECT_EQ(row[kWrong], "0");
    EXPECT_EQ(row[kWrongInPlace], "N/A");
  }
}

TEST(AlltoallvProgram, every_spread_is_right) {
  for (const char* spread : {"0", "0.3", "1"})
    expect_right(
        run_with(std::string("NCCL_TESTS_ALLTOALLV_SPREAD=") + spread, "-t 4 -b 64 -e 100000 -f 17 -n 1 -c 2"));
}

TEST(AlltoallvProgram, a_spread_out_of_range_is_refused) {
  const ProgramRun run = run_with("NCCL_TESTS_ALLTOALLV_SPREAD=2", "-t 2 -b 64 -e 64");
  EXPECT_EQ(run.exit_code, 255);
  EXPECT_EQ(run.error, "alltoallv_perf: NCCL_TESTS_ALLTOALLV_SPREAD=2: a number from 0 to 1 expected\n");
}

TEST(AlltoallvProgram, the_summary_follows_its_row) {
  const ProgramRun run = run_with("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1", "-t 2 -b 64 -e 64 -n 1");
  expect_right(run);
  const auto lines = lines_of(run.output);
  size_t at = 0;
  while (at < lines.size() && lines[at].find("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=2 "
                                             "total_bytes=64 spread=1.000 time_usec=") != 0)
    ++at;
  ASSERT_LT(at + 2, lines.size()) << run.output;
  EXPECT_EQ(lines[at - 1].rfind("          64             8     float    none      -1", 0), 0u) << lines[at - 1];
  EXPECT_EQ(lines[at + 1].rfind("#   rank=0 send_bytes=64 recv_bytes=64 alg_bw=", 0), 0u) << lines[at + 1];
  EXPECT_EQ(lines[at + 2].rfind("#   rank=1 send_bytes=64 recv_bytes=64 alg_bw=", 0), 0u) << lines[at + 2];
}

class AlltoallvMatrix : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tutti_matrix_XXXXXX";
    const int descriptor = mkstemp(name);
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    file_ = name;
    write("0 160 3200\n48 16 0\n320 0 64\n");
  }
  void TearDown() override { unlink(file_.c_str()); }
  void write(const char* text) { std::ofstream(file_) << text; }
  ProgramRun run(const std::string& arguments, const std::string& scale = "1") {
    return run_with("NCCL_TESTS_ALLTOALLV_MATRIX_FILE=" + file_ + " NCCL_TESTS_ALLTOALLV_MATRIX_SCALE=" + scale +
                        " NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1",
                    arguments);
  }
  std::string file_;
};

TEST_F(AlltoallvMatrix, gives_the_sizes) {
  for (const char* ranks : {"--procs 3", "-t 3", "-g 3"}) {
    const ProgramRun result = run(std::string(ranks) + " -b 4K -e 4K -n 1 -c 2 -d all");
    expect_right(result);
    const auto rows = table_rows(result.output);
    EXPECT_EQ(rows[0][kSize], "3360");  // sent by rank 0
    EXPECT_EQ(rows[0][kCount], "0");
    EXPECT_NE(result.output.find("#   rank=2 send_bytes=384 recv_bytes=3264 alg_bw="), std::string::npos)
        << result.output;
  }
}

TEST_F(AlltoallvMatrix, may_be_larger_than_the_ranks_and_scaled) {
  const ProgramRun result = run("-t 2 -b 4K -e 4K -n 1", "2.5");
  expect_right(result);
  EXPECT_EQ(table_rows(result.output)[0][kSize], "432");  // received by rank 1: 400 + 32
}

TEST_F(AlltoallvMatrix, a_broken_one_exits_1_and_says_why_once) {
  const std::string start = "alltoallv_perf: traffic matrix " + file_ + " (NCCL_TESTS_ALLTOALLV_MATRIX_FILE): ";
  const auto expect_refused = [&](const std::string& arguments, const std::string& why) {
    const ProgramRun result = run(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_EQ(result.error.substr(0, start.size() + why.size()), start + why);
    EXPECT_EQ(lines_of(result.error).size(), 1u) << result.error;
    EXPECT_EQ(result.output, "");
  };
  expect_refused("--procs 4 -b 4K -e 4K", "it has 3 lines, but there are 4 ranks");
  expect_refused("-t 3 -b 4K -e 8K", "it fixes all sizes");
  expect_refused("-t 3 -b 3K -e 3K", "a rank sends or receives 3360 bytes, but the buffers hold 3072");
  write("1 2\n3\n");
  expect_refused("-t 2 -b 4K -e 4K", "line 2 has 1 numbers, the first one 2");
  unlink(file_.c_str());
  expect_refused("--procs 2 -b 4K -e 4K", "cannot be read");
}

}  // namespace
}  // namespace tutti::perf
