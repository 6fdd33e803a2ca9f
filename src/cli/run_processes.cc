// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/base/unique_fd.h"

namespace tutti::core {

namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr int kMaxCpus = 8192;  // NR_CPUS of the largest x86-64 kernels; the kernel refuses smaller masks than its own

/// What a child that cannot become the rank writes to its parent.
struct ChildFailure {
  int error;
  SpawnStep step;
};

[[noreturn]] void fail_child(int report_fd, SpawnStep step) {
  const ChildFailure failure{errno, step};
  // Smaller than PIPE_BUF, so whole or not at all; if it fails, the parent sees the exit code.
  [[maybe_unused]] const ssize_t wrote = write(report_fd, &failure, sizeof failure);
  _exit(127);
}

bool bind_to_cpu(int cpu) {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMaxCpus), [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(bytes, set.get());
  CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  return sched_setaffinity(0, bytes, set.get()) == 0;
}

/// dup2 that also works when `from` is already in place (then only close-on-exec must go).
void place_fd(int from, int to) {
  if (from == to) {
    fcntl(to, F_SETFD, 0);
  } else {
    dup2(from, to);
  }
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void become_rank(const SpawnRequest& request, pid_t parent, int report_fd) {
  setpgid(0, request.group);  // fails only when the group has just died, and then it does not matter
  // If the reaper itself is killed, its ranks go with it; what they leave behind, the launcher then kills.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (request.cpu >= 0 && !bind_to_cpu(request.cpu)) fail_child(report_fd, SpawnStep::bind);
  place_fd(request.input_fd, 0);
  place_fd(request.output_fd, 1);
  place_fd(request.error_fd, 2);
  setrlimit(RLIMIT_NOFILE, &request.state.files);
  if (!request.state.pipe_ignored) signal(SIGPIPE, SIG_DFL);
  if (!request.state.terminal_output_ignored) signal(SIGTTOU, SIG_DFL);
  sigprocmask(SIG_SETMASK, &request.state.mask, nullptr);
  std::vector<char*> environment = pointers(request.environment);
  environ = environment.data();  // execvp then searches the PATH that the rank will see
  execvp(request.command[0].c_str(), pointers(request.command).data());
  fail_child(report_fd, SpawnStep::execute);
}

/// Parent of a process, from /proc/PID/stat; 0 when it has gone.
pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may contain anything
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  const std::size_t begin = name_end + 4;  // ") S "
  const std::string_view rest = std::string_view(text).substr(begin);
  const std::optional<std::int64_t> parent = parse_int(rest.substr(0, rest.find(' ')));
  return parent ? static_cast<pid_t>(*parent) : 0;
}

/// For kernels without CONFIG_PROC_CHILDREN.
std::vector<pid_t> child_pids_by_search() {
  std::vector<pid_t> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return result;
  while (const dirent* entry = readdir(folder.get())) {
    const std::optional<std::int64_t> pid = parse_int(entry->d_name);
    if (pid && *pid > 0 && parent_of(static_cast<pid_t>(*pid)) == getpid()) result.push_back(static_cast<pid_t>(*pid));
  }
  return result;
}

}  // namespace

std::vector<int> forwarded_signals() {
  std::vector<int> result;
  for (const int number : kForwarded) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) result.push_back(number);
  }
  return result;
}

sigset_t signal_set(const std::vector<int>& forwarded) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : forwarded) sigaddset(&set, number);
  return set;
}

InheritedState take_over_signals(const std::vector<int>& forwarded) {
  InheritedState state;
  signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would throw exit codes away
  state.pipe_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
  state.terminal_output_ignored = signal(SIGTTOU, SIG_IGN) == SIG_IGN;
  const sigset_t set = signal_set(forwarded);
  sigprocmask(SIG_BLOCK, &set, &state.mask);
  getrlimit(RLIMIT_NOFILE, &state.files);
  return state;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number);
}

std::vector<int> allowed_cpus() {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMaxCpus), [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(bytes, set.get());
  std::vector<int> cpus;
  if (sched_getaffinity(0, bytes, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu)
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
  return cpus;
}

SpawnResult spawn_rank(const SpawnRequest& request) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, errno, SpawnStep::start};
  UniqueFd report(ends[0]);
  UniqueFd child_end(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno, SpawnStep::start};
  if (pid == 0) become_rank(request, parent, child_end.get());
  child_end.reset();

  // End of file: exec closed the pipe. The wait ends with the child or the launcher, whichever goes first.
  std::array<pollfd, 2> waits{pollfd{report.get(), POLLIN, 0}, pollfd{request.abandon_fd, 0, 0}};
  while (poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
  }
  if (waits[0].revents == 0) return {pid, 0, {}};
  ChildFailure failure{0, {}};
  if (read(report.get(), &failure, sizeof failure) != static_cast<ssize_t>(sizeof failure)) return {pid, 0, {}};
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {-1, failure.error, failure.step};
}

std::vector<pid_t> child_pids() {
  const std::string pid = std::to_string(getpid());
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  if (!file) return child_pids_by_search();
  std::vector<pid_t> result;
  for (pid_t child = 0; file >> child;) result.push_back(child);
  return result;
}

std::vector<pid_t> signal_children(int signal, const std::vector<pid_t>& except) {
  std::vector<pid_t> reached;
  for (const pid_t pid : child_pids()) {
    if (std::find(except.begin(), except.end(), pid) != except.end()) continue;
    if (kill(pid, signal) == 0) reached.push_back(pid);
  }
  return reached;
}

std::vector<pid_t> kill_descendants(std::int64_t timeout_ns, const std::function<void(pid_t, int)>& on_exit) {
  const std::int64_t deadline = monotonic_ns() + timeout_ns;
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  while (true) {
    signal_children(SIGKILL);
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) on_exit(pid, status);
    if (pid < 0 && errno == ECHILD) return {};
    if (monotonic_ns() >= deadline) return child_pids();
    // SIGCHLD is blocked, so none is missed; the timeout is for children that arrive from a dying grandparent.
    const timespec pause{0, 10'000'000};
    sigtimedwait(&child_signal, nullptr, &pause);
  }
}

}  // namespace tutti::core
