// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_environment.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace tutti::core {

namespace {
constexpr std::string_view kLauncherVariables[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TUTTI_UNIQUE_ID", "TUTTI_JOB_NAME"};
// The knobs of which the four are aliases: inherited ones would win over them.
constexpr std::string_view kShadowingVariables[] = {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_LOCAL_RANK",
                                                    "TUTTI_LOCAL_WORLD_SIZE"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::size_t kUniqueIdBytes = 128;
constexpr std::size_t kRandomBytes = 16 + 32;  // job id, secret
}  // namespace

bool is_launcher_variable(std::string_view name) {
  return contains(kLauncherVariables, name) || contains(kShadowingVariables, name);
}

Result<std::string> make_unique_id_text() {
  std::array<std::uint8_t, kUniqueIdBytes> bytes{};
  // Up to 256 bytes getrandom() is never cut short by a signal (getrandom(2)), only before the pool is ready.
  ssize_t got = -1;
  do {
    got = getrandom(bytes.data(), kRandomBytes, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(kRandomBytes))
    return Status::from_errno(errno, "cannot get random bytes for the job's unique id (getrandom)");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * kUniqueIdBytes);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<std::string> rank_environment(const std::vector<std::string>& inherited, const RunOptions& options,
                                          const std::string& unique_id, int rank) {
  std::vector<std::string> all = inherited;
  all.insert(all.end(), options.environment.begin(), options.environment.end());
  const std::string rank_text = std::to_string(rank);
  const std::string ranks_text = std::to_string(options.ranks);
  all.push_back("RANK=" + rank_text);
  all.push_back("WORLD_SIZE=" + ranks_text);
  all.push_back("LOCAL_RANK=" + rank_text);
  all.push_back("LOCAL_WORLD_SIZE=" + ranks_text);
  all.push_back("TUTTI_UNIQUE_ID=" + unique_id);
  if (!options.job_name.empty()) all.push_back("TUTTI_JOB_NAME=" + options.job_name);

  std::vector<std::string> result;
  std::unordered_map<std::string, std::size_t> place;
  for (std::string& entry : all) {
    const std::string name = entry.substr(0, entry.find('='));
    if (contains(kShadowingVariables, name)) continue;
    const auto [found, is_new] = place.emplace(name, result.size());
    if (is_new) {
      result.push_back(std::move(entry));
    } else {
      result[found->second] = std::move(entry);
    }
  }
  return result;
}

std::vector<std::string> inherited_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace tutti::core
