// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "perf/common/control.h"
#include "perf/common/environment.h"
#include "perf/common/failure.h"
#include "perf/common/json.h"
#include "perf/common/options.h"
#include "perf/common/program.h"
#include "perf/common/table.h"

namespace tutti::perf {

/// What the threads of one process share.
struct Process {
  const Program& program;
  Options options;
  Environment environment;
  tutti_unique_id id{};
  std::vector<tutti_comm*> worlds;  // one per local rank; filled by the main thread, or by each thread with -p 1
  JsonReport json;                  // thread 0 of process 0 only

  int local_ranks() const { return options.threads * options.ranks_per_thread; }
  int world_ranks() const { return environment.processes * local_ranks(); }
};

/// Creates local ranks [first, first + count) of `process` in one group.
ExitCode create_ranks(Process& process, int first, int count);

/// Seconds of CLOCK_MONOTONIC.
double now();

struct FreeMemory {
  void operator()(char* pointer) const;
  bool from_tutti = false;
};

/// One rank of a thread: its communicator under test and its buffers.
struct LocalRank {
  int world_rank = 0;
  int rank = 0;                 // in `comm`
  tutti_comm* world = nullptr;  // owned by Process
  tutti_comm* comm = nullptr;   // world, or its group with NCCL_TESTS_SPLIT
  std::unique_ptr<char, FreeMemory> send, recv;
  std::vector<tutti_registration*> registrations;
};

/// One thread with its ranks: does all that nccl-tests' thread does, in the same order. There are no streams here: a
/// call blocks until its result is there (with several ranks per thread or -m, the end of its group does), so "wait for
/// completion" is part of each call, and a timed iteration is `aggregate` such calls.
class Worker {
 public:
  Worker(Process& process, int thread);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ExitCode run();

  // For Program::run.
  Process& process() { return process_; }
  Control& control() { return control_; }
  std::vector<LocalRank>& locals() { return locals_; }
  const Options& options() const { return process_.options; }
  const tutti_call* call_options() const { return options().timeout_s > 0 ? &call_ : nullptr; }
  int ranks() const { return ranks_; }
  /// True in thread 0 of process 0, the only one that prints the table.
  bool prints() const { return thread_ == 0 && process_.environment.process == 0; }
  void print(const std::string& text) const;
  /// Reduces the time of this thread as -a says.
  ExitCode average_time(double& seconds);
  /// Iteration times of all ranks -> the slowest rank's, and per process the slowest of its ranks.
  ExitCode gather_iterations(const std::vector<double>& mine, Placement& placement);
  ExitCode operation_failed(tutti_code code, const LocalRank& local, const std::string& what,
                            const char* file = __builtin_FILE(), int line = __builtin_LINE()) const;

 private:
  ExitCode connect();
  ExitCode agree_on_memory();
  ExitCode allocate();
  ExitCode allocate_buffer(LocalRank& local, std::unique_ptr<char, FreeMemory>& buffer);
  ExitCode describe();
  std::vector<Device> local_devices() const;
  void give_up();

  // sweep.cc
  ExitCode sweep();
  ExitCode sweep_sizes(const NamedType& type, const NamedOp& op, int root);
  ExitCode warm_up(const NamedType& type, const NamedOp& op, int root);
  Row make_row(const NamedType& type, const NamedOp& op, int root, uint64_t bytes) const;
  ExitCode run_row(Row row, const NamedType& type, const NamedOp& op);
  ExitCode explain_row(const Row& row, Explanation& explanation);
  ExitCode finish();

  // measure.cc
  struct Buffers {
    char* send;
    char* recv;
  };
  uint64_t places_of(const Row& row) const;
  Buffers buffers_of(const LocalRank& local, const Row& row, bool in_place, uint64_t iteration) const;
  void prepare(const Row& row, bool in_place) const;
  tutti_code call_once(const Row& row, bool in_place, uint64_t iteration, std::deque<tutti_work*>* works);
  ExitCode call_iteration(const Row& row, bool in_place, uint64_t iteration);
  ExitCode call_failed(tutti_code code, const Row& row, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) const;
  ExitCode measure(const Row& row, bool in_place, Placement& placement);
  ExitCode time_iterations(const Row& row, bool in_place, Placement& placement);
  ExitCode check(Row row, bool in_place, Placement& placement);
  ExitCode check_once(const Row& row, bool in_place, uint64_t& wrong);
  void report_wrong(const LocalRank& local, const Row& row, bool in_place, const struct Verdict& verdict) const;

  Process& process_;
  int thread_;
  std::vector<LocalRank> locals_;
  Control control_;
  tutti_call call_{};
  int ranks_ = 1;
  int group_ = 0;
  uint64_t max_bytes_ = 0;  // after the cut to the machine's memory
  bool reduced_ = false;    // it was cut
  uint64_t seed_ = 0;       // of the last check
  uint64_t failed_checks_ = 0;
  double bus_sum_ = 0;
  uint64_t bus_count_ = 0;
  uint64_t memory_start_ = 0, memory_connected_ = 0, memory_allocated_ = 0;
};

}  // namespace tutti::perf
