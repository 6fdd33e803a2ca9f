// SPDX-License-Identifier: Apache-2.0
#include "src/comm/cost_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/text.h"
#include "src/base/unique_fd.h"
#include "tutti/tutti.h"

namespace tutti::core {

namespace {

/// The choices of the knob `cost`, in its order.
enum CostSource : int { kMeasured, kDocumented, kFile };

constexpr std::string_view kMagic = "tutti-cost 1";
constexpr std::size_t kMostBytes = 4096;  // a table is a tenth of that
constexpr std::int64_t kMostAgeSeconds = std::int64_t{30} * 24 * 3600;

std::string library_version() {
  return text_format("%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

std::string hexadecimal(std::uint64_t value) { return text_format("%016llx", static_cast<unsigned long long>(value)); }

Status damaged(const std::string& why) { return Status::error(TUTTI_INVALID_ARGUMENT, why); }

/// Shortest text that reads back as the same bits, whatever the locale.
std::string number_text(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

std::string time_text(std::int64_t seconds) {
  const time_t when = static_cast<time_t>(seconds);
  tm parts{};
  char text[32];
  if (!gmtime_r(&when, &parts) || strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
    return "at an unknown time";
  return text;
}

/// "key value" lines by key. Errors: a line without a value, a key twice.
Result<std::map<std::string_view, std::string_view>> read_lines(std::string_view text) {
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return damaged("a line without a value");
    if (!values.emplace(line.substr(0, space), line.substr(space + 1)).second)
      return damaged("\"" + std::string(line.substr(0, space)) + "\" stands there twice");
  }
  return values;
}

std::string read_all(int fd) {
  std::string text(kMostBytes, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// The folders above `path`, as far as they are missing.
void make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    ::mkdir(path.substr(0, slash).c_str(), 0700);  // what fails here, open reports
}

CostTable measured_table(const CostProbe& probe) {
  CostTable table;
  table.constants = probe.constants;
  table.measured_at_s = wall_ns() / 1'000'000'000;
  table.origin = text_format("measured %s in %.1f ms", time_text(table.measured_at_s).c_str(), probe.took_ms);
  if (!probe.complete) table.origin += " (" + probe.note + "; not kept)";
  return table;
}

}  // namespace

std::uint64_t machine_hash() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string facts = library_version() + "\n" + host + "\n" + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) {
      facts += "\n" + line;
      break;
    }
#ifndef __OPTIMIZE__
  facts += "\nnot optimised";
#endif
#ifdef __SANITIZE_THREAD__
  facts += "\nthread sanitizer";
#endif
#ifdef __SANITIZE_ADDRESS__
  facts += "\naddress sanitizer";
#endif
  return hash_text(facts);
}

std::string format_cost_table(const CostTable& table) {
  std::string text = std::string(kMagic) + "\nlibrary " + library_version() + "\nmachine " +
                     hexadecimal(machine_hash()) + "\nmeasured " + std::to_string(table.measured_at_s) + "\n";
  for (const CostTerm& term : cost_terms())
    text += std::string(term.name) + " " + number_text(table.constants.*term.value) + "\n";
  return text + "hash " + hexadecimal(table.hash()) + "\norigin " + table.origin + "\n";
}

Result<CostTable> parse_cost_table(std::string_view text, CostTableUse use) {
  if (text.size() >= kMostBytes) return damaged("longer than any table");
  TUTTI_TRY(values, read_lines(text));
  const std::size_t space = kMagic.find(' ');
  if (values[kMagic.substr(0, space)] != kMagic.substr(space + 1)) return damaged("not a cost table of this format");
  if (values["library"] != library_version())
    return damaged("made by version \"" + std::string(values["library"]) + "\", this is " + library_version());
  if (use == CostTableUse::cache && values["machine"] != hexadecimal(machine_hash()))
    return damaged("another machine's or build's");
  CostTable table;
  for (const CostTerm& term : cost_terms())
    if (!read_number(values[term.name], table.constants.*term.value))
      return damaged(std::string(term.name) + " is missing or not a number");
  CostConstants plausible = table.constants;
  if (make_plausible(plausible) != 0) return damaged("a constant is not plausible");
  if (!read_number(values["measured"], table.measured_at_s) || table.measured_at_s < 0)
    return damaged("the time of the measurement is missing");
  const std::int64_t age = wall_ns() / 1'000'000'000 - table.measured_at_s;
  if (use == CostTableUse::cache && (age < 0 || age > kMostAgeSeconds))
    return damaged("measured " + time_text(table.measured_at_s) + ", which is not within the last 30 days");
  if (values["hash"] != hexadecimal(table.hash()))
    return damaged("its hash is " + hexadecimal(table.hash()) + ", written is \"" + std::string(values["hash"]) + "\"");
  table.origin = std::string(values["origin"]);
  if (table.origin.empty()) return damaged("its origin is missing");
  return table;
}

std::string cost_file_path(const Config& config) {
  if (!config.cost_file().empty()) return config.cost_file();
  const std::string name = "/tutti/cost-" + hexadecimal(machine_hash()) + ".txt";
  // The specification of these folders: a path that is not absolute is invalid and ignored.
  if (const auto cache = environment_value("XDG_CACHE_HOME"); cache && cache->rfind('/', 0) == 0) return *cache + name;
  if (const auto home = environment_value("HOME"); home && home->rfind('/', 0) == 0) return *home + "/.cache" + name;
  return "";
}

Result<CostTable> read_cost_file(const std::string& path, CostTableUse use) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR || path.empty())
      return Status::error(TUTTI_UNAVAILABLE, "there is no file " + path);
    return damaged(path + ": " + std::strerror(errno));
  }
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return damaged(path + ": not a file");
  if (facts.st_uid != ::geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return damaged(path + ": another user owns it or may write it");
  auto table = parse_cost_table(read_all(fd.get()), use);
  if (!table.is_ok()) return Status(table.status()).with_context(path);
  table->origin = path + ", measured " + time_text(table->measured_at_s);
  return table;
}

Status write_cost_file(const std::string& path, const CostTable& table) {
  make_folders(path);
  const std::string temporary =
      path + text_format(".%ld.%llx", static_cast<long>(::getpid()), static_cast<unsigned long long>(monotonic_ns()));
  Status status;
  {
    const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return Status::error(TUTTI_UNAVAILABLE, temporary + ": " + std::strerror(errno));
    if (!write_all(fd.get(), format_cost_table(table)))
      status = Status::error(TUTTI_UNAVAILABLE, temporary + ": " + std::strerror(errno));
  }
  if (status.is_ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = Status::error(TUTTI_UNAVAILABLE, path + ": " + std::strerror(errno));
  if (!status.is_ok()) ::unlink(temporary.c_str());
  return status;
}

bool measures_cost(const Config& config) {
  return config.reproducible_index() == 0 && config.cost_index() == kMeasured;
}

Result<CostTable> find_cost_table(const Config& config, CostProbe (*measure)(const CostProbeLimits&)) {
  CostTable table;
  if (config.reproducible_index() != 0) {
    table.origin += ", as reproducible results want it";
    return table;
  }
  const int source = config.cost_index();
  if (source == kDocumented) return table;
  const std::string path = cost_file_path(config);
  auto kept = read_cost_file(path, source == kFile ? CostTableUse::named : CostTableUse::cache);
  if (kept.is_ok()) return kept;
  if (source == kFile)
    return Status(kept.status())
        .with_context("cost=file")
        .with_remedy(
            "TUTTI_COST_FILE names a table written by this version of the library; TUTTI_COST=measured "
            "writes one there");
  const int rank = config.rank();
  if (kept.status().code() != TUTTI_UNAVAILABLE)
    TUTTI_LOG(warn, rank, "cost table ignored, measuring anew", {"why", kept.status().message()});
  const CostProbe probe = measure(CostProbeLimits{});
  table = measured_table(probe);
  if (!probe.complete) {
    TUTTI_LOG(debug, rank, "cost table not kept", {"why", probe.note});
  } else if (path.empty()) {
    TUTTI_LOG(debug, rank, "cost table not kept", {"why", "neither XDG_CACHE_HOME nor HOME is set"});
  } else if (const Status written = write_cost_file(path, table); !written.is_ok()) {
    TUTTI_LOG(debug, rank, "cost table not kept", {"why", written.message()});
  }
  return table;
}

CostTable inherited_cost_table(const Config& config, const CostTable& parent) {
  if (config.reproducible_index() == 0 && config.cost_index() != kDocumented) return parent;
  return find_cost_table(config).value();  // neither file nor measurement, hence no error
}

Status compare_selection(std::uint64_t rank_0, std::uint64_t other, int other_rank) {
  if (rank_0 == other) return {};
  return Status::error(TUTTI_MISMATCH,
                       "the libraries of the ranks have other algorithms: their hash is " + hexadecimal(rank_0) +
                           " on rank 0 and " + hexadecimal(other) + " on rank " + std::to_string(other_rank),
                       other_rank)
      .with_remedy("run the same build of Tutti on all ranks");
}

Status compare_cost(std::uint64_t first, int first_rank, std::uint64_t other, int other_rank) {
  if (first == other) return {};
  return Status::error(TUTTI_MISMATCH,
                       "the cost tables of the ranks differ: the hash is " + hexadecimal(first) + " on rank " +
                           std::to_string(first_rank) + " and " + hexadecimal(other) + " on rank " +
                           std::to_string(other_rank),
                       other_rank)
      .with_remedy("give all ranks of the group the same settings of cost and reproducible");
}

}  // namespace tutti::core
