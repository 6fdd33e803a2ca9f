// SPDX-License-Identifier: Apache-2.0
// Starts the built `tutti` as a child and watches it. The test process is a child subreaper: whatever a job leaves
// behind becomes its child, so "no process is left" is a plain waitpid.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/unique_fd.h"

namespace tutti::core::testing {

struct JobOptions {
  std::string input = {};                     // standard input
  std::vector<std::string> environment = {};  // added, "KEY=VALUE"
  bool has_terminal = false;                  // a terminal of its own as stdin, stdout and stderr
  bool is_output_read = true;                 // false: nobody reads stdout, as under a pager
};

class Job {
 public:
  /// Runs `tutti ARGUMENTS`.
  explicit Job(const std::vector<std::string>& arguments, const JobOptions& options = {});
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  pid_t pid() const { return pid_; }
  /// The child of the launcher.
  pid_t reaper_pid() const;

  /// Reads output until stdout (terminal: everything) holds `text` that many times; false at the deadline.
  bool wait_for_output(const std::string& text, int times = 1);
  bool wait_for_errors(const std::string& text, int times = 1);
  /// Waits until the launcher has no such signal pending; false at the deadline.
  bool is_signal_taken(int signal) const;
  void send(int signal) const;
  /// Types into the terminal.
  void type(const std::string& text) const;

  /// Reads all output and waits for the launcher; its exit code, 128 + signal, or -1 at the deadline.
  int wait();
  /// True when all processes of the job have gone, or go before the deadline.
  bool is_gone();

  const std::string& output() const { return output_; }
  const std::string& errors() const { return errors_; }

 private:
  bool pump(std::int64_t deadline_ns);
  bool wait_for(const std::string& where, const std::string& text, int times);
  bool reap_once(std::int64_t deadline_ns);

  pid_t pid_ = -1;
  UniqueFd input_;  // write end of stdin, or the terminal's master
  UniqueFd output_end_;
  UniqueFd errors_end_;
  std::string output_;
  std::string errors_;
  bool is_output_read_ = true;
  bool has_ended_ = false;
  int status_ = 0;
};

struct Finished {
  int code;
  std::string output;
  std::string errors;
  bool is_gone;  // no process was left behind
};

/// Runs `tutti ARGUMENTS` to its end.
Finished run_to_end(const std::vector<std::string>& arguments, const JobOptions& options = {});

/// Arguments of `tutti run -n RANKS OPTIONS... sh -c SCRIPT`.
std::vector<std::string> run_shell(int ranks, std::vector<std::string> options, const std::string& script);

std::vector<std::string> lines_of(const std::string& text);
int count_of(const std::string& text, const std::string& part);

}  // namespace tutti::core::testing
