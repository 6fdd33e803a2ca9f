// SPDX-License-Identifier: Apache-2.0
#include "src/facts/machine.h"

#include <algorithm>

#include "src/base/text.h"

namespace tutti::core {

namespace {

Fact<std::string> read_text(const FactReader& reader, const std::string& path) {
  Result<std::string> text = reader.read(path);
  if (!text.is_ok()) return Fact<std::string>::missing(path, text.status());
  return {std::move(text).value(), path};
}

template <class T>
Fact<T> not_understood(const std::string& path, const std::string& what) {
  return Fact<T>::missing(path, "could not read " + path + ": " + what);
}

/// The value of "key: value" in a file.
Fact<std::string> read_key(const FactReader& reader, const std::string& path, std::string_view key) {
  const Result<std::string> text = reader.read(path);
  if (!text.is_ok()) return Fact<std::string>::missing(path, text.status());
  std::string value = value_of_key(text.value(), key);
  if (value.empty()) return not_understood<std::string>(path, "no line '" + std::string(key) + "'");
  return {std::move(value), path};
}

Fact<std::vector<int>> as_number_list(const Fact<std::string>& text) {
  if (!text.is_known()) return Fact<std::vector<int>>::missing(text.source(), text.problem());
  Result<std::vector<int>> numbers = parse_number_list(*text);
  if (!numbers.is_ok()) return not_understood<std::vector<int>>(text.source(), numbers.status().message());
  return {std::move(numbers).value(), text.source()};
}

/// "24575812 kB" in bytes.
std::optional<std::int64_t> parse_kilobytes(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || trim(text.substr(space)) != "kB") return std::nullopt;
  const std::optional<std::int64_t> kilobytes = parse_int(text.substr(0, space));
  if (!kilobytes) return std::nullopt;
  return *kilobytes * 1024;
}

Fact<std::int64_t> read_kilobytes(const FactReader& reader, const std::string& path, std::string_view key) {
  const Fact<std::string> text = read_key(reader, path, key);
  if (!text.is_known()) return Fact<std::int64_t>::missing(path, text.problem());
  const std::optional<std::int64_t> bytes = parse_kilobytes(*text);
  if (!bytes) return not_understood<std::int64_t>(path, "'" + *text + "' is not a size");
  return {*bytes, path};
}

/// The word in brackets: "always [madvise] never".
Fact<std::string> read_choice(const FactReader& reader, const std::string& path) {
  Fact<std::string> text = read_text(reader, path);
  if (!text.is_known()) return text;
  const std::size_t open = text->find('[');
  const std::size_t close = text->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open)
    return not_understood<std::string>(path, "no choice in '" + *text + "'");
  return {text->substr(open + 1, close - open - 1), path};
}

Fact<bool> read_smt(const FactReader& reader) {
  const std::string path = "/sys/devices/system/cpu/smt/active";
  const Result<std::int64_t> active = reader.read_int(path);
  if (!active.is_ok()) return Fact<bool>::missing(path, active.status());
  return {active.value() != 0, path};
}

Fact<std::vector<CacheFacts>> read_caches(const FactReader& reader, int cpu) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache";
  const Result<std::vector<std::string>> names = reader.list(folder);
  if (!names.is_ok()) return Fact<std::vector<CacheFacts>>::missing(folder, names.status());
  std::vector<CacheFacts> caches;
  for (const std::string& name : names.value()) {
    if (!name.starts_with("index")) continue;
    const std::string path = folder + "/" + name;
    const Result<std::int64_t> level = reader.read_int(path + "/level");
    const Result<std::string> type = reader.read(path + "/type");
    const Result<std::string> size = reader.read(path + "/size");
    if (!level.is_ok() || !type.is_ok() || !size.is_ok()) continue;  // the kernel leaves out what it does not know
    CacheFacts cache;
    cache.level = static_cast<int>(level.value());
    cache.type = type.value();
    cache.bytes = parse_bytes(size.value()).value_or(0);
    const Fact<std::vector<int>> cpus = as_number_list(read_text(reader, path + "/shared_cpu_list"));
    if (cpus.is_known()) cache.shared_cpus = *cpus;
    caches.push_back(std::move(cache));
  }
  return {std::move(caches), folder};
}

Fact<std::vector<NumaNodeFacts>> read_numa_nodes(const FactReader& reader) {
  const std::string folder = "/sys/devices/system/node";
  const Fact<std::vector<int>> online = as_number_list(read_text(reader, folder + "/online"));
  if (!online.is_known()) return Fact<std::vector<NumaNodeFacts>>::missing(folder + "/online", online.problem());
  std::vector<NumaNodeFacts> nodes;
  for (const int number : *online) {
    const std::string path = folder + "/node" + std::to_string(number);
    NumaNodeFacts node;
    node.node = number;
    const Fact<std::vector<int>> cpus = as_number_list(read_text(reader, path + "/cpulist"));
    if (cpus.is_known()) node.cpus = *cpus;
    const Fact<std::int64_t> memory =
        read_kilobytes(reader, path + "/meminfo", "Node " + std::to_string(number) + " MemTotal");
    if (memory.is_known()) node.memory_bytes = *memory;
    const Result<std::string> distances = reader.read(path + "/distance");
    if (distances.is_ok())
      for (const std::string_view word : split(distances.value(), ' '))
        node.distances.push_back(static_cast<int>(parse_int(word).value_or(0)));
    nodes.push_back(std::move(node));
  }
  return {std::move(nodes), folder};
}

}  // namespace

MachineFacts collect_machine_facts(const FactReader& reader) {
  MachineFacts facts;
  facts.host_name = read_text(reader, "/proc/sys/kernel/hostname");
  facts.kernel = read_text(reader, "/proc/sys/kernel/osrelease");
  facts.boot_id = read_text(reader, "/proc/sys/kernel/random/boot_id");
  facts.cpu_model = read_key(reader, "/proc/cpuinfo", "model name");
  facts.online_cpus = as_number_list(read_text(reader, "/sys/devices/system/cpu/online"));
  facts.allowed_cpus = as_number_list(read_key(reader, "/proc/self/status", "Cpus_allowed_list"));
  facts.cpu_quota = read_cpu_quota(reader);
  facts.smt = read_smt(reader);
  const bool has_cpu = facts.allowed_cpus.is_known() && !facts.allowed_cpus->empty();
  facts.caches = read_caches(reader, has_cpu ? facts.allowed_cpus->front() : 0);
  facts.numa_nodes = read_numa_nodes(reader);
  facts.memory_bytes = read_kilobytes(reader, "/proc/meminfo", "MemTotal");
  facts.available_bytes = read_kilobytes(reader, "/proc/meminfo", "MemAvailable");
  facts.memory_limit = read_memory_limit(reader);
  facts.huge_pages = read_choice(reader, "/sys/kernel/mm/transparent_hugepage/enabled");
  facts.shared_huge_pages = read_choice(reader, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  facts.gpus = read_gpus(reader);
  facts.networks = read_networks(reader);
  facts.rdma_ports = read_rdma_ports(reader);
  return facts;
}

}  // namespace tutti::core
