// SPDX-License-Identifier: Apache-2.0
// What this process has once, whatever the number of its communicators: shared memory, recorder, watcher, engine.
// Created by the first communicator, kept until exit. Besides the logger the only state outside objects.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/comm/bootstrap.h"
#include "src/comm/cost_model.h"
#include "src/comm/engine.h"
#include "src/comm/operators.h"
#include "src/comm/user_memory.h"
#include "src/comm/watcher.h"
#include "src/exec/mailbox.h"
#include "src/exec/recorder.h"
#include "transports/transport.h"

namespace tutti::core {

class Communicator;

/// One bit per processor number; machines with more share bits, which only makes the count of processors smaller.
using CpuMask = std::array<std::uint64_t, 16>;

/// Memory of a communicator that has ended here, kept until no peer can touch it any more.
class Limbo {
 public:
  virtual ~Limbo() = default;
  /// True once every member has left or its process is gone.
  virtual bool free_now(const Watcher& watcher) const = 0;
};

class Process {
 public:
  /// The one instance; made on first call with that call's configuration. Errors: unavailable (shared memory),
  /// unsupported (this is a forked child of a process that used Tutti).
  static Result<Process*> get(const Config& config, const std::string& job);
  /// The instance if there is one.
  static Process* current();
  /// True in the child of a process that used Tutti.
  static bool forked() { return forked_.load(std::memory_order_relaxed); }
  static Status refuse_fork();
  ~Process();

  const ProcessId& id() const { return id_; }
  Endpoint& endpoint() { return *endpoint_; }
  std::byte* arena() const { return arena_; }
  Recorder& recorder() { return *recorder_; }
  /// A communicator has failed: what the recorder knows is kept at exit.
  void keep_recorder() { keep_recorder_.store(true, std::memory_order_relaxed); }
  Watcher& watcher() { return *watcher_; }
  Engine& engine() { return engine_; }
  UserMemory& memory() { return *memory_; }
  OperatorTable& operators() { return operators_; }
  /// Processors that this process may run on (affinity mask at its first communicator).
  const CpuMask& cpus() const { return cpus_; }

  /// The cost table of jobs whose rank 0 is here; found, or measured, once (cost_cache.h).
  Result<CostTable> cost_table(const Config& config);

  FifoBudget& fifos() { return fifos_; }
  /// Takes idle FIFOs of other communicators back while the budget is exceeded.
  void trim_fifos(const Communicator* own);

  void attach(Communicator* communicator);
  void detach(Communicator* communicator);
  /// Takes the memory of an ended communicator and frees what can be freed.
  void retire(std::unique_ptr<Limbo> memory);
  void sweep();

 private:
  Process() = default;
  static void at_exit();
  static void in_forked_child();
  static inline std::atomic<bool> forked_{false};
  void on_lost(const ProcessId& process, const std::string& text);

  ProcessId id_{};
  std::unique_ptr<Endpoint> endpoint_;
  std::byte* arena_ = nullptr;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<UserMemory> memory_;
  /// 64 FIFOs of the standard size: a job of 8 local ranks keeps all of its own, a hundred communicators share.
  FifoBudget fifos_{{0}, std::uint64_t{64} << 20};
  OperatorTable operators_;
  Engine engine_;
  std::mutex mutex_;  // communicators_, limbo_
  std::vector<Communicator*> communicators_;
  std::vector<std::unique_ptr<Limbo>> limbo_;
  CpuMask cpus_{};
  std::mutex cost_mutex_;
  std::optional<CostTable> cost_;  // where cost=measured
  std::atomic<bool> keep_recorder_{false};
  std::unique_ptr<Watcher> watcher_;  // last: its thread calls on_lost
};

}  // namespace tutti::core
