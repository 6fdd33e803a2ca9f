// SPDX-License-Identifier: Apache-2.0
// The programs as users start them, over the real library: processes, threads and both, every element checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <tuple>

#include "tests/perf/run_program.h"

namespace tutti::perf {
namespace {

// Positions of words in a row of the table.
constexpr size_t kSize = 0, kCount = 1, kOp = 3, kRoot = 4, kWrong = 8, kWrongInPlace = 12;

void expect_clean(const ProgramRun& run) {
  EXPECT_EQ(run.exit_code, 0) << run.output << run.error;
  EXPECT_NE(run.output.find("# Out of bounds values : 0 OK\n"), std::string::npos) << run.output << run.error;
  for (Words row : table_rows(run.output)) {
    if (row.size() == 12) row.insert(row.begin() + kOp, "");  // hypercube's op is blank
    ASSERT_GE(row.size(), 13u);
    EXPECT_EQ(row[kWrong], "0") << row[kSize];
    if (row[kWrongInPlace] != "N/A") {
      EXPECT_EQ(row[kWrongInPlace], "0") << row[kSize];
    }
  }
}

struct Placing {
  const char* name;
  const char* arguments;
  int ranks;
};
void PrintTo(const Placing& placing, std::ostream* stream) { *stream << placing.arguments; }  // for GoogleTest
const Placing kPlacings[] = {{"processes_1", "--procs 1", 1},
                             {"processes_2", "--procs 2", 2},
                             {"processes_3", "--procs 3", 3},
                             {"processes_4", "--procs 4", 4},
                             {"threads_2", "-t 2", 2},
                             {"threads_3", "-t 3", 3},
                             {"threads_4", "-t 4 -p 1", 4},
                             {"ranks_of_one_thread_2", "-g 2", 2},
                             {"threads_2_ranks_2", "-t 2 -g 2", 4}};

class Programs : public testing::TestWithParam<std::tuple<const char*, Placing>> {};

TEST_P(Programs, every_element_is_right_at_small_and_odd_sizes) {
  const auto& [name, placing] = GetParam();
  const std::string program = std::string(name) + "_perf";
  const ProgramRun run =
      run_benchmark(program, std::string(placing.arguments) + " -b 4 -e 300000 -f 17 -n 2 -w 1 -c 2 -r -1");
  if (program == "hypercube_perf" && placing.ranks == 3) {
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_NE(run.output.find("nRanks 3 is not a power of 2, skipping\n"), std::string::npos);
    EXPECT_NE(run.output.find("# Avg bus bandwidth    : -nan \n"), std::string::npos);
    return;
  }
  expect_clean(run);
  const auto rows = table_rows(run.output);
  const bool rooted =
      program == "broadcast_perf" || program == "gather_perf" || program == "reduce_perf" || program == "scatter_perf";
  const size_t sizes = 4;  // 4 68 1156 19652
  EXPECT_EQ(rows.size(), rooted ? sizes * static_cast<size_t>(placing.ranks) : sizes);
  EXPECT_EQ(run.error, "");
}

INSTANTIATE_TEST_SUITE_P(All, Programs,
                         testing::Combine(testing::Values("all_gather", "all_reduce", "alltoall", "alltoallv",
                                                          "broadcast", "gather", "hypercube", "reduce",
                                                          "reduce_scatter", "scatter", "sendrecv"),
                                          testing::ValuesIn(kPlacings)),
                         [](const auto& parameter) {
                           return std::string(std::get<0>(parameter.param)) + "_" + std::get<1>(parameter.param).name;
                         });

/// size, count, type, redop, root of the only row.
Words row_head_of(const std::string& program, const std::string& arguments) {
  const ProgramRun run = run_benchmark(program, arguments);
  expect_clean(run);
  const auto rows = table_rows(run.output);
  if (rows.size() != 1 || rows[0].size() != 13) return {run.output};
  return {rows[0].begin(), rows[0].begin() + 5};
}

TEST(Columns, of_every_program) {
  const std::string arguments = "-t 3 -b 1000 -e 1000 -n 1 -d double -o max -r 1";
  const Words whole = {"1000", "125", "double", "none", "-1"};
  const auto with = [](Words words, const char* op, const char* root) {
    words[kOp] = op;
    words[kRoot] = root;
    return words;
  };
  const Words blocks = {"960", "40", "double", "none", "-1"};  // 3 times 320 bytes, a multiple of 16
  EXPECT_EQ(row_head_of("all_reduce_perf", arguments), with(whole, "max", "-1"));
  EXPECT_EQ(row_head_of("reduce_perf", arguments), with(whole, "max", "1"));
  EXPECT_EQ(row_head_of("broadcast_perf", arguments), with(whole, "none", "1"));
  EXPECT_EQ(row_head_of("sendrecv_perf", arguments), with(whole, "max", "-1"));
  EXPECT_EQ(row_head_of("all_gather_perf", arguments), blocks);
  EXPECT_EQ(row_head_of("reduce_scatter_perf", arguments), with(blocks, "max", "-1"));
  EXPECT_EQ(row_head_of("gather_perf", arguments), with(blocks, "none", "1"));
  EXPECT_EQ(row_head_of("scatter_perf", arguments), with(blocks, "none", "1"));
  EXPECT_EQ(row_head_of("alltoall_perf", arguments), blocks);
  EXPECT_EQ(row_head_of("alltoallv_perf", arguments), blocks);
}

TEST(Bandwidths, follow_from_the_time_and_the_ranks) {
  const struct {
    const char* program;
    double bytes, factor;  // with 4 ranks of 1 MiB
  } kCases[] = {{"all_reduce", 1, 1.5}, {"all_gather", 1, 0.75}, {"reduce_scatter", 1, 0.75}, {"broadcast", 1, 1},
                {"reduce", 1, 1},       {"gather", 1, 0.75},     {"scatter", 1, 0.75},        {"alltoall", 1, 0.75},
                {"alltoallv", 1, 0.75}, {"sendrecv", 1, 1}};
  for (const auto& expected : kCases) {
    const auto rows =
        table_rows(run_benchmark(std::string(expected.program) + "_perf", "-t 4 -b 1M -e 1M -n 1 -c 0").output);
    ASSERT_EQ(rows.size(), 1u) << expected.program;
    const double microseconds = std::stod(rows[0][5]), algorithm = std::stod(rows[0][6]), bus = std::stod(rows[0][7]);
    const double wanted = expected.bytes * 1048576 / microseconds / 1e3;
    EXPECT_NEAR(algorithm, wanted, 0.006 + wanted * 0.01) << expected.program;
    EXPECT_NEAR(bus, wanted * expected.factor, 0.006 + wanted * 0.01) << expected.program;
  }
}

TEST(Types, what_nccl_tests_lacks_is_right_too) {
  for (const char* program : {"all_reduce_perf", "reduce_scatter_perf", "reduce_perf"})
    for (const char* arguments : {"-o band -d all", "-o bor -d int32", "-o bxor -d uint8", "-d bool -o all",
                                  "-d bool -o band", "-d bool -o bor", "-d bool -o bxor"}) {
      const ProgramRun run = run_benchmark(program, std::string("-t 3 -b 1000 -e 20000 -f 20 -n 1 ") + arguments);
      expect_clean(run);
      const std::string all = arguments;
      const size_t pairs = all == "-o band -d all" ? 6 : all == "-d bool -o all" ? 4 : 1;
      EXPECT_EQ(table_rows(run.output).size(), 2 * pairs) << arguments;
    }
  expect_clean(run_benchmark("all_gather_perf", "-t 3 -b 1000 -e 20000 -f 20 -n 1 -d bool"));
}

TEST(Types, a_pair_that_means_nothing_is_refused) {
  const ProgramRun run = run_benchmark("reduce_perf", "--procs 2 -o bxor -b 64 -e 64");
  EXPECT_EQ(run.exit_code, 255);
  EXPECT_EQ(run.error,
            "reduce_perf: op bxor means nothing for type float: band, bor and bxor are for integers and bool; bool has "
            "no avg and mulsum\n");
  EXPECT_EQ(run_benchmark("all_gather_perf", "-t 2 -o bxor -b 64 -e 64 -n 1").exit_code, 0);  // has no op
}

TEST(AllReduce, large_unaligned_aggregated_and_registered) {
  expect_clean(run_benchmark("all_reduce_perf", "--procs 2 -b 3M -e 3M -n 2 -m 3 -u 1"));
  expect_clean(run_benchmark("all_reduce_perf", "-t 2 -b 3M -e 3M -n 2 -R 1"));
}

TEST(AllReduce, columns) {
  const auto rows = table_rows(run_benchmark("all_reduce_perf", "-t 2 -b 1000 -e 1000 -n 1 -o max -d half").output);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].size(), 13u);
  EXPECT_EQ((Words{rows[0].begin(), rows[0].begin() + 5}), (Words{"1000", "500", "half", "max", "-1"}));
}

