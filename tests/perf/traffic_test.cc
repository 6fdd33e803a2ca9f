// SPDX-License-Identifier: Apache-2.0
#include "perf/common/traffic.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace tutti::perf {
namespace {

TEST(Traffic, generated_by_distance) {
  // 4 ranks, 960 bytes each: distances 0 1 2 3 of 6.
  const Traffic traffic = Traffic::generated(1);
  for (int from = 0; from < 4; ++from)
    for (int distance = 0; distance < 4; ++distance)
      EXPECT_EQ(traffic.bytes(from, (from + distance) % 4, 4, 960), 160u * static_cast<uint64_t>(distance));
}

TEST(Traffic, generated_uniform_and_mixed) {
  const Traffic uniform = Traffic::generated(0);
  const Traffic mixed = Traffic::generated(0.5);
  for (int to = 0; to < 4; ++to) {
    EXPECT_EQ(uniform.bytes(1, to, 4, 960), 240u);
    const auto distance = static_cast<uint64_t>((to - 1 + 4) % 4);
    EXPECT_EQ(mixed.bytes(1, to, 4, 960), (120 + 80 * distance) / 16 * 16);
  }
}

TEST(Traffic, every_rank_sends_and_receives_the_same_in_whole_units) {
  for (const double spread : {0.0, 0.3, 1.0})
    for (int ranks = 1; ranks <= 17; ++ranks) {
      const Traffic traffic = Traffic::generated(spread);
      const uint64_t total = 16 * 61 * static_cast<uint64_t>(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(traffic.sent(rank, ranks, total), traffic.most_sent(ranks, total));
        EXPECT_EQ(traffic.received(rank, ranks, total), traffic.most_received(ranks, total));
        EXPECT_LE(traffic.sent(rank, ranks, total), total);
        EXPECT_GT(traffic.sent(rank, ranks, total) + 16 * static_cast<uint64_t>(ranks), total);
        EXPECT_EQ(traffic.bytes(rank, 0, ranks, total) % 16, 0u);
      }
    }
}

TEST(Traffic, one_rank_sends_all_to_itself) { EXPECT_EQ(Traffic::generated(1).bytes(0, 0, 1, 100), 96u); }

TEST(Traffic, matrix) {
  Traffic traffic;
  ASSERT_EQ(Traffic::parse("16 32 0\n\n 5e2\t20 7.9\n160 16 31", 2, traffic), "");
  EXPECT_TRUE(traffic.is_matrix());
  EXPECT_EQ(traffic.dimension(), 3);
  EXPECT_EQ(traffic.bytes(0, 0, 3, 0), 32u);
  EXPECT_EQ(traffic.bytes(1, 0, 3, 0), 992u);  // 1000, in units of 16
  EXPECT_EQ(traffic.bytes(1, 2, 3, 0), 0u);    // 15.8
  EXPECT_EQ(traffic.bytes(2, 2, 3, 0), 48u);
  EXPECT_EQ(traffic.sent(2, 3, 0), 320u + 32 + 48);
  EXPECT_EQ(traffic.received(0, 3, 0), 32u + 992 + 320);
  EXPECT_EQ(traffic.received(0, 2, 0), 32u + 992);  // two ranks: the upper left part
  EXPECT_EQ(traffic.most_sent(3, 0), 992u + 32);
  EXPECT_EQ(traffic.most_received(3, 0), 1344u);
}

TEST(Traffic, what_is_wrong_with_a_matrix) {
  const struct {
    const char* text;
    const char* error;
  } kCases[] = {
      {"", "it is empty"},
      {" \n\n", "it is empty"},
      {"1 2\n3 4\n5 6", "it has 3 lines of 2 numbers: a square matrix expected"},
      {"1 2\n\n3", "line 3 has 1 numbers, the first one 2"},
      {"1 2\n3 x4", "line 2, column 2: 'x4' is not a number of bytes"},
      {"1 2K\n3 4", "line 1, column 2: '2K' is not a number of bytes"},
      {"1 -2\n3 4", "line 1, column 2: '-2' is negative or no number"},
      {"nan", "line 1, column 1: 'nan' is negative or no number"},
      {"1e15", "line 1, column 1: '1e15' times the scale is too large"},
      {"inf", "line 1, column 1: 'inf' times the scale is too large"},
  };
  for (const auto& wrong : kCases) {
    Traffic traffic = Traffic::generated(0.5);
    EXPECT_EQ(Traffic::parse(wrong.text, 1, traffic), wrong.error);
    EXPECT_FALSE(traffic.is_matrix());
  }
}

class TrafficFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tutti_traffic_XXXXXX";
    const int descriptor = mkstemp(name);
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    settings_.matrix_file = name;
    std::ofstream(settings_.matrix_file) << "100 200\n300 400\n";
  }
  void TearDown() override { unlink(settings_.matrix_file.c_str()); }

  std::string load(int ranks, uint64_t min_bytes, uint64_t max_bytes) {
    return Traffic::load(settings_, ranks, min_bytes, max_bytes, traffic_);
  }

  TrafficSettings settings_;
  Traffic traffic_;
};

