// SPDX-License-Identifier: Apache-2.0
#include "perf/common/environment.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

namespace tutti::perf {
namespace {

class EnvironmentTest : public testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    for (const char* name : {"TUTTI_UNIQUE_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                             "NCCL_TESTS_DEVICE", "NCCL_TESTS_MIN_BW", "NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK",
                             "NCCL_TESTS_ALLTOALLV_SPREAD", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
                             "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"})
      unsetenv(name);
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(EnvironmentTest, without_a_launcher_there_is_one_process) {
  const Environment environment = read_environment();
  EXPECT_FALSE(environment.launched);
  EXPECT_EQ(environment.process, 0);
  EXPECT_EQ(environment.processes, 1);
  EXPECT_EQ(environment.error, "");
  EXPECT_FALSE(environment.minimum_bandwidth);
}

TEST_F(EnvironmentTest, rank_without_an_id_is_not_our_launcher) {
  set("RANK", "1");
  set("WORLD_SIZE", "2");
  EXPECT_FALSE(read_environment().launched);
}

TEST_F(EnvironmentTest, reads_the_launcher) {
  set("TUTTI_UNIQUE_ID", "x");
  set("RANK", "3");
  set("WORLD_SIZE", "4");
  set("LOCAL_RANK", "1");
  set("LOCAL_WORLD_SIZE", "2");
  const Environment environment = read_environment();
  EXPECT_TRUE(environment.launched);
  EXPECT_EQ(environment.process, 3);
  EXPECT_EQ(environment.processes, 4);
  EXPECT_EQ(environment.local_process, 1);
  EXPECT_EQ(environment.local_processes, 2);
  EXPECT_EQ(environment.error, "");
}

TEST_F(EnvironmentTest, names_a_wrong_variable_and_its_value) {
  set("TUTTI_UNIQUE_ID", "x");
  set("RANK", "two");
  set("WORLD_SIZE", "4");
  EXPECT_NE(read_environment().error.find("RANK=two"), std::string::npos);
  set("RANK", "4");
  EXPECT_NE(read_environment().error.find("WORLD_SIZE=4"), std::string::npos);
  set("RANK", "0");
  set("NCCL_TESTS_MIN_BW", "fast");
  EXPECT_NE(read_environment().error.find("NCCL_TESTS_MIN_BW=fast"), std::string::npos);
}

TEST_F(EnvironmentTest, mask_wins_over_split) {
  set("NCCL_TESTS_SPLIT", "MOD 2");
  set("NCCL_TESTS_SPLIT_MASK", "2");
  EXPECT_EQ(group_of(read_environment().split, 3), 2);
}

TEST_F(EnvironmentTest, traffic_of_alltoallv) {
  const TrafficSettings defaults = read_environment().traffic;
  EXPECT_EQ(defaults.spread, 1);
  EXPECT_EQ(defaults.scale, 1);
  EXPECT_EQ(defaults.matrix_file, "");
  EXPECT_FALSE(defaults.summary);
  set("NCCL_TESTS_ALLTOALLV_SPREAD", "0.25");
  set("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/some/file");
  set("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "1e3");
  set("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1");
  const Environment environment = read_environment();
  EXPECT_EQ(environment.error, "");
  EXPECT_EQ(environment.traffic.spread, 0.25);
  EXPECT_EQ(environment.traffic.scale, 1000);
  EXPECT_EQ(environment.traffic.matrix_file, "/some/file");
  EXPECT_TRUE(environment.traffic.summary);
}

TEST_F(EnvironmentTest, a_spread_that_is_none_is_named) {
  for (const char* wrong : {"half", "0.5x", "-0.1", "1.1", "nan"}) {
    set("NCCL_TESTS_ALLTOALLV_SPREAD", wrong);
    EXPECT_EQ(read_environment().error,
              std::string("NCCL_TESTS_ALLTOALLV_SPREAD=") + wrong + ": a number from 0 to 1 expected");
  }
}

TEST(BindThread, counts_round_and_round_over_the_allowed_cpus) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int cpus = CPU_COUNT(&allowed);
  int first = -1;
  for (int index : {0, cpus, 2 * cpus}) {
    int cpu = -1, count = 0;
    std::thread([&] {
      bind_thread(index);
      cpu_set_t own;
      if (sched_getaffinity(0, sizeof own, &own) == 0) count = CPU_COUNT(&own);
      cpu = sched_getcpu();
    }).join();
    EXPECT_EQ(count, 1);
    EXPECT_TRUE(CPU_ISSET(cpu, &allowed));
    if (first < 0) first = cpu;
    EXPECT_EQ(cpu, first);
  }
}

TEST(GroupOf, all_operations) {
  EXPECT_EQ(group_of("", 5), 0);
  EXPECT_EQ(group_of("AND 0x3", 5), 1);
  EXPECT_EQ(group_of("&0b100", 5), 4);
  EXPECT_EQ(group_of("OR2", 5), 7);
  EXPECT_EQ(group_of("|8", 5), 13);
  EXPECT_EQ(group_of("MOD 2", 5), 1);
  EXPECT_EQ(group_of("%3", 5), 2);
  EXPECT_EQ(group_of("DIV 2", 5), 2);
  EXPECT_EQ(group_of("/4", 5), 1);
  for (const char* wrong : {"MOD", "MOD 0", "/0", "XOR 1", "MOD two", "%"}) EXPECT_FALSE(group_of(wrong, 1)) << wrong;
}

}  // namespace
}  // namespace tutti::perf