TEST(AllGather, sizes_are_cut_to_whole_blocks_of_16_bytes) {
  const auto rows = table_rows(run_benchmark("all_gather_perf", "-t 3 -b 10 -e 1000 -i 990 -n 1").output);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][kSize], "0");
  EXPECT_EQ(rows[0][kCount], "0");
  EXPECT_EQ(rows[1][kSize], "960");  // 3 blocks of 320 bytes
  EXPECT_EQ(rows[1][kCount], "80");
  EXPECT_EQ(rows[1][kOp], "none");
}

TEST(Broadcast, one_row_per_root) {
  const auto rows = table_rows(run_benchmark("broadcast_perf", "--procs 2 -b 64 -e 64 -n 1 -r -1").output);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][kRoot], "0");
  EXPECT_EQ(rows[1][kRoot], "1");
}

TEST(Broadcast, a_root_that_does_not_exist_is_refused) {
  const ProgramRun run = run_benchmark("broadcast_perf", "-t 2 -b 64 -e 64 -r 2");
  EXPECT_EQ(run.exit_code, 255);
  EXPECT_NE(run.error.find("'2' for 'root': there are ranks 0 to 1"), std::string::npos);
}

TEST(Barrier, prints_one_line) {
  const ProgramRun run = run_benchmark("barrier_perf", "--procs 3 -c 4 -n 50");
  EXPECT_EQ(run.exit_code, 0) << run.output << run.error;
  const auto rows = table_rows(run.output);
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(rows[0].size(), 4u);
  EXPECT_EQ(rows[0][0], "3");
  for (size_t column = 1; column < 4; ++column) EXPECT_GT(std::stod(rows[0][column]), 0);
}

