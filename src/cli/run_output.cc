// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/clock.h"

namespace tutti::core {

namespace {
// A longer line is passed on in pieces; nothing is inserted unless another rank writes in between.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
// poll() promises room for one page in a pipe, and a write of up to a page then does not block (pipe(7), PIPE_BUF).
constexpr std::size_t kSafeWrite = 4096;
}  // namespace

OutputSink::OutputSink(int fd) : fd_(fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return;
  is_terminal_ = isatty(fd) == 1;
  if (S_ISREG(info.st_mode)) {
    way_ = Way::write;  // never blocks for long; a second description would have an offset of its own
  } else if (S_ISSOCK(info.st_mode)) {
    way_ = Way::send;
  } else {
    own_fd_.reset(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (own_fd_) way_ = Way::write;  // else (not our terminal, no /proc): small writes after a poll
  }
}

void OutputSink::put(const RankStream* owner, std::string_view prefix, std::string_view text) {
  if (is_broken_ || text.empty()) return;
  if (open_line_ != nullptr && open_line_ != owner) {
    pending_ += '\n';
    open_line_ = nullptr;
  }
  if (open_line_ == nullptr) pending_ += prefix;
  pending_ += text;
  open_line_ = text.back() == '\n' ? nullptr : owner;
}

void OutputSink::close_line(const RankStream* owner) {
  if (open_line_ == owner && owner != nullptr) put(owner, {}, "\n");
}

long OutputSink::write_some(const char* data, std::size_t bytes) const {
  if (way_ == Way::send) return send(fd_, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::write) return write(poll_fd(), data, bytes);
  pollfd room{fd_, POLLOUT, 0};
  if (poll(&room, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(fd_, data, std::min(bytes, kSafeWrite));
}

void OutputSink::flush() {
  while (has_pending() && !is_broken_) {
    const long wrote = write_some(pending_.data() + written_, pending_.size() - written_);
    if (wrote >= 0) {
      written_ += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      is_broken_ = true;  // EPIPE, ENOSPC, EIO: the ranks find out when their own pipes close
    }
  }
  if (!has_pending() || is_broken_) {
    pending_.clear();
    written_ = 0;
  } else if (written_ > kFullBytes) {
    pending_.erase(0, written_);
    written_ = 0;
  }
}

bool RankStream::read_once() {
  static std::array<char, 65536> buffer;  // a pipe's capacity; the launcher has one thread
  if (!fd_) return false;
  const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    take({buffer.data(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  close();
  return false;
}

void RankStream::drain() {
  while (read_once()) {
  }
}

void RankStream::take(std::string_view data) {
  while (!data.empty()) {
    const std::size_t newline = data.find('\n');
    if (newline == std::string_view::npos) {
      if (partial_.empty()) partial_since_ns_ = monotonic_ns();
      partial_ += data;
      if (partial_.size() >= kLongestLine) flush_partial();
      return;
    }
    const std::string_view line = data.substr(0, newline + 1);
    if (partial_.empty()) {
      sink_->put(this, prefix_, line);
    } else {
      partial_ += line;
      flush_partial();
    }
    data.remove_prefix(newline + 1);
  }
}

void RankStream::flush_partial() {
  sink_->put(this, prefix_, partial_);
  partial_.clear();
}

void RankStream::close() {
  flush_partial();
  if (!prefix_.empty()) sink_->close_line(this);
  fd_.reset();
}

}  // namespace tutti::core
