// SPDX-License-Identifier: Apache-2.0
#include "perf/common/environment.h"

#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace tutti::perf {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// Decimal, 0x or 0b; the whole text.
std::optional<uint64_t> whole_number(const std::string& text) {
  const bool binary = text.rfind("0b", 0) == 0 || text.rfind("0B", 0) == 0;
  const std::string digits = binary ? text.substr(2) : text;
  if (digits.empty() || std::isxdigit(static_cast<unsigned char>(digits[0])) == 0) return std::nullopt;
  char* end = nullptr;
  const uint64_t value = std::strtoull(digits.c_str(), &end, binary ? 2 : 0);
  if (*end != '\0') return std::nullopt;
  return value;
}

int rank_variable(const char* name, int fallback, int low, std::string& error) {
  const char* text = variable(name);
  if (text == nullptr) return fallback;
  const std::optional<uint64_t> value = whole_number(text);
  if (!value || *value < static_cast<uint64_t>(low) || *value > 1u << 24) {
    error = std::string(name) + "=" + text + ": a number from " + std::to_string(low) +
            " expected (the launcher sets it; unset it to run without one)";
    return fallback;
  }
  return static_cast<int>(*value);
}

/// Reads a number in [low, high] into `value` if the variable is there.
void number_variable(const char* name, double low, double high, double& value, std::string& error) {
  const char* text = variable(name);
  if (text == nullptr) return;
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  if (*end == '\0' && number >= low && number <= high) {
    value = number;
    return;
  }
  char range[80];
  std::snprintf(range, sizeof range, "a number from %g to %g expected", low, high);
  error = std::string(name) + "=" + text + ": " + range;
}

TrafficSettings read_traffic(std::string& error) {
  TrafficSettings traffic;
  number_variable("NCCL_TESTS_ALLTOALLV_SPREAD", 0, 1, traffic.spread, error);
  number_variable("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 0, 1e15, traffic.scale, error);
  double summary = 0;
  number_variable("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", 0, 1, summary, error);
  traffic.summary = summary != 0;
  if (const char* file = variable("NCCL_TESTS_ALLTOALLV_MATRIX_FILE")) traffic.matrix_file = file;
  return traffic;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.launched =
      variable("TUTTI_UNIQUE_ID") != nullptr && variable("RANK") != nullptr && variable("WORLD_SIZE") != nullptr;
  if (environment.launched) {
    environment.process = rank_variable("RANK", 0, 0, environment.error);
    environment.processes = rank_variable("WORLD_SIZE", 1, 1, environment.error);
    environment.local_process = rank_variable("LOCAL_RANK", environment.process, 0, environment.error);
    environment.local_processes = rank_variable("LOCAL_WORLD_SIZE", environment.processes, 1, environment.error);
    if (environment.error.empty() && environment.process >= environment.processes)
      environment.error = "RANK=" + std::to_string(environment.process) +
                          " must be below WORLD_SIZE=" + std::to_string(environment.processes);
  }
  environment.first_device = rank_variable("NCCL_TESTS_DEVICE", -1, 0, environment.error);
  environment.traffic = read_traffic(environment.error);
  if (const char* text = variable("NCCL_TESTS_MIN_BW")) {
    char* end = nullptr;
    environment.minimum_bandwidth = std::strtod(text, &end);
    if (end == text || *end != '\0') environment.error = std::string("NCCL_TESTS_MIN_BW=") + text + ": GB/s expected";
  }
  if (const char* text = variable("NCCL_TESTS_SPLIT")) environment.split = text;
  if (const char* mask = variable("NCCL_TESTS_SPLIT_MASK")) {
    const std::string digits = mask;
    environment.split = (digits.rfind("0x", 0) == 0 || digits.rfind("0X", 0) == 0) ? "&" + digits : "&0x" + digits;
  }
  if (!group_of(environment.split, 0))
    environment.error = "NCCL_TESTS_SPLIT: '" + environment.split +
                        "' is none of AND|& OR|| MOD|% DIV|/ followed by a number (decimal, 0x or 0b)";
  return environment;
}

std::optional<int> group_of(const std::string& split, int process) {
  if (split.empty()) return 0;
  static const struct {
    const char* name;
    char operation;
  } kOperations[] = {{"AND", '&'}, {"OR", '|'}, {"MOD", '%'}, {"DIV", '/'},
                     {"&", '&'},   {"|", '|'},  {"%", '%'},   {"/", '/'}};
  for (const auto& candidate : kOperations) {
    const std::string name = candidate.name;
    if (split.rfind(name, 0) != 0) continue;
    const size_t start = split.find_first_not_of(' ', name.size());
    if (start == std::string::npos) return std::nullopt;
    const std::optional<uint64_t> value = whole_number(split.substr(start));
    if (!value || (*value == 0 && (candidate.operation == '%' || candidate.operation == '/'))) return std::nullopt;
    const auto rank = static_cast<uint64_t>(process);
    uint64_t colour = 0;
    switch (candidate.operation) {
      case '&': colour = rank & *value; break;
      case '|': colour = rank | *value; break;
      case '%': colour = rank % *value; break;
      default: colour = rank / *value; break;
    }
    return static_cast<int>(colour & static_cast<uint64_t>(std::numeric_limits<int>::max()));
  }
  return std::nullopt;
}

void bind_thread(int index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;  // more CPUs than the set holds: leave it
  int wanted = index % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kilobytes = 0; file >> name >> kilobytes;) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return 0;
}

uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace tutti::perf
