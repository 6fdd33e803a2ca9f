// SPDX-License-Identifier: Apache-2.0
#include "src/cli/ustar.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace tutti::core {

namespace {

constexpr std::size_t kBlock = 512;

/// The header of POSIX.1-1988, "Extended tar format". Numbers are octal digits.
struct Header {
  char name[100];
  char mode[8];
  char user[8];
  char group[8];
  char size[12];
  char modified[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user_name[32];
  char group_name[32];
  char device_major[8];
  char device_minor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t N>
void put_octal(char (&field)[N], std::uint64_t value) {
  char text[32] = {};
  std::snprintf(text, sizeof text, "%0*llo", static_cast<int>(N - 1), static_cast<unsigned long long>(value));
  std::memcpy(field, text, N);  // with the 0 at the end
}

Header make_header(std::string_view name, std::size_t bytes, std::int64_t modified_seconds) {
  Header header{};
  std::memcpy(header.name, name.data(), name.size());
  put_octal(header.mode, 0600);
  put_octal(header.user, 0);
  put_octal(header.group, 0);
  put_octal(header.size, bytes);
  put_octal(header.modified, static_cast<std::uint64_t>(std::max<std::int64_t>(modified_seconds, 0)));
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  std::memset(header.checksum, ' ', sizeof header.checksum);  // counts as spaces in its own sum
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += reinterpret_cast<const unsigned char*>(&header)[i];
  std::snprintf(header.checksum, sizeof header.checksum, "%06llo", static_cast<unsigned long long>(sum & 0777777));
  header.checksum[7] = ' ';
  return header;
}

}  // namespace

Result<UstarWriter> UstarWriter::create(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return Status::from_errno(errno, "cannot make " + path);
  return UstarWriter(std::move(fd), path);
}

Status UstarWriter::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Status::from_errno(errno, "cannot write " + path_);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return Status::ok();
}

Status UstarWriter::add(std::string_view name, std::string_view content, std::int64_t modified_seconds) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 33;  // 11 octal digits
  if (name.empty() || name.size() > sizeof(Header::name) || content.size() >= kMostBytes)
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "cannot add '" + std::string(name) + "' to " + path_ + ": its name or content is too long");
  const Header header = make_header(name, content.size(), modified_seconds);
  TUTTI_TRY(write_all({reinterpret_cast<const char*>(&header), sizeof header}));
  TUTTI_TRY(write_all(content));
  const std::size_t rest = content.size() % kBlock;
  return rest == 0 ? Status::ok() : write_all(std::string(kBlock - rest, '\0'));
}

Status UstarWriter::finish() {
  TUTTI_TRY(write_all(std::string(2 * kBlock, '\0')));
  const int fd = fd_.release();
  if (close(fd) != 0) return Status::from_errno(errno, "cannot write " + path_);
  return Status::ok();
}

}  // namespace tutti::core
