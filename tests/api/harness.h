// SPDX-License-Identifier: Apache-2.0
// Jobs for end-to-end tests: ranks as threads of this process, or as processes. Every job has a deadline; what is still
// running then is named, stopped, and the test fails.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace api_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Deadline of one job. Far above what it takes (the machine may be busy), below ctest's.
constexpr seconds kJobDeadline{100};

/// For messages: "ok" or "timeout: rank 3 ...".
std::string to_string(const tutti::Status& status);
#define EXPECT_STATUS_OK(status) EXPECT_EQ(::api_test::to_string(status), "ok")
#define ASSERT_STATUS_OK(status) ASSERT_EQ(::api_test::to_string(status), "ok")

/// A folder on tmpfs for this program's recorders, set as TUTTI_RUN_DIR before Tutti first looks; removed at exit.
const std::string& run_folder();

struct JobOptions {
  int ranks = 2;
  std::string settings{};  ///< of the communicators, beside the short default deadlines of tests
  seconds deadline = kJobDeadline;
};
/// `settings` after the deadlines that a test can afford: an error instead of a hang.
tutti::Config test_config(const std::string& settings = {}, const std::string& name = "test");

/// Ranks as threads: body(rank) each on a thread of its own.
void spawn_ranks(const JobOptions& options, const std::function<void(int rank)>& body);
/// The same with one communicator over all of them.
void spawn(const JobOptions& options, const std::function<void(tutti::Communicator&)>& body);
inline void spawn(int ranks, const std::function<void(tutti::Communicator&)>& body) { spawn({.ranks = ranks}, body); }

/// Waits until `condition()`; false after `patience`. For conditions on memory that other processes write.
bool eventually(const std::function<bool()>& condition, milliseconds patience = seconds(30));

/// Memory that all processes of a job share: ids, and numbers to meet on.
struct Board {
  static constexpr int kIds = 64, kRanks = 128;
  std::atomic<std::uint32_t> id_ready[kIds];
  tutti::UniqueId ids[kIds];
  std::atomic<std::uint64_t> flags[16];        ///< free for the test
  std::atomic<std::uint64_t> counter[kRanks];  ///< free for the test, one per rank
  std::atomic<std::int64_t> started_ns, ended_ns[kRanks];
};

/// Inside a process of a job.
class Child {
 public:
  Child(int rank, int ranks, Board& board, int pipe) : rank_(rank), ranks_(ranks), board_(board), pipe_(pipe) {}
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Board& board() const { return board_; }
  /// The job's id number `index`: rank 0 makes it, the others wait for it.
  tutti::UniqueId id(int index = 0) const;
  tutti::Result<tutti::Communicator> create(const std::string& settings = {}, int index = 0) const;
  /// Sends text to the test: ChildResult::report.
  void report(const std::string& text) const;

 private:
  int rank_, ranks_;
  Board& board_;
  int pipe_;
};

struct ChildResult {
  bool stuck = false;  ///< killed at the deadline
  int exit_code = -1;  ///< -1: ended by `signal`
  int signal = 0;
  std::string report;
};

/// Ranks as processes, forked from a parent that never uses Tutti itself. A failed expectation in a child makes its
/// exit code 1. Children end by exit(), without destroying what `body` left alive.
class Job {
 public:
  Job(const JobOptions& options, const std::function<void(Child&)>& body);
  ~Job();
  Board& board() { return *board_; }
  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  void signal(int rank, int number) const;
  /// By rank. Kills at the deadline whoever is left and fails the test, naming them.
  std::vector<ChildResult> wait();

 private:
  void read_reports();
  bool reap();

  JobOptions options_;
  Board* board_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
  std::vector<bool> running_;
  std::vector<ChildResult> results_;
};

/// Runs `body` and expects every process to exit with 0.
std::vector<ChildResult> spawn_processes(const JobOptions& options, const std::function<void(Child&)>& body);

std::int64_t now_ns();

}  // namespace api_test
