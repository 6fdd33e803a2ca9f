// SPDX-License-Identifier: Apache-2.0
#include "src/cli/topo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/facts/fake_machine.h"

namespace tutti::core::testing {
namespace {

using ::testing::HasSubstr;

MachineFacts server_facts() {
  FakeMachine machine;
  machine.add_two_socket_server();
  return collect_machine_facts(FactReader(machine.root()));
}

TEST(topo, prints_a_server) {
  EXPECT_EQ(topo_text(server_facts()),
            "machine   node-a, Linux 6.1.0\n"
            "cpu       Example CPU 9000, 4 CPUs online, 3 allowed (0-2), CPU quota 2.50 CPUs, several threads a core\n"
            "caches    L1d 48 KiB for CPUs 0,2\n"
            "numa      node 0: CPUs 0,2, 32 GiB, distances 10 21\n"
            "          node 1: CPUs 1,3, 32 GiB, distances 21 10\n"
            "memory    64 GiB, 48 GiB available, cgroup limit 16 GiB; huge pages: madvise, in shared memory: advise\n"
            "gpus      2 x NVIDIA H100 80GB HBM3 (10de:2330, driver nvidia), NUMA nodes 0-1\n"
            "networks  eth0 up, 100 Gb/s, mtu 9000, mlx5_core, NUMA node 1\n"
            "          1 virtual: br0 down\n"
            "rdma      mlx5_0 port 1 ACTIVE, 400 Gb/sec (4X NDR), InfiniBand, NUMA node 0\n");
}

TEST(topo, prints_one_line) {
  EXPECT_EQ(
      topo_brief(server_facts()),
      "node-a: Example CPU 9000, 3 of 4 CPUs, CPU quota 2.50 CPUs, 2 NUMA nodes, 64 GiB, 2 x NVIDIA H100 80GB HBM3 "
      "(10de:2330, driver nvidia), NUMA nodes 0-1, 1 RDMA port\n");
}

TEST(topo, says_what_it_could_not_read) {
  const FakeMachine empty;
  const std::string page = topo_text(collect_machine_facts(FactReader(empty.root())));
  EXPECT_THAT(page, HasSubstr("machine   host name unknown, Linux version unknown\n"));
  EXPECT_THAT(page, HasSubstr("unknown   could not read /proc/sys/kernel/hostname: No such file or directory\n"));
}

TEST(topo, json_has_values_sources_and_problems) {
  FakeMachine machine;
  machine.file("/proc/sys/kernel/hostname", "odd\xffname");
  const auto page = nlohmann::json::parse(topo_json(collect_machine_facts(FactReader(machine.root()))));
  EXPECT_EQ(page.at("host_name").at("value"), "odd\xef\xbf\xbdname");
  EXPECT_EQ(page.at("host_name").at("source"), "/proc/sys/kernel/hostname");
  EXPECT_THAT(page.at("kernel").at("problem").get<std::string>(), HasSubstr("could not read"));
  const auto server = nlohmann::json::parse(topo_json(server_facts()));
  EXPECT_EQ(server.at("gpus").at("value").size(), 2U);
  EXPECT_EQ(server.at("cpu_quota").at("value"), 2.5);
  EXPECT_EQ(server.at("networks").at("value").at(0).at("megabits"), nullptr);
}

}  // namespace
}  // namespace tutti::core::testing
