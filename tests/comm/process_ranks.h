// SPDX-License-Identifier: Apache-2.0
// Ranks as forked processes that report lines to the test and leave when it lets them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/unique_fd.h"
#include "tests/comm/bootstrap_support.h"

namespace tutti::core::test {

/// A rank's side, in its process.
class RankProcess {
 public:
  RankProcess(int rank, int report_fd, int release_fd) : rank_(rank), report_fd_(report_fd), release_fd_(release_fd) {}
  int rank() const { return rank_; }
  /// One line for the test; from any thread.
  void report(const std::string& text) const {
    const std::string line = std::to_string(rank_) + " " + text.substr(0, 3000) + "\n";  // < PIPE_BUF: atomic
    if (write(report_fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(99);
  }
  /// Until the test releases everybody.
  void wait_for_release() const {
    char byte;
    while (read(release_fd_, &byte, 1) < 0 && errno == EINTR) continue;
  }

 private:
  int rank_, report_fd_, release_fd_;
};

/// The test's side. Kills and reaps in its destructor what is left.
class ProcessRanks {
 public:
  using Body = std::function<void(const RankProcess&)>;

  ProcessRanks(int ranks, const Body& body) {
    int report[2], release[2];
    if (pipe(report) != 0 || pipe(release) != 0) return;
    report_.reset(report[0]);
    release_.reset(release[1]);
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        close(report[0]);
        close(release[1]);
        body(RankProcess(rank, report[1], release[0]));
        _exit(0);
      }
      pids_.push_back(pid);
    }
    close(report[1]);
    close(release[0]);
  }
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;
  ~ProcessRanks() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) signal_rank(static_cast<int>(rank), SIGKILL);
    for (const pid_t pid : pids_)
      if (pid > 0) waitpid(pid, nullptr, 0);
  }

  void signal_rank(int rank, int number) const {
    const pid_t pid = pids_[static_cast<std::size_t>(rank)];
    if (pid > 0) kill(pid, number);
    // A stop takes effect some time after kill returns: until then the process may still act.
    if (pid > 0 && number == SIGSTOP) waitpid(pid, nullptr, WUNTRACED);
  }
  /// SIGKILL, and the death is over when this returns.
  void kill_and_reap(int rank) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    kill(pid, SIGKILL);
    waitpid(std::exchange(pid, 0), nullptr, 0);
  }
  void release() { release_.reset(); }

  /// Next line of anybody; rank -1: none within the time, or all have left.
  std::pair<int, std::string> next_line(std::uint64_t within_ns = 20 * kSecond) {
    const std::uint64_t limit = clock_ns() + within_ns;
    while (true) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        const std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        const std::size_t space = line.find(' ');
        return {std::stoi(line.substr(0, space)), line.substr(space + 1)};
      }
      const std::uint64_t now = clock_ns();
      pollfd entry{report_.get(), POLLIN, 0};
      if (now >= limit || poll(&entry, 1, static_cast<int>((limit - now) / 1'000'000 + 1)) == 0) return {-1, ""};
      char chunk[4096];
      const ssize_t got = read(report_.get(), chunk, sizeof chunk);
      if (got <= 0) return {-1, ""};
      buffer_.append(chunk, static_cast<std::size_t>(got));
    }
  }
  /// One line of each of `count` ranks, by rank; fewer if they do not come.
  std::multimap<int, std::string> lines(std::size_t count, std::uint64_t within_ns = 20 * kSecond) {
    std::multimap<int, std::string> all;
    while (all.size() < count) {
      auto line = next_line(within_ns);
      if (line.first < 0) break;
      all.insert(std::move(line));
    }
    return all;
  }

 private:
  std::vector<pid_t> pids_;
  UniqueFd report_, release_;
  std::string buffer_;
};

}  // namespace tutti::core::test
