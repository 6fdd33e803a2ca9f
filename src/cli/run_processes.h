// SPDX-License-Identifier: Apache-2.0
// Starting ranks, and ending whole families of processes.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace tutti::core {

/// Signal state of the process at its start, which its ranks get back.
struct InheritedState {
  sigset_t mask{};
  bool pipe_ignored = false;             // SIGPIPE was SIG_IGN
  bool terminal_output_ignored = false;  // SIGTTOU was
  rlimit files{};                        // RLIMIT_NOFILE
};

/// The signals that `tutti run` forwards and that were not ignored at its start (nohup, background jobs of a script).
std::vector<int> forwarded_signals();

/// Remembers the state, makes SIGCHLD arrive, ignores SIGPIPE and SIGTTOU (a reaper in the background writes to the
/// terminal all the same), and blocks SIGCHLD and the forwarded signals (they are
/// read with sigwaitinfo or a signalfd).
InheritedState take_over_signals(const std::vector<int>& forwarded);
sigset_t signal_set(const std::vector<int>& forwarded);

/// "SIGKILL"; "signal 99" for a number without a name.
std::string signal_name(int number);

/// The CPUs this process may run on, ascending (affinity mask, which the cgroup's cpuset limits).
std::vector<int> allowed_cpus();

struct SpawnRequest {
  const std::vector<std::string>& command;
  std::vector<std::string> environment;
  int cpu = -1;     // bind to this one
  pid_t group = 0;  // process group to join; 0: a new one
  int input_fd = 0;
  int output_fd = 1;
  int error_fd = 2;
  int abandon_fd = -1;  // stop waiting for the exec when this one hangs up
  const InheritedState& state;
};

enum class SpawnStep : std::uint8_t { start, bind, execute };

struct SpawnResult {
  pid_t pid = -1;                     // running (or abandoned while it starts); -1: failed
  int error = 0;                      // errno of the failure
  SpawnStep step = SpawnStep::start;  // that failed
};

/// Starts one rank and waits until it runs the program, so that a program that cannot be run is reported once.
SpawnResult spawn_rank(const SpawnRequest& request);

/// Direct children of this process, dead ones that were not waited for included.
std::vector<pid_t> child_pids();

/// Sends `signal` to all direct children but those in `except`; returns whom it reached.
std::vector<pid_t> signal_children(int signal, const std::vector<pid_t>& except = {});

/// Kills all descendants of this process, which must be a child subreaper, and waits for them. Only direct children are
/// killed, whose pids cannot be reused before they are waited for; their children then become direct children, until
/// none is left. `on_exit` hears of each (pid, wait status). Returns those that outlived the deadline.
std::vector<pid_t> kill_descendants(std::int64_t timeout_ns, const std::function<void(pid_t, int)>& on_exit);

}  // namespace tutti::core