TEST(Launch, processes_of_threads_under_the_launcher) {
  const std::string program = program_path("all_reduce_perf");
  const ProgramRun run =
      run_command(program_path("tutti") + " run -n 2 --prefix others " + program + " -t 2 -b 64 -e 64K -f 32 -n 2");
  expect_clean(run);
  EXPECT_NE(run.output.find("#  Rank  3 Group  0 Pid"), std::string::npos);
}

TEST(Launch, groups_of_processes) {
  const ProgramRun run =
      run_command("env NCCL_TESTS_SPLIT='MOD 2' " + program_path("all_reduce_perf") + " --procs 4 -b 64K -e 64K -n 1");
  expect_clean(run);
  EXPECT_NE(run.output.find("#  Rank  3 Group  1 Pid"), std::string::npos);
}

TEST(Launch, a_wrong_line_is_reported_once) {
  const ProgramRun run = run_benchmark("all_reduce_perf", "--procs 3 -b 0");
  EXPECT_EQ(run.exit_code, 255);
  EXPECT_EQ(run.error, "invalid size 0 for 'minbytes': sizes start at 1 byte (for example -b 8)\n");
  EXPECT_EQ(run.output, "");
}

TEST(Launch, a_wrong_line_under_the_launcher_is_reported_once) {
  const ProgramRun run =
      run_command(program_path("tutti") + " run -n 3 --prefix none " + program_path("all_reduce_perf") + " -b 8 -e 4");
  EXPECT_EQ(run.exit_code, 255);
  const auto lines = lines_of(run.error);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "invalid sizes for 'minbytes' and 'maxbytes': 8 > 4"), 1)
      << run.error;
}

TEST(Launch, only_process_0_prints) {
  const ProgramRun run = run_benchmark("all_reduce_perf", "--procs 3 -b 64 -e 64 -n 1 -G 2");
  expect_clean(run);
  const auto lines = lines_of(run.output);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "# Collective test starting: all_reduce_perf"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "# -G: no effect without CUDA"), 1);
  EXPECT_EQ(lines[0].rfind("# tutti version ", 0), 0u);
}

