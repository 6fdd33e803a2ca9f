// SPDX-License-Identifier: Apache-2.0
#include "perf/common/table.h"

#include <gtest/gtest.h>

#include <string>

// The expected lines are those of nccl-tests 2.19, with their trailing blanks.
namespace tutti::perf {
namespace {

TEST(Table, header) {
  EXPECT_EQ(header({}),
            "#\n"
            "#                                                              out-of-place                       in-place"
            "          \n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
            "busbw  #wrong \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
            "(GB/s)         \n");
}

TEST(Table, header_with_timestamps) {
  TableStyle style;
  style.timestamps = true;
  const std::string lines = header(style);
  EXPECT_NE(lines.find("  #wrong           timestamp\n"), std::string::npos);
  EXPECT_NE(lines.find("   %Y-%m-%d %H:%M:%S\n"), std::string::npos);
}

TEST(Table, header_with_iterations) {
  TableStyle style;
  style.per_iteration = true;
  const std::string lines = header(style);
  EXPECT_NE(lines.find("  out-of-place (+ per-iteration)"), std::string::npos);
  EXPECT_NE(lines.find("  #wrong    i_min    i_max    i_p99    i_cv%     time"), std::string::npos);
}

TEST(Table, row) {
  EXPECT_EQ(row_head({1048576, 262144, "float", "sum", -1}), "     1048576        262144     float     sum      -1");
  Placement placement;
  placement.seconds = 123.456e-6;
  placement.algorithm_gbps = 8.4935;
  placement.bus_gbps = 1234567;
  placement.wrong = 0;
  EXPECT_EQ(placement_columns(placement, false, 0), "   123.46    8.49   1e+06       0");
  placement.wrong = 12345678;
  EXPECT_EQ(placement_columns(placement, false, 0), "   123.46    8.49   1e+06  1.23457e+07");
  placement.wrong = std::nullopt;
  EXPECT_EQ(placement_columns(placement, false, 0), "   123.46    8.49   1e+06    N/A");
  EXPECT_EQ(timestamp_column("2026-11-30 16:00:00"), "  2026-11-30 16:00:00");
}

TEST(Table, a_checked_row_is_as_long_as_its_header) {
  Placement placement;
  placement.wrong = 0;
  const std::string row = row_head({8, 2, "float", "sum", -1}) + placement_columns(placement, false, 0) +
                          placement_columns(placement, false, 0);
  const std::string lines = header({});
  const size_t last = lines.rfind('\n', lines.size() - 2);
  EXPECT_EQ(row.size() + 1, lines.size() - last - 2);  // the header line ends with one more blank
}

TEST(Table, iteration_columns_leave_out_the_first) {
  Placement placement;
  placement.wrong = 0;
  placement.iteration_seconds = {9e-3, 1e-6, 2e-6, 3e-6};
  EXPECT_EQ(placement_columns(placement, true, 1),
            "     0.00    0.00    0.00       0     1.00     3.00     3.00    40.82");
}

TEST(Table, explain_columns_line_up_with_their_header) {
  TableStyle style;
  style.explain = true;
  const std::string lines = header(style);
  const size_t start = lines.find("# ", lines.find("#wrong") - 120);
  const std::string names = lines.substr(start, lines.find('\n', start) - start);
  Placement placement;
  placement.wrong = 0;
  const std::string row = row_head({8, 2, "float", "sum", -1}) + placement_columns(placement, false, 0) +
                          placement_columns(placement, false, 0) + explain_columns({"ring", "1"}, {1e-6, 2e-6});
  EXPECT_EQ(row.size(), names.size());
  EXPECT_EQ(row.find("ring") + 4, names.find("algorithm") + 9);
}

TEST(Table, preamble) {
  Options options;
  options.min_bytes = 8;
  options.max_bytes = 1024;
  options.step_factor = 2;
  EXPECT_EQ(preamble("all_reduce_perf", options, 102).substr(0, 45), "# tutti version 0.1.2 tutti-headers=100 tutti");
  EXPECT_NE(preamble("all_reduce_perf", options, 100)
                .find("# Collective test starting: all_reduce_perf\n"
                      "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg "
                      "iters: 1 validation: 1 graph: 0 unalign: 0\n#\n"),
            std::string::npos);
  options.step_factor = 1;
  options.without_effect = {"-G", "-y"};
  options.blocking = 3;
  const std::string lines = preamble("all_reduce_perf", options, 100);
  EXPECT_NE(lines.find("step: 1048576(bytes)"), std::string::npos);
  EXPECT_NE(lines.find("# -G -y: no effect without CUDA\n"), std::string::npos);
  EXPECT_NE(lines.find("outer iteration (-n); time excludes barrier \n"), std::string::npos);
}

TEST(Table, device) {
  EXPECT_EQ(device_line({3, 1, 4711, 2, "node7", "AMD EPYC"}),
            "#  Rank  3 Group  1 Pid   4711 on      node7 device  2 [0000:00:00] AMD EPYC\n");
}

TEST(Table, footer) {
  Footer result;
  result.average_gbps = 1.5;
  result.program = "all_reduce_perf";
  EXPECT_EQ(footer(result),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n#\n"
            "# Collective test concluded: all_reduce_perf\n#\n\n");
  result.out_of_bounds = 2;
  result.minimum_gbps = 1.6;
  result.error = "rank 1 is gone";
  result.memory = "Total  1.00 MB";
  EXPECT_EQ(footer(result),
            "# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 1.5 OK\n#\n"
            "# Collective test concluded: all_reduce_perf\n# Host memory usage    : Total  1.00 MB\n#\n"
            "# error: rank 1 is gone\n");
  result.minimum_gbps = 2;  // 1.5 < 0.9 * 2
  EXPECT_NE(footer(result).find("1.5 FAILED\n"), std::string::npos);
  EXPECT_FALSE(result.average_okay());
}

}  // namespace
}  // namespace tutti::perf
