// SPDX-License-Identifier: Apache-2.0
// The output side of `tutti run`: many rank streams are merged line by line into one or two sinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/unique_fd.h"

namespace tutti::core {

class RankStream;

/// Where lines go: the launcher's stdout or stderr. Never blocks: a reader that is slow (a pager) or stopped (^S) must
/// not keep the launcher from noticing a dead rank or its own end. What cannot be written yet is kept, and `is_full`
/// tells the caller to stop reading from the ranks, which then block as they would on the sink itself.
class OutputSink {
 public:
  /// Borrows `fd`; where possible opens a second, non-blocking description of the same pipe or terminal, because
  /// O_NONBLOCK on the first one would be seen by every process that shares it.
  explicit OutputSink(int fd);

  /// Adds a line, or a piece of one when `text` has no '\n' at its end. A piece by one owner that another owner's text
  /// follows is closed with '\n' first: lines of different owners never run into each other.
  void put(const RankStream* owner, std::string_view prefix, std::string_view text);
  /// Ends an open line of this owner.
  void close_line(const RankStream* owner);
  /// Writes what the sink takes now.
  void flush();

  int poll_fd() const { return own_fd_ ? own_fd_.get() : fd_; }
  bool has_pending() const { return written_ < pending_.size(); }
  bool is_full() const { return pending_.size() - written_ >= kFullBytes; }
  /// The reader has gone: text is dropped from now on.
  bool is_broken() const { return is_broken_; }
  bool is_terminal() const { return is_terminal_; }

 private:
  enum class Way : std::uint8_t { write, send, poll_and_write };
  static constexpr std::size_t kFullBytes = std::size_t{1} << 20;

  long write_some(const char* data, std::size_t bytes) const;

  int fd_;
  UniqueFd own_fd_;
  Way way_ = Way::poll_and_write;
  bool is_terminal_ = false;
  bool is_broken_ = false;
  const RankStream* open_line_ = nullptr;  // whose unfinished line is at the end of the text so far
  std::string pending_;
  std::size_t written_ = 0;
};

/// The read end of one rank's stdout or stderr.
class RankStream {
 public:
  RankStream(UniqueFd fd, OutputSink* sink, std::string prefix)
      : fd_(std::move(fd)), sink_(sink), prefix_(std::move(prefix)) {}

  /// Reads once and passes complete lines on. False when there was nothing to read now.
  bool read_once();
  /// Reads until the pipe is empty (it may be open still, in a grandchild).
  void drain();
  /// Passes the unfinished line on as it is.
  void flush_partial();
  /// No more will be read: passes on the last line, and with a prefix ends it.
  void close();

  bool is_open() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  const OutputSink& sink() const { return *sink_; }
  /// When the unfinished line began to wait (monotonic_ns); 0: there is none.
  std::int64_t partial_since_ns() const { return partial_.empty() ? 0 : partial_since_ns_; }

 private:
  void take(std::string_view data);

  UniqueFd fd_;
  OutputSink* sink_;
  std::string prefix_;
  std::string partial_;
  std::int64_t partial_since_ns_ = 0;
};

}  // namespace tutti::core