TEST(Explain, names_the_algorithm) {
  const ProgramRun run = run_benchmark("all_reduce_perf", "--procs 2 -b 8 -e 4M -f 512 -n 3 --explain");
  expect_clean(run);
  for (const Words& row : table_rows(run.output)) {
    ASSERT_EQ(row.size(), 18u);
    EXPECT_NE(row[13], "-");
    EXPECT_LE(std::stod(row[15]), std::stod(row[17]));
  }
}

TEST(WrongData, exits_7_with_the_footer_and_names_the_first_place) {
  const ProgramRun run =
      run_command(std::string(TUTTI_PERF_TESTS) + "/wrong_data_perf -t 2 -b 8 -e 4096 -f 512 -n 1 -d int32");
  EXPECT_EQ(run.exit_code, 7) << run.output << run.error;
  const auto rows = table_rows(run.output);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][kWrong], "0");  // too small to be hurt
  EXPECT_EQ(rows[1][kWrong], "1");
  EXPECT_EQ(rows[1][kWrongInPlace], "1");
  EXPECT_NE(run.output.find("# Out of bounds values : 2 FAILED\n"), std::string::npos);
  EXPECT_NE(run.output.find("# Collective test concluded: wrong_data_perf\n"), std::string::npos);
  EXPECT_NE(
      run.error.find("wrong data on rank 1, broken all_reduce of 1024 elements of int32 sum, out of place: element 5 "
                     "expected "),
      std::string::npos)
      << run.error;
  EXPECT_NE(run.error.find("1 of the 1024 elements of this rank are wrong\n"), std::string::npos);
}

TEST(WrongData, is_not_seen_without_checking) {
  const ProgramRun run = run_command(std::string(TUTTI_PERF_TESTS) + "/wrong_data_perf -t 2 -b 64 -e 64 -n 1 -c 0");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(table_rows(run.output)[0][kWrong], "N/A");
}

TEST(WrongData, a_touched_buffer_of_a_rank_that_is_not_the_root_is_found) {
  for (const char* program : {"reduce", "gather"}) {
    const ProgramRun run = run_command(std::string(TUTTI_PERF_TESTS) + "/touched_" + program +
                                       "_perf -t 3 -b 384 -e 384 -n 1 -d int8 -r 1");
    EXPECT_EQ(run.exit_code, 7) << run.output << run.error;
    const auto rows = table_rows(run.output);
    ASSERT_EQ(rows.size(), 1u) << program;
    EXPECT_EQ(rows[0][kWrong], "2") << program;  // one element on each of two ranks
    EXPECT_EQ(rows[0][kWrongInPlace], "2") << program;
    EXPECT_NE(run.error.find("element 383 expected -91 (0xa5) got -92 (0xa4); 1 of the 384 elements of this rank"),
              std::string::npos)
        << run.error;
  }
}

TEST(MinimumBandwidth, below_it_exits_7) {
  const std::string program = program_path("all_reduce_perf") + " -t 2 -b 1K -e 1K -n 1";
  const ProgramRun slow = run_command("env NCCL_TESTS_MIN_BW=1e9 " + program);
  EXPECT_EQ(slow.exit_code, 7);
  EXPECT_NE(slow.output.find(" FAILED\n"), std::string::npos);
  EXPECT_EQ(run_command("env NCCL_TESTS_MIN_BW=0 " + program).exit_code, 0);
}

TEST(Json, agrees_with_the_table) {
  char folder[] = "/tmp/tutti_perf_json_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/out.json";
  const ProgramRun run = run_benchmark("all_reduce_perf", "--procs 2 -b 64 -e 64 -n 3 -J " + file);
  expect_clean(run);
  EXPECT_EQ(lines_of(run.output)[0], "# Writing JSON output to " + file);
  const ProgramRun text = run_command("cat " + file);
  EXPECT_NE(text.output.find(
                "\"results\":[{\"size\":64,\"count\":16,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\""),
            std::string::npos);
  EXPECT_NE(text.output.find("\"actual_iterations\":3,\"experiment_name\":\"\"}]"), std::string::npos);
  EXPECT_NE(text.output.find("\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"}"), std::string::npos);
  run_command("rm -r " + std::string(folder));
}

}  // namespace
}  // namespace tutti::perf
