// SPDX-License-Identifier: Apache-2.0
// Limits of control groups. A process is in one group per v1 hierarchy ("4:memory:/a/b") and in one of v2 ("0::/a/b");
// every level up to the mount may limit, so the tightest counts. Inside a container the path is often that of the host
// and its folders are not there: then only the mount itself, which is the container's own group, can be read.
#include <algorithm>
#include <string_view>

#include "src/base/text.h"
#include "src/facts/machine.h"

namespace tutti::core {

namespace {

struct CgroupPlace {
  bool is_v2 = false;
  std::vector<std::string> folders;  // innermost first, the mount last
};

std::vector<std::string> folders_up_to(const std::string& mount, std::string_view path) {
  std::vector<std::string> folders;
  std::string rest(path);
  while (!rest.empty() && rest != "/") {
    folders.push_back(mount + rest);
    rest.resize(rest.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

Result<CgroupPlace> find_cgroup(const FactReader& reader, std::string_view controller) {
  TUTTI_TRY(text, reader.read("/proc/self/cgroup"));
  std::optional<std::string> v2_path;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      v2_path = path;
      continue;
    }
    const std::vector<std::string_view> names = split(controllers, ',');
    if (std::find(names.begin(), names.end(), controller) == names.end()) continue;
    // Mounted as "cpu,cpuacct", with a link "cpu", or as "cpu" alone.
    std::string mount = "/sys/fs/cgroup/" + std::string(controllers);
    if (!reader.exists(mount)) mount = "/sys/fs/cgroup/" + std::string(controller);
    return CgroupPlace{false, folders_up_to(mount, path)};
  }
  if (!v2_path) return Status::error(TUTTI_UNAVAILABLE, "could not find a cgroup in /proc/self/cgroup");
  const bool is_unified = reader.exists("/sys/fs/cgroup/cgroup.controllers");
  return CgroupPlace{true, folders_up_to(is_unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified", *v2_path)};
}

/// cpu.max is "200000 100000" or "max 100000".
Limit<double> quota_of_v2(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() != 2) return std::nullopt;
  const std::optional<std::int64_t> quota = parse_int(words[0]);
  const std::optional<std::int64_t> period = parse_int(words[1]);
  if (!quota || !period || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

Limit<double> quota_of(const FactReader& reader, const std::string& folder, bool is_v2) {
  if (is_v2) {
    const Result<std::string> text = reader.read(folder + "/cpu.max");
    return text.is_ok() ? quota_of_v2(text.value()) : std::nullopt;
  }
  const Result<std::int64_t> quota = reader.read_int(folder + "/cpu.cfs_quota_us");
  const Result<std::int64_t> period = reader.read_int(folder + "/cpu.cfs_period_us");
  if (!quota.is_ok() || !period.is_ok() || quota.value() <= 0 || period.value() <= 0) return std::nullopt;  // -1: none
  return static_cast<double>(quota.value()) / static_cast<double>(period.value());
}

Limit<std::int64_t> memory_limit_of(const FactReader& reader, const std::string& folder, bool is_v2) {
  // v1 says "no limit" with the largest multiple of a page, v2 with "max", which is no number.
  constexpr std::int64_t kNone = std::int64_t{1} << 62;
  const Result<std::int64_t> limit = reader.read_int(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit.is_ok() || limit.value() >= kNone) return std::nullopt;
  return limit.value();
}

template <class T>
Fact<Limit<T>> tightest(const FactReader& reader, std::string_view controller,
                        Limit<T> (*limit_of)(const FactReader&, const std::string&, bool)) {
  const Result<CgroupPlace> place = find_cgroup(reader, controller);
  if (!place.is_ok()) return Fact<Limit<T>>::missing("/proc/self/cgroup", place.status());
  Limit<T> result;
  std::string source = place.value().folders.back();
  for (const std::string& folder : place.value().folders) {
    const Limit<T> limit = limit_of(reader, folder, place.value().is_v2);
    if (!limit || (result && *result <= *limit)) continue;
    result = limit;
    source = folder;
  }
  return {result, source};
}

}  // namespace

Fact<Limit<double>> read_cpu_quota(const FactReader& reader) { return tightest<double>(reader, "cpu", quota_of); }

Fact<Limit<std::int64_t>> read_memory_limit(const FactReader& reader) {
  return tightest<std::int64_t>(reader, "memory", memory_limit_of);
}

}  // namespace tutti::core