TEST_F(TrafficFile, is_read_and_checked_against_the_run) {
  EXPECT_EQ(load(2, 4096, 4096), "");
  EXPECT_EQ(traffic_.bytes(1, 0, 2, 0), 288u);
  EXPECT_NE(load(3, 4096, 4096).find("it has 2 lines, but there are 3 ranks"), std::string::npos);
  EXPECT_NE(load(2, 8, 4096).find("give -b and -e the same value (-b 4096 -e 4096)"), std::string::npos);
  EXPECT_EQ(load(2, 688, 688), "");  // 288 + 400 sent by rank 1
  EXPECT_NE(load(2, 687, 687).find("sends or receives 688 bytes, but the buffers hold 687"), std::string::npos);
  settings_.scale = 0.5;
  EXPECT_EQ(load(2, 687, 687), "");
}

TEST_F(TrafficFile, errors_name_the_file) {
  std::ofstream(settings_.matrix_file) << "1 2 3\n";
  EXPECT_NE(load(1, 64, 64).find(settings_.matrix_file), std::string::npos);
  unlink(settings_.matrix_file.c_str());
  EXPECT_NE(load(1, 64, 64).find("traffic matrix " + settings_.matrix_file), std::string::npos);
}

TEST(Traffic, without_a_file_it_is_generated) {
  TrafficSettings settings;
  settings.spread = 0;
  Traffic traffic;
  EXPECT_EQ(Traffic::load(settings, 2, 8, 4096, traffic), "");
  EXPECT_EQ(traffic.bytes(0, 1, 2, 64), 32u);
}

TEST(Traffic, summaries) {
  EXPECT_EQ(Traffic::generated(1).summary(2, 32000, 1e-6),
            "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=2 total_bytes=32000 spread=1.000 "
            "time_usec=1.00\n"
            "#   rank=0 send_bytes=32000 recv_bytes=32000 alg_bw=32.00 bus_bw=16.00\n"
            "#   rank=1 send_bytes=32000 recv_bytes=32000 alg_bw=32.00 bus_bw=16.00\n");
  Traffic matrix;
  ASSERT_EQ(Traffic::parse("0 16000\n32000 0", 0.5, matrix), "");
  EXPECT_EQ(matrix.summary(2, 0, 1e-6),
            "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=matrix nranks=2 matrix_dim=2 scale=0.500 time_usec=1.00\n"
            "#   rank=0 send_bytes=8000 recv_bytes=16000 alg_bw=16.00 bus_bw=8.00\n"
            "#   rank=1 send_bytes=16000 recv_bytes=8000 alg_bw=16.00 bus_bw=8.00\n");
}

}  // namespace
}  // namespace tutti::perf
