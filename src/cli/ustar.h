// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/base/unique_fd.h"

namespace tutti::core {

/// Writes a tar archive (POSIX.1-1988 ustar: regular files, names of up to 100 bytes, up to 8 GiB each).
class UstarWriter {
 public:
  /// Makes `path`, which must not exist, readable by this user alone.
  static Result<UstarWriter> create(const std::string& path);

  Status add(std::string_view name, std::string_view content, std::int64_t modified_seconds);
  /// Two empty blocks, which end the archive; then closes it.
  Status finish();

 private:
  UstarWriter(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status write_all(std::string_view bytes);

  UniqueFd fd_;
  std::string path_;
};

}  // namespace tutti::core
