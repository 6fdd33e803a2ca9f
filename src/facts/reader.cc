// SPDX-License-Identifier: Apache-2.0
#include "src/facts/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>

#include "src/base/text.h"
#include "src/base/unique_fd.h"

namespace tutti::core {

namespace {
// CPU and node numbers of the largest kernels end below this; a longer list is not one.
constexpr std::int64_t kMaxNumber = 1 << 20;

Status cannot_read(const std::string& path) { return Status::from_errno(errno, "could not read " + path); }
}  // namespace

Result<std::string> FactReader::read(const std::string& path) const {
  const UniqueFd fd(open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return cannot_read(path);
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(fd.get(), buffer.data(), buffer.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path);
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return std::string(trim(text));
}

Result<std::int64_t> FactReader::read_int(const std::string& path) const {
  TUTTI_TRY(text, read(path));
  const std::optional<std::int64_t> number = parse_int(text);
  if (!number) return Status::error(TUTTI_UNAVAILABLE, "could not read " + path + ": '" + text + "' is not a number");
  return *number;
}

Result<std::vector<std::string>> FactReader::list(const std::string& path) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir((root_ + path).c_str()), closedir);
  if (!folder) return cannot_read(path);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get()))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string FactReader::link_target_name(const std::string& path) const {
  std::array<char, 4096> target{};
  const ssize_t length = readlink((root_ + path).c_str(), target.data(), target.size());
  if (length <= 0) return {};
  const std::string text(target.data(), static_cast<std::size_t>(length));
  return text.substr(text.rfind('/') + 1);  // npos + 1 is 0: all of it
}

bool FactReader::exists(const std::string& path) const { return access((root_ + path).c_str(), F_OK) == 0; }

Result<std::vector<int>> parse_number_list(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const std::optional<std::int64_t> first = parse_int(piece.substr(0, dash));
    const std::optional<std::int64_t> last = dash == std::string_view::npos ? first : parse_int(piece.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxNumber)
      return Status::error(TUTTI_INVALID_ARGUMENT, "'" + std::string(text) + "' is not a list like 0-3,8");
    for (std::int64_t number = *first; number <= *last; ++number) numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

std::string number_list_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[begin]);
    if (end - begin > 1) text += "-" + std::to_string(numbers[end - 1]);
  }
  return text;
}

std::string value_of_key(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = trim(line.substr(key.size()));
    if (!rest.starts_with(':')) continue;  // another key that begins alike
    return std::string(trim(rest.substr(1)));
  }
  return {};
}

}  // namespace tutti::core
