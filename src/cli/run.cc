// SPDX-License-Identifier: Apache-2.0
// `tutti run` is two processes. The launcher is the one the user sees: it passes signals on and waits. Its child, the
// reaper, has a process group of its own, is the subreaper of all ranks, and does the work.
//
//   shell ── launcher ──control pipe──► reaper ──┬── rank 0 ── ...
//                                                └── rank 1 ── daemonised grandchild (reparents to the reaper)
//
// launcher killed: the control pipe ends, the reaper kills all descendants.  reaper killed: the ranks get SIGKILL
// (PR_SET_PDEATHSIG), the rest reparents to the launcher, a subreaper too, which kills it.
#include "src/cli/run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "src/base/unique_fd.h"
#include "src/cli/run_environment.h"
#include "src/cli/run_processes.h"
#include "src/cli/run_reaper.h"

namespace tutti::core {

namespace {

constexpr int kUsageError = 2;
constexpr int kLauncherError = 1;

void say(const std::string& text) { std::fprintf(stderr, "tutti run: %s\n", text.c_str()); }

/// Files opened later must not land on 0, 1 or 2.
void open_standard_files() {
  while (true) {
    const int fd = open("/dev/null", O_RDWR);
    if (fd > 2 || fd < 0) {
      if (fd > 2) close(fd);
      return;
    }
  }
}

/// True when the terminal sends ^C, ^\ and ^Z to this process's group: then the ranks belong into it, so that rank 0
/// can read from the terminal and ^Z stops them. Otherwise each rank is a group of its own.
bool is_in_foreground() {
  for (int fd = 0; fd < 3; ++fd)
    if (tcgetpgrp(fd) == getpgrp()) return true;
  return false;
}

/// Passes signals on until the reaper has ended; returns its wait status.
int attend_reaper(pid_t reaper, int control_fd, const std::vector<int>& forwarded, bool is_foreground) {
  const sigset_t set = signal_set(forwarded);
  while (true) {
    siginfo_t info{};
    const int number = sigwaitinfo(&set, &info);
    if (number == SIGCHLD) {
      int status = 0;
      if (waitpid(reaper, &status, WNOHANG) == reaper) return status;
    } else if (number > 0) {
      // Sent by the kernel for the terminal: the ranks, in the same group, have got it as well.
      const bool is_delivered = is_foreground && info.si_code == SI_KERNEL;
      const unsigned char byte = static_cast<unsigned char>(number | (is_delivered ? kAlreadyDelivered : 0));
      // Fails only when the reaper has gone, which SIGCHLD is about to say.
      [[maybe_unused]] const ssize_t wrote = write(control_fd, &byte, 1);
    }
  }
}

}  // namespace

int run_job(const RunOptions& options) {
  open_standard_files();
  Result<std::string> unique_id = make_unique_id_text();
  if (!unique_id.is_ok()) {
    say(unique_id.status().to_string());
    return kLauncherError;
  }
  const std::vector<int> forwarded = forwarded_signals();
  const InheritedState state = take_over_signals(forwarded);
  const bool is_foreground = is_in_foreground();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    say(std::string("cannot make a pipe: ") + std::strerror(errno));
    return kLauncherError;
  }
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t reaper = fork();
  if (reaper < 0) {
    say(std::string("cannot start the reaper process: ") + std::strerror(errno));
    return kLauncherError;
  }
  if (reaper == 0) {
    write_end.reset();
    const int code = run_reaper({.options = options,
                                 .state = state,
                                 .forwarded = forwarded,
                                 .unique_id = unique_id.value(),
                                 .environment = inherited_environment(),
                                 .control = std::move(read_end),
                                 .group = is_foreground ? getpgrp() : 0});
    _exit(code);
  }
  read_end.reset();
  const int status = attend_reaper(reaper, write_end.get(), forwarded, is_foreground);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  constexpr std::int64_t kKillTimeoutNs = 5'000'000'000;
  kill_descendants(kKillTimeoutNs, [](pid_t, int) {});
  say("the reaper process was killed by " + signal_name(WTERMSIG(status)) + "; the job was killed with it");
  return 128 + WTERMSIG(status);
}

void register_run(CLI::App& program, int&) {
  program.add_subcommand("run", "Starts ranks of a program on this machine: tutti run -n N PROGRAM ...");
}

int run_command(const std::vector<std::string>& arguments) {
  Result<RunOptions> options = parse_run_options(arguments);
  if (!options.is_ok()) {
    const Status& status = options.status();
    say(status.message() + (status.remedy().empty() ? "" : "; " + status.remedy()));
    return kUsageError;
  }
  if (options->help) {
    std::fputs(run_usage().c_str(), stdout);
    return 0;
  }
  return run_job(options.value());
}

}  // namespace tutti::core
