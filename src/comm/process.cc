// SPDX-License-Identifier: Apache-2.0
#include "src/comm/process.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "src/comm/communicator.h"
#include "src/comm/cost_cache.h"
#include "src/exec/waiting.h"
#include "transports/registry.h"

namespace tutti::core {

namespace {

std::mutex g_instance_mutex;
// Leaked on purpose: communicators may be used until the very end of the process; at_exit does the orderly part.
std::atomic<Process*> g_instance{nullptr};

}  // namespace

Process* Process::current() { return g_instance.load(std::memory_order_acquire); }

Status Process::refuse_fork() {
  return Status::error(TUTTI_UNSUPPORTED,
                       "this process was forked from one that uses Tutti; its communicators stay with the parent")
      .with_remedy("create communicators after fork, or exec a new program in the child");
}

Result<Process*> Process::get(const Config& config, const std::string& job) {
  if (forked()) return refuse_fork();
  std::lock_guard lock(g_instance_mutex);
  if (Process* known = current()) return known;
  TUTTI_TRY(config.apply_to_process());
  const TransportRow* row = find_transport("shm");
  TUTTI_CHECK(row != nullptr);
  TUTTI_TRY(endpoint, row->make());
  auto random = make_unique_id();
  if (!random.is_ok()) return random.status();
  auto* process = new Process();
  process->endpoint_ = std::move(endpoint);
  auto first = process->endpoint_->allocate(kLineStride);
  if (!first.is_ok()) {
    delete process;
    return first.status();
  }
  process->arena_ = first->pointer - first->offset;
  std::copy_n(random->begin(), process->id_.size(), process->id_.begin());
  process->memory_ = std::make_unique<UserMemory>(*process->endpoint_);
  process->recorder_ = Recorder::make(config.run_dir(), job);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_SET(0, &allowed);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) process->cpus_[cpu / 64 % process->cpus_.size()] |= std::uint64_t{1} << cpu % 64;
  register_for_wake_ups();
  process->watcher_ =
      Watcher::make([process](const ProcessId& id, const std::string& text) { process->on_lost(id, text); });
  static const int registered = [] {
    std::atexit(&Process::at_exit);
    return pthread_atfork(nullptr, nullptr, &Process::in_forked_child);
  }();
  (void)registered;
  g_instance.store(process, std::memory_order_release);
  return process;
}

Process::~Process() = default;

Result<CostTable> Process::cost_table(const Config& config) {
  if (!measures_cost(config)) return find_cost_table(config);
  std::lock_guard lock(cost_mutex_);
  if (!cost_) {
    TUTTI_TRY(found, find_cost_table(config));
    cost_ = std::move(found);
  }
  return *cost_;
}

void Process::attach(Communicator* communicator) {
  std::lock_guard lock(mutex_);
  communicators_.push_back(communicator);
}

void Process::detach(Communicator* communicator) {
  std::lock_guard lock(mutex_);
  std::erase(communicators_, communicator);
}

void Process::trim_fifos(const Communicator* own) {
  // Whoever holds the list is ending or being born: the next large operation tries again.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (Communicator* communicator : communicators_) {
    if (!fifos_.exceeded()) return;
    if (communicator != own) communicator->drop_idle_fifos();
  }
}

void Process::retire(std::unique_ptr<Limbo> memory) {
  {
    std::lock_guard lock(mutex_);
    limbo_.push_back(std::move(memory));
  }
  sweep();
}

void Process::sweep() {
  std::lock_guard lock(mutex_);
  std::erase_if(limbo_, [this](const std::unique_ptr<Limbo>& memory) { return memory->free_now(*watcher_); });
}

void Process::on_lost(const ProcessId& process, const std::string& text) {
  std::lock_guard lock(mutex_);
  for (Communicator* communicator : communicators_)
    if (communicator->has_member_in(process)) communicator->process_lost(process, text);
}

void Process::at_exit() {
  Process* process = current();
  if (!process || forked()) return;
  process->engine_.stop();
  {
    std::lock_guard lock(process->mutex_);
    for (Communicator* communicator : process->communicators_) communicator->leave_at_exit();
  }
  process->watcher_->stop();
  if (!process->keep_recorder_.load(std::memory_order_relaxed)) process->recorder_->remove();
}

void Process::in_forked_child() {
  Process* process = current();
  if (!process) return;
  forked_.store(true);
  // The parent's liveness connections must not stay open here: its death would go unnoticed.
  process->watcher_->forget_after_fork();
  process->engine_.forget_after_fork();
}

}  // namespace tutti::core
