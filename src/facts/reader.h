// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::core {

/// Reads the small files of /proc and /sys, below a root: "" for this machine, a folder for a recorded one. Paths are
/// given, and named in errors, without the root.
class FactReader {
 public:
  explicit FactReader(std::string root = {}) : root_(std::move(root)) {}

  /// The whole text, without white space around it. Error: "could not read PATH: why".
  Result<std::string> read(const std::string& path) const;
  /// A file that holds one number.
  Result<std::int64_t> read_int(const std::string& path) const;
  /// Sorted names in a folder.
  Result<std::vector<std::string>> list(const std::string& path) const;
  /// Last part of what a symbolic link points to, "" when there is none: how /sys names drivers.
  std::string link_target_name(const std::string& path) const;
  bool exists(const std::string& path) const;

 private:
  std::string root_;
};

/// "0-3,8" as the kernel writes lists, and back.
Result<std::vector<int>> parse_number_list(std::string_view text);
std::string number_list_text(const std::vector<int>& numbers);

/// Value of the line "KEY: value" (white space and ':' around it dropped) in a file like /proc/meminfo; "" when absent.
std::string value_of_key(std::string_view text, std::string_view key);

}  // namespace tutti::core
