// SPDX-License-Identifier: Apache-2.0
// Every program with every type and operator, every element checked, over 1 to 9 and 16 ranks as processes and as
// threads. A covering sample here; the whole product in the nightly program (TUTTI_TEST_FULL).
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "tests/perf/run_program.h"

namespace tutti::perf {
namespace {

struct Setting {
  std::string program;  // without _perf
  std::string kind;     // "processes" or "threads"
  int ranks;
};
void PrintTo(const Setting& run, std::ostream* stream) {
  *stream << run.program << " " << run.kind << " " << run.ranks;
}

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};

struct Sample {
  const char* program;
  int processes, threads;
};
/// Which rank counts a program runs with in the sample; together they are all of kRankCounts, of both kinds.
constexpr Sample kSamples[] = {
    {"all_gather", 1, 6}, {"all_reduce", 5, 8},     {"alltoall", 16, 7}, {"alltoallv", 9, 5},
    {"broadcast", 7, 16}, {"gather", 8, 9},         {"hypercube", 4, 2}, {"reduce", 6, 3},
    {"scatter", 3, 1},    {"reduce_scatter", 2, 4}, {"sendrecv", 2, 9},
};

std::vector<Setting> runs() {
  std::vector<Setting> result;
  for (const Sample& sample : kSamples) {
#if defined(TUTTI_TEST_FULL)
    for (const int ranks : kRankCounts)
      for (const char* kind : {"processes", "threads"}) result.push_back({sample.program, kind, ranks});
#else
    result.push_back({sample.program, "processes", sample.processes});
    result.push_back({sample.program, "threads", sample.threads});
#endif
  }
  return result;
}

#if defined(TUTTI_TEST_FULL)
constexpr char kSizes[] = "-b 4 -e 64K -f 4";
constexpr size_t kSizeCount = 8;
constexpr int kLimitSeconds = 300;
#else
constexpr char kSizes[] = "-b 4 -e 70000 -f 131";  // 4 524 68644
constexpr size_t kSizeCount = 3;
constexpr int kLimitSeconds = 60;
#endif

const std::vector<std::string> kTypes = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                         "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
const std::vector<std::string> kOps = {"sum", "prod", "max", "min", "avg", "mulsum"};

bool among(const std::string& program, const std::vector<std::string>& list) {
  return std::find(list.begin(), list.end(), program) != list.end();
}

class Matrix : public testing::TestWithParam<Setting> {};

TEST_P(Matrix, nothing_is_wrong) {
  const Setting& wanted = GetParam();
  const bool rooted = among(wanted.program, {"broadcast", "gather", "reduce", "scatter"});
  const std::string root = rooted ? " -r " + std::to_string(wanted.ranks / 2) : "";
  const ProgramRun run = run_benchmark(wanted.program + "_perf",
                                       (wanted.kind == "threads" ? "-t " : "--procs ") + std::to_string(wanted.ranks) +
                                           " -d all -o all -c 1 -n 1 " + kSizes + root,
                                       kLimitSeconds);
  ASSERT_EQ(run.exit_code, 0) << run.output << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_NE(run.output.find("# Out of bounds values : 0 OK\n"), std::string::npos);
  const auto rows = table_rows(run.output);
  if (wanted.program == "hypercube" && (wanted.ranks & (wanted.ranks - 1)) != 0) {
    EXPECT_TRUE(rows.empty());
    return;
  }
  const bool has_op = among(wanted.program, {"all_reduce", "reduce", "reduce_scatter", "sendrecv"});
  const bool checked_in_place = !among(wanted.program, {"alltoall", "alltoallv", "sendrecv"});
  const std::vector<std::string> ops = has_op ? kOps : std::vector<std::string>{"none"};
  ASSERT_EQ(rows.size(), kTypes.size() * ops.size() * kSizeCount);
  size_t index = 0;
  for (const std::string& type : kTypes)
    for (const std::string& op : ops)
      for (size_t size = 0; size < kSizeCount; ++size) {
        Words row = rows[index++];
        if (wanted.program == "hypercube") row.insert(row.begin() + 3, op);  // its op is blank
        ASSERT_EQ(row.size(), 13u);
        EXPECT_EQ(row[2], type);
        EXPECT_EQ(row[3], op);
        EXPECT_EQ(row[4], std::to_string(rooted ? wanted.ranks / 2 : -1));
        EXPECT_EQ(row[8], "0") << type << " " << op << " " << row[0];
        EXPECT_EQ(row[12], checked_in_place ? "0" : "N/A") << type << " " << op << " " << row[0];
      }
}

INSTANTIATE_TEST_SUITE_P(Programs, Matrix, testing::ValuesIn(runs()), [](const auto& parameter) {
  const Setting& run = parameter.param;
  return run.program + "_" + run.kind + "_" + std::to_string(run.ranks);
});

TEST(Sample, covers_every_rank_count_as_processes_and_as_threads) {
  for (const int ranks : kRankCounts) {
    const auto has = [ranks](auto kind) {
      return std::any_of(std::begin(kSamples), std::end(kSamples),
                         [ranks, kind](const Sample& sample) { return sample.*kind == ranks; });
    };
    EXPECT_TRUE(has(&Sample::processes)) << ranks;
    EXPECT_TRUE(has(&Sample::threads)) << ranks;
  }
}

}  // namespace
}  // namespace tutti::perf
