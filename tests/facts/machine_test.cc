// SPDX-License-Identifier: Apache-2.0
#include "src/facts/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/facts/fake_machine.h"

namespace tutti::core::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(machine_facts, of_a_two_socket_server) {
  FakeMachine machine;
  machine.add_two_socket_server();
  const MachineFacts facts = collect_machine_facts(FactReader(machine.root()));
  for_each_fact(facts, [](const char* name, const auto& fact) {
    EXPECT_TRUE(fact.is_known()) << name << ": " << fact.problem();
    EXPECT_THAT(fact.source(), ::testing::StartsWith("/")) << name;
    EXPECT_EQ(fact.problem(), "") << name;
  });
  EXPECT_EQ(*facts.host_name, "node-a");
  EXPECT_EQ(*facts.cpu_model, "Example CPU 9000");
  EXPECT_EQ(facts.cpu_model.source(), "/proc/cpuinfo");
  EXPECT_THAT(*facts.online_cpus, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*facts.allowed_cpus, ElementsAre(0, 1, 2));
  EXPECT_EQ(*facts.cpu_quota, 2.5);
  EXPECT_EQ(facts.cpu_quota.source(), "/sys/fs/cgroup/job");
  EXPECT_TRUE(*facts.smt);
  ASSERT_EQ(facts.caches->size(), 1U);
  EXPECT_EQ(facts.caches->front().bytes, 48 * 1024);
  EXPECT_THAT(facts.caches->front().shared_cpus, ElementsAre(0, 2));
  ASSERT_EQ(facts.numa_nodes->size(), 2U);
  EXPECT_THAT(facts.numa_nodes->at(1).cpus, ElementsAre(1, 3));
  EXPECT_THAT(facts.numa_nodes->at(1).distances, ElementsAre(21, 10));
  EXPECT_EQ(facts.numa_nodes->at(1).memory_bytes, std::int64_t{32} << 30);
  EXPECT_EQ(*facts.memory_bytes, std::int64_t{64} << 30);
  EXPECT_EQ(*facts.available_bytes, std::int64_t{48} << 30);
  EXPECT_EQ(*facts.memory_limit, std::int64_t{16} << 30);
  EXPECT_EQ(*facts.huge_pages, "madvise");
  EXPECT_EQ(*facts.shared_huge_pages, "advise");
}

TEST(machine_facts, devices_of_a_server) {
  FakeMachine machine;
  machine.add_two_socket_server();
  const MachineFacts facts = collect_machine_facts(FactReader(machine.root()));
  ASSERT_EQ(facts.gpus->size(), 2U);  // the host bridge is none
  const GpuFacts& gpu = facts.gpus->at(1);
  EXPECT_EQ(gpu.address, "0000:ca:00.0");
  EXPECT_EQ(gpu.vendor, "NVIDIA");
  EXPECT_EQ(gpu.id, "10de:2330");
  EXPECT_EQ(gpu.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.driver, "nvidia");
  EXPECT_EQ(gpu.numa_node, 1);
  ASSERT_EQ(facts.networks->size(), 3U);  // br0 eth0 lo
  const NetworkFacts& bridge = facts.networks->at(0);
  EXPECT_TRUE(bridge.is_virtual && !bridge.is_loopback && !bridge.megabits);
  EXPECT_EQ(bridge.speed_problem, "the driver does not tell");
  const NetworkFacts& ethernet = facts.networks->at(1);
  EXPECT_TRUE(!ethernet.is_virtual);
  EXPECT_EQ(ethernet.megabits, 100'000);
  EXPECT_EQ(ethernet.mtu, 9000);
  EXPECT_EQ(ethernet.driver, "mlx5_core");
  EXPECT_EQ(ethernet.numa_node, 1);
  EXPECT_TRUE(facts.networks->at(2).is_loopback);
  EXPECT_THAT(facts.networks->at(2).speed_problem, HasSubstr("could not read /sys/class/net/lo/speed: No such file"));
  ASSERT_EQ(facts.rdma_ports->size(), 1U);
  EXPECT_EQ(facts.rdma_ports->front().state, "ACTIVE");
  EXPECT_EQ(facts.rdma_ports->front().rate, "400 Gb/sec (4X NDR)");
  EXPECT_EQ(facts.rdma_ports->front().numa_node, 0);
}

TEST(machine_facts, say_what_could_not_be_read_and_why) {
  const FakeMachine empty;
  const MachineFacts facts = collect_machine_facts(FactReader(empty.root()));
  for_each_fact(facts, [](const char* name, const auto& fact) {
    EXPECT_FALSE(fact.is_known()) << name;
    EXPECT_THAT(fact.problem(), HasSubstr("could not read /")) << name;
    EXPECT_THAT(fact.problem(), HasSubstr("No such file or directory")) << name;
  });
}

TEST(machine_facts, survive_nonsense) {
  FakeMachine machine;
  machine.file("/proc/meminfo", "MemTotal: lots\n").file("/proc/cpuinfo", "");
  machine.file("/proc/self/status", "Cpus_allowed_list:\t3-1\n").file("/sys/devices/system/cpu/smt/active", "maybe\n");
  machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "] always [\n")
      .file("/proc/self/cgroup", "nonsense\n::\n");
  machine.file("/sys/devices/system/node/online", "0-99999999999\n");
  const MachineFacts facts = collect_machine_facts(FactReader(machine.root()));
  EXPECT_THAT(facts.memory_bytes.problem(), HasSubstr("/proc/meminfo: 'lots' is not a size"));
  EXPECT_THAT(facts.cpu_model.problem(), HasSubstr("no line 'model name'"));
  EXPECT_THAT(facts.allowed_cpus.problem(), HasSubstr("'3-1' is not a list"));
  EXPECT_THAT(facts.smt.problem(), HasSubstr("'maybe' is not a number"));
  EXPECT_THAT(facts.huge_pages.problem(), HasSubstr("no choice in"));
  EXPECT_THAT(facts.numa_nodes.problem(), HasSubstr("not a list"));
}

