// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "src/base/clock.h"

namespace tutti::core::testing {

namespace {

// Only a failing test waits this long; a busy machine must not fail one.
constexpr std::int64_t kDeadlineNs = 30'000'000'000;

int timeout_ms(std::int64_t deadline_ns) {
  return static_cast<int>(std::max<std::int64_t>(deadline_ns - monotonic_ns(), 0) / 1'000'000);
}

std::array<UniqueFd, 2> make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void block_child_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

[[noreturn]] void become_tutti(const std::vector<std::string>& arguments, const JobOptions& options,
                               const std::array<int, 3>& files) {
  if (options.has_terminal) {
    setsid();
    ioctl(files[0], TIOCSCTTY, 0);
  } else {
    setpgid(0, 0);  // so that a test may signal the group
  }
  for (int fd = 0; fd < 3; ++fd) dup2(files[static_cast<std::size_t>(fd)], fd);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const std::string& entry : options.environment) {
    const std::size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> words{const_cast<char*>("tutti")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(TUTTI_PROGRAM, words.data());
  _exit(99);
}

/// Appends what can be read now; closes at the end of the file.
void take(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  } else if (got == 0 || errno != EINTR) {
    fd.reset();  // EIO is how a terminal ends
  }
}

}  // namespace

Job::Job(const std::vector<std::string>& arguments, const JobOptions& options)
    : is_output_read_(options.is_output_read) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  block_child_signal();
  std::array<UniqueFd, 3> child_files;
  if (options.has_terminal) {
    input_.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_EQ(grantpt(input_.get()), 0);
    EXPECT_EQ(unlockpt(input_.get()), 0);
    child_files[0].reset(open(ptsname(input_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    output_end_.reset(fcntl(input_.get(), F_DUPFD_CLOEXEC, 3));
  } else {
    auto [input_read, input_write] = make_pipe();
    auto [output_read, output_write] = make_pipe();
    auto [errors_read, errors_write] = make_pipe();
    child_files = {std::move(input_read), std::move(output_write), std::move(errors_write)};
    input_ = std::move(input_write);
    output_end_ = std::move(output_read);
    errors_end_ = std::move(errors_read);
  }
  const int first = child_files[0].get();
  const std::array<int, 3> files{first, options.has_terminal ? first : child_files[1].get(),
                                 options.has_terminal ? first : child_files[2].get()};
  pid_ = fork();
  if (pid_ == 0) become_tutti(arguments, options, files);
  EXPECT_GT(pid_, 0);
  if (options.has_terminal) return;
  // Fits into the pipe: the tests write little.
  EXPECT_EQ(write(input_.get(), options.input.data(), options.input.size()),
            static_cast<ssize_t>(options.input.size()));
  input_.reset();
}

Job::~Job() {
  if (!has_ended_) kill(pid_, SIGKILL);
  EXPECT_TRUE(is_gone()) << "processes are left: see ps";
}

pid_t Job::reaper_pid() const {
  const std::string pid = std::to_string(pid_);
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  pid_t reaper = -1;
  file >> reaper;
  return reaper;
}

bool Job::pump(std::int64_t deadline_ns) {
  std::array<pollfd, 2> waits{pollfd{is_output_read_ ? output_end_.get() : -1, POLLIN, 0},
                              pollfd{errors_end_.get(), POLLIN, 0}};
  if (waits[0].fd < 0 && waits[1].fd < 0) return false;
  if (poll(waits.data(), waits.size(), timeout_ms(deadline_ns)) == 0) return false;
  if (waits[0].revents != 0) take(output_end_, output_);
  if (waits[1].revents != 0) take(errors_end_, errors_);
  return true;
}

bool Job::wait_for(const std::string& where, const std::string& text, int times) {
  const std::int64_t deadline = monotonic_ns() + kDeadlineNs;
  while (count_of(where, text) < times)
    if (!pump(deadline)) return false;
  return true;
}

bool Job::wait_for_output(const std::string& text, int times) { return wait_for(output_, text, times); }
bool Job::wait_for_errors(const std::string& text, int times) { return wait_for(errors_, text, times); }

bool Job::is_signal_taken(int signal) const {
  const std::int64_t deadline = monotonic_ns() + kDeadlineNs;
  while (monotonic_ns() < deadline) {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("ShdPnd:") && (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) == 0)
        return true;
    sched_yield();
  }
  return false;
}

void Job::send(int signal) const { kill(pid_, signal); }

void Job::type(const std::string& text) const {
  EXPECT_EQ(write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

/// Waits for one child, ours or inherited; false at the deadline or when there is none.
bool Job::reap_once(std::int64_t deadline_ns) {
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid < 0) return false;
    if (pid == pid_) {
      has_ended_ = true;
      status_ = status;
    }
    if (pid > 0) return true;
    const int rest_ms = timeout_ms(deadline_ns);
    if (rest_ms == 0) return false;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const timespec rest{rest_ms / 1000, rest_ms % 1000 * 1'000'000L};
    sigtimedwait(&set, nullptr, &rest);
  }
}

int Job::wait() {
  const std::int64_t deadline = monotonic_ns() + kDeadlineNs;
  while (pump(deadline)) {
  }
  while (!has_ended_)
    if (!reap_once(deadline)) return -1;
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

bool Job::is_gone() {
  const std::int64_t deadline = monotonic_ns() + kDeadlineNs;
  while (reap_once(deadline)) {
  }
  if (waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return true;
  // Leave nothing to the next test.
  const std::string pid = std::to_string(getpid());
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; file >> child;) kill(child, SIGKILL);
  return false;
}

Finished run_to_end(const std::vector<std::string>& arguments, const JobOptions& options) {
  Job job(arguments, options);
  const int code = job.wait();
  // Not is_gone(): once the launcher has ended there is nothing left to wait for.
  const bool is_gone = waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
  return {code, job.output(), job.errors(), is_gone};
}

std::vector<std::string> run_shell(int ranks, std::vector<std::string> options, const std::string& script) {
  std::vector<std::string> arguments{"run", "-n", std::to_string(ranks)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"sh", "-c", script});
  return arguments;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace tutti::core::testing
