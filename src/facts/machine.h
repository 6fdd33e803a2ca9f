// SPDX-License-Identifier: Apache-2.0
// What this machine is: the facts that topology, doctor and explain start from. Read from /proc and /sys alone, in
// milliseconds, without privileges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/facts/fact.h"
#include "src/facts/reader.h"

namespace tutti::core {

/// A limit that may be absent.
template <class T>
using Limit = std::optional<T>;

struct CacheFacts {
  int level = 0;
  std::string type;  // Data, Instruction, Unified
  std::int64_t bytes = 0;
  std::vector<int> shared_cpus;
};

struct NumaNodeFacts {
  int node = 0;
  std::vector<int> cpus;
  std::int64_t memory_bytes = 0;  // 0: not told
  std::vector<int> distances;     // to every node, as the firmware claims
};

/// A PCI device of class 0x03 (display, 3D).
struct GpuFacts {
  std::string address;  // 0000:65:00.0
  std::string vendor;   // "NVIDIA", or the number
  std::string id;       // 10de:2330
  std::string model;    // "" when the driver does not tell
  std::string driver;   // "" when none is bound
  int numa_node = -1;   // -1: not told
};

struct NetworkFacts {
  std::string name;
  std::string state;  // operstate: up, down, unknown
  std::string driver;
  std::string speed_problem;     // why there is no speed
  Limit<std::int64_t> megabits;  // nullopt: not told (virtual devices, no carrier)
  std::int64_t mtu = 0;
  int numa_node = -1;
  bool is_loopback = false;
  bool is_virtual = false;  // no device behind it: bridge, ifb, tunnel, veth
};

struct RdmaPortFacts {
  std::string device;
  int port = 0;
  std::string state;       // ACTIVE, DOWN, INIT, ARMED
  std::string rate;        // "400 Gb/sec (4X NDR)"
  std::string link_layer;  // InfiniBand, Ethernet
  int numa_node = -1;
};

struct MachineFacts {
  Fact<std::string> host_name;
  Fact<std::string> kernel;
  Fact<std::string> boot_id;
  Fact<std::string> cpu_model;
  Fact<std::vector<int>> online_cpus;
  Fact<std::vector<int>> allowed_cpus;   // affinity, which the cgroup's cpuset limits
  Fact<Limit<double>> cpu_quota;         // CPUs' worth of time that the cgroups allow
  Fact<bool> smt;                        // two threads a core in use
  Fact<std::vector<CacheFacts>> caches;  // of the first allowed CPU
  Fact<std::vector<NumaNodeFacts>> numa_nodes;
  Fact<std::int64_t> memory_bytes;
  Fact<std::int64_t> available_bytes;
  Fact<Limit<std::int64_t>> memory_limit;  // of the cgroups
  Fact<std::string> huge_pages;            // always, madvise, never
  Fact<std::string> shared_huge_pages;     // for memfd and /dev/shm
  Fact<std::vector<GpuFacts>> gpus;
  Fact<std::vector<NetworkFacts>> networks;
  Fact<std::vector<RdmaPortFacts>> rdma_ports;
};

/// Calls visit(name, fact) for every member above.
template <class Visitor>
void for_each_fact(const MachineFacts& facts, Visitor&& visit) {
#define TUTTI_VISIT_FACT(name) visit(#name, facts.name)
  TUTTI_VISIT_FACT(host_name);
  TUTTI_VISIT_FACT(kernel);
  TUTTI_VISIT_FACT(boot_id);
  TUTTI_VISIT_FACT(cpu_model);
  TUTTI_VISIT_FACT(online_cpus);
  TUTTI_VISIT_FACT(allowed_cpus);
  TUTTI_VISIT_FACT(cpu_quota);
  TUTTI_VISIT_FACT(smt);
  TUTTI_VISIT_FACT(caches);
  TUTTI_VISIT_FACT(numa_nodes);
  TUTTI_VISIT_FACT(memory_bytes);
  TUTTI_VISIT_FACT(available_bytes);
  TUTTI_VISIT_FACT(memory_limit);
  TUTTI_VISIT_FACT(huge_pages);
  TUTTI_VISIT_FACT(shared_huge_pages);
  TUTTI_VISIT_FACT(gpus);
  TUTTI_VISIT_FACT(networks);
  TUTTI_VISIT_FACT(rdma_ports);
#undef TUTTI_VISIT_FACT
}

MachineFacts collect_machine_facts(const FactReader& reader);

/// The limits that the cgroups of this process set, v1 and v2, the tightest of all levels.
Fact<Limit<double>> read_cpu_quota(const FactReader& reader);
Fact<Limit<std::int64_t>> read_memory_limit(const FactReader& reader);

/// The devices behind `collect_machine_facts`, in the order of their names.
Fact<std::vector<GpuFacts>> read_gpus(const FactReader& reader);
Fact<std::vector<NetworkFacts>> read_networks(const FactReader& reader);
Fact<std::vector<RdmaPortFacts>> read_rdma_ports(const FactReader& reader);

}  // namespace tutti::core