TEST(machine_facts, without_rdma_modules_there_are_no_ports) {
  FakeMachine machine;
  machine.folder("/sys/class");
  const Fact<std::vector<RdmaPortFacts>> ports = read_rdma_ports(FactReader(machine.root()));
  ASSERT_TRUE(ports.is_known());
  EXPECT_THAT(*ports, IsEmpty());
}

TEST(machine_facts, of_this_machine_agree_with_the_system) {
  const MachineFacts facts = collect_machine_facts(FactReader());
  ASSERT_TRUE(facts.online_cpus.is_known()) << facts.online_cpus.problem();
  EXPECT_EQ(facts.online_cpus->size(), static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)));
  ASSERT_TRUE(facts.memory_bytes.is_known()) << facts.memory_bytes.problem();
  EXPECT_GT(*facts.memory_bytes, *facts.available_bytes);
}

// Control groups.

struct CgroupCase {
  const char* name;
  const char* membership;  // /proc/self/cgroup
  std::vector<std::pair<std::string, std::string>> files;
  Limit<double> quota;
};

TEST(cgroup, the_tightest_cpu_quota_of_all_levels_counts) {
  const std::vector<CgroupCase> cases = {
      {"v2 inner",
       "0::/a/b\n",
       {{"cgroup.controllers", "cpu"}, {"a/cpu.max", "400000 100000"}, {"a/b/cpu.max", "150000 100000"}},
       1.5},
      {"v2 outer",
       "0::/a/b\n",
       {{"cgroup.controllers", "cpu"}, {"a/cpu.max", "50000 100000"}, {"a/b/cpu.max", "max 100000"}},
       0.5},
      {"v2 none", "0::/a\n", {{"cgroup.controllers", "cpu"}, {"a/cpu.max", "max 100000"}}, std::nullopt},
      {"v2 container: the host's path is not there",
       "0::/../pod/x\n",
       {{"cgroup.controllers", "cpu"}, {"cpu.max", "300000 100000"}},
       3.0},
      {"v1", "3:cpu:/a\n0::/\n", {{"cpu/a/cpu.cfs_quota_us", "200000"}, {"cpu/a/cpu.cfs_period_us", "100000"}}, 2.0},
      {"v1 two controllers",
       "3:cpu,cpuacct:/a\n",
       {{"cpu,cpuacct/cpu.cfs_quota_us", "70000"}, {"cpu,cpuacct/cpu.cfs_period_us", "100000"}},
       0.7},
      {"v1 none", "3:cpu:/\n", {{"cpu/cpu.cfs_quota_us", "-1"}, {"cpu/cpu.cfs_period_us", "100000"}}, std::nullopt},
      {"hybrid: v1 has the controller",
       "3:cpu:/\n0::/z\n",
       {{"unified/z/cpu.max", "100000 100000"},
        {"cpu/cpu.cfs_quota_us", "400000"},
        {"cpu/cpu.cfs_period_us", "100000"}},
       4.0},
      {"cpuset is another controller", "3:cpuset:/\n0::/\n", {{"cpuset/cpu.cfs_quota_us", "1"}}, std::nullopt},
  };
  for (const CgroupCase& test : cases) {
    FakeMachine machine;
    machine.file("/proc/self/cgroup", test.membership);
    for (const auto& [path, text] : test.files) machine.file("/sys/fs/cgroup/" + path, text + "\n");
    const Fact<Limit<double>> quota = read_cpu_quota(FactReader(machine.root()));
    ASSERT_TRUE(quota.is_known()) << test.name << ": " << quota.problem();
    EXPECT_EQ(*quota, test.quota) << test.name;
  }
}

TEST(cgroup, memory_limits) {
  FakeMachine v1;
  v1.file("/proc/self/cgroup", "4:memory:/a\n");
  v1.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // the way v1 says "none"
  EXPECT_EQ(*read_memory_limit(FactReader(v1.root())), std::nullopt);
  v1.file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(*read_memory_limit(FactReader(v1.root())), std::int64_t{1} << 30);
}

// Lists of numbers.

TEST(number_list, reads_what_the_kernel_writes) {
  EXPECT_THAT(parse_number_list("0-3,8,10-11").value(), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_number_list("").value(), IsEmpty());
  for (const char* wrong : {"a", "1-", "-1", "3-1", "1,,x", "0-99999999999"})
    EXPECT_FALSE(parse_number_list(wrong).is_ok()) << wrong;
}

TEST(number_list, writes_it_back) {
  for (const char* text : {"", "5", "0-3,8,10-11", "0,2,4"})
    EXPECT_EQ(number_list_text(parse_number_list(text).value()), text);
}

}  // namespace
}  // namespace tutti::core::testing
