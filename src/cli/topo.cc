// SPDX-License-Identifier: Apache-2.0
#include "src/cli/topo.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "src/base/text.h"

namespace tutti::core {

namespace {

constexpr std::size_t kNamedVirtual = 6;  // a container host has hundreds

std::string size_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  const bool is_whole = value == static_cast<double>(static_cast<std::int64_t>(value));
  return text_format(is_whole ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::string text_or_unknown(const Fact<std::string>& fact, const char* what) {
  return fact.is_known() ? *fact : std::string(what) + " unknown";
}

std::string size_or_unknown(const Fact<std::int64_t>& fact, const char* what) {
  return fact.is_known() ? size_text(*fact) : std::string(what) + " unknown";
}

std::string quota_text(const MachineFacts& facts) {
  if (!facts.cpu_quota.is_known()) return "CPU quota unknown";
  if (!*facts.cpu_quota) return "no CPU quota";
  return text_format("CPU quota %.2f CPUs", **facts.cpu_quota);
}

std::string cpu_line(const MachineFacts& facts) {
  std::vector<std::string> parts{text_or_unknown(facts.cpu_model, "model")};
  if (facts.online_cpus.is_known()) parts.push_back(counted(facts.online_cpus->size(), "CPU") + " online");
  if (facts.allowed_cpus.is_known())
    parts.push_back(std::to_string(facts.allowed_cpus->size()) + " allowed (" + number_list_text(*facts.allowed_cpus) +
                    ")");
  parts.push_back(quota_text(facts));
  if (facts.smt.is_known()) parts.push_back(*facts.smt ? "several threads a core" : "one thread a core");
  return joined(parts, ", ");
}

std::string cache_line(const MachineFacts& facts) {
  if (!facts.caches.is_known()) return "unknown";
  std::vector<std::string> parts;
  for (const CacheFacts& cache : *facts.caches) {
    std::string text = "L" + std::to_string(cache.level);
    if (cache.type == "Data") text += "d";
    if (cache.type == "Instruction") text += "i";
    text += " " + size_text(cache.bytes);
    if (cache.shared_cpus.size() > 1) text += " for CPUs " + number_list_text(cache.shared_cpus);
    parts.push_back(std::move(text));
  }
  return parts.empty() ? "not told" : joined(parts, ", ");
}

std::vector<std::string> numa_lines(const MachineFacts& facts) {
  if (!facts.numa_nodes.is_known()) return {"unknown"};
  std::vector<std::string> lines;
  for (const NumaNodeFacts& node : *facts.numa_nodes) {
    std::string text = "node " + std::to_string(node.node) + ": ";
    text += node.cpus.empty() ? "no CPUs" : "CPUs " + number_list_text(node.cpus);
    if (node.memory_bytes > 0) text += ", " + size_text(node.memory_bytes);
    if (node.distances.size() > 1) {
      text += ", distances";
      for (const int distance : node.distances) text += " " + std::to_string(distance);
    }
    lines.push_back(std::move(text));
  }
  return lines;
}

std::string memory_line(const MachineFacts& facts) {
  std::string text = size_or_unknown(facts.memory_bytes, "size") + ", " +
                     size_or_unknown(facts.available_bytes, "available") + " available, ";
  if (!facts.memory_limit.is_known()) {
    text += "cgroup limit unknown";
  } else {
    text += *facts.memory_limit ? "cgroup limit " + size_text(**facts.memory_limit) : "no cgroup limit";
  }
  return text + "; huge pages: " + text_or_unknown(facts.huge_pages, "setting") +
         ", in shared memory: " + text_or_unknown(facts.shared_huge_pages, "setting");
}

/// Equal ones together: "8 x NVIDIA H100 (10de:2330, driver nvidia), NUMA nodes 0-1".
std::vector<std::string> gpu_lines(const MachineFacts& facts) {
  if (!facts.gpus.is_known()) return {"unknown"};
  std::map<std::string, std::vector<const GpuFacts*>> kinds;
  for (const GpuFacts& gpu : *facts.gpus) {
    const std::string model = gpu.model.empty() || gpu.model.starts_with(gpu.vendor) ? gpu.model : " " + gpu.model;
    const std::string name = gpu.model.starts_with(gpu.vendor) ? gpu.model : gpu.vendor + model;
    const std::string driver = gpu.driver.empty() ? "no driver" : "driver " + gpu.driver;
    kinds[name + " (" + gpu.id + ", " + driver + ")"].push_back(&gpu);
  }
  std::vector<std::string> lines;
  for (const auto& [kind, gpus] : kinds) {
    std::vector<int> nodes;
    for (const GpuFacts* gpu : gpus)
      if (gpu->numa_node >= 0) nodes.push_back(gpu->numa_node);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    std::string text = std::to_string(gpus.size()) + " x " + kind;
    if (!nodes.empty()) text += (nodes.size() > 1 ? ", NUMA nodes " : ", NUMA node ") + number_list_text(nodes);
    lines.push_back(std::move(text));
  }
  return lines.empty() ? std::vector<std::string>{"none"} : lines;
}

std::string network_text(const NetworkFacts& network) {
  std::string text = network.name + " " + network.state;
  if (network.megabits) text += text_format(", %g Gb/s", static_cast<double>(*network.megabits) / 1000);
  text += ", mtu " + std::to_string(network.mtu);
  if (!network.driver.empty()) text += ", " + network.driver;
  if (network.numa_node >= 0) text += ", NUMA node " + std::to_string(network.numa_node);
  return text;
}

std::vector<std::string> network_lines(const MachineFacts& facts) {
  if (!facts.networks.is_known()) return {"unknown"};
  std::vector<std::string> lines;
  std::vector<std::string> virtual_ones;
  for (const NetworkFacts& network : *facts.networks) {
    if (network.is_loopback) continue;
    if (network.is_virtual) {
      virtual_ones.push_back(network.name + " " + network.state);
    } else {
      lines.push_back(network_text(network));
    }
  }
  const std::size_t count = virtual_ones.size();
  if (count > kNamedVirtual) {
    virtual_ones.resize(kNamedVirtual);
    virtual_ones.push_back("...");
  }
  if (count > 0) lines.push_back(std::to_string(count) + " virtual: " + joined(virtual_ones, ", "));
  return lines.empty() ? std::vector<std::string>{"none"} : lines;
}

std::vector<std::string> rdma_lines(const MachineFacts& facts) {
  if (!facts.rdma_ports.is_known()) return {"unknown"};
  std::vector<std::string> lines;
  for (const RdmaPortFacts& port : *facts.rdma_ports) {
    std::string text = port.device + " port " + std::to_string(port.port) + " " + port.state + ", " + port.rate + ", " +
                       port.link_layer;
    if (port.numa_node >= 0) text += ", NUMA node " + std::to_string(port.numa_node);
    lines.push_back(std::move(text));
  }
  return lines.empty() ? std::vector<std::string>{"none"} : lines;
}

template <class T>
void add_problem(std::vector<std::string>& problems, const Fact<T>& fact) {
  if (fact.is_known()) return;
  // One unreadable file may hide several facts.
  if (std::find(problems.begin(), problems.end(), fact.problem()) == problems.end()) problems.push_back(fact.problem());
}

void append_section(std::string& page, const char* label, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    page += text_format("%-9s ", label) + line + "\n";
    label = "";
  }
}

struct Options {
  std::string root;
  bool brief = false;
  bool json = false;
};

int print_topo(const Options& options) {
  const MachineFacts facts = collect_machine_facts(FactReader(options.root));
  const std::string text = options.json ? topo_json(facts) : options.brief ? topo_brief(facts) : topo_text(facts);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

std::string topo_text(const MachineFacts& facts) {
  std::string page;
  append_section(
      page, "machine",
      {text_or_unknown(facts.host_name, "host name") + ", Linux " + text_or_unknown(facts.kernel, "version")});
  append_section(page, "cpu", {cpu_line(facts)});
  append_section(page, "caches", {cache_line(facts)});
  append_section(page, "numa", numa_lines(facts));
  append_section(page, "memory", {memory_line(facts)});
  append_section(page, "gpus", gpu_lines(facts));
  append_section(page, "networks", network_lines(facts));
  append_section(page, "rdma", rdma_lines(facts));
  std::vector<std::string> problems;
  for_each_fact(facts, [&](const char*, const auto& fact) { add_problem(problems, fact); });
  append_section(page, "unknown", problems);
  return page;
}

std::string topo_brief(const MachineFacts& facts) {
  std::vector<std::string> parts;
  if (facts.allowed_cpus.is_known() && facts.online_cpus.is_known())
    parts.push_back(std::to_string(facts.allowed_cpus->size()) + " of " + counted(facts.online_cpus->size(), "CPU"));
  if (facts.cpu_quota.is_known() && *facts.cpu_quota) parts.push_back(quota_text(facts));
  if (facts.numa_nodes.is_known()) parts.push_back(counted(facts.numa_nodes->size(), "NUMA node"));
  if (facts.memory_bytes.is_known()) parts.push_back(size_text(*facts.memory_bytes));
  if (facts.gpus.is_known()) parts.push_back(facts.gpus->empty() ? "no GPU" : joined(gpu_lines(facts), ", "));
  if (facts.rdma_ports.is_known())
    parts.push_back(facts.rdma_ports->empty() ? "no RDMA" : counted(facts.rdma_ports->size(), "RDMA port"));
  return text_or_unknown(facts.host_name, "host name") + ": " + text_or_unknown(facts.cpu_model, "CPU model") + ", " +
         joined(parts, ", ") + "\n";
}

void register_topo(CLI::App& program, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("topo", "Prints what this machine is");
  CLI::Option* brief = command->add_flag("--brief", options->brief, "One line");
  command->add_flag("--json", options->json, "JSON, every fact with the path it was read from")->excludes(brief);
  command->add_option("--root", options->root, "Read proc/ and sys/ below this folder: a recorded machine")
      ->check(CLI::ExistingDirectory);
  command->callback([options, &exit_code] { exit_code = print_topo(*options); });
}

}  // namespace tutti::core
