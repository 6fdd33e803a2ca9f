// SPDX-License-Identifier: Apache-2.0
#include "src/comm/engine.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "src/comm/communicator.h"

namespace tutti::core {

namespace {

/// Rounds without progress before the thread naps: it polls for others, so it must leave the core to them soon.
constexpr int kYieldRounds = 100;
/// Nobody waits for these operations right now, so half a millisecond of latency costs nobody anything.
constexpr std::chrono::microseconds kNap{500};

}  // namespace

Engine::~Engine() { stop(); }

void Engine::let_others_in(std::unique_lock<std::mutex>& lock) {
  while (wanted_.load(std::memory_order_relaxed) > 0) {
    lock.unlock();
    sched_yield();
    lock.lock();
  }
}

void Engine::activate(Communicator* communicator) {
  wanted_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  wanted_.fetch_sub(1, std::memory_order_relaxed);
  if (std::find(active_.begin(), active_.end(), communicator) == active_.end()) active_.push_back(communicator);
  if (!progress_.joinable() && !stopping_) {
    progress_ = std::thread([this] { progress_loop(); });
    pthread_setname_np(progress_.native_handle(), "tutti-progress");
  }
  wake_.notify_one();
}

void Engine::deactivate(Communicator* communicator) {
  wanted_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  wanted_.fetch_sub(1, std::memory_order_relaxed);
  std::erase(active_, communicator);
}

bool Engine::help(const Communicator* own) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  bool moved = false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Communicator* communicator = active_[i];
    if (communicator != own) moved |= communicator->poke();
  }
  return moved;
}

void Engine::progress_loop() {
  std::unique_lock lock(mutex_);
  int idle_rounds = 0;
  while (!stopping_) {
    let_others_in(lock);
    std::erase_if(active_, [](Communicator* communicator) { return communicator->quiet(); });
    if (active_.empty()) {
      idle_rounds = 0;
      // Looks again: making way for others above may have let stop() in, whose ring is over.
      wake_.wait(lock, [this] { return stopping_ || !active_.empty(); });
      continue;
    }
    bool moved = false, needed = false;
    for (Communicator* communicator : active_) {
      if (communicator->has_waiter()) continue;  // whoever waits drives
      needed = true;
      moved |= communicator->poke();
    }
    if (moved) {
      idle_rounds = 0;
      continue;
    }
    if (needed && ++idle_rounds < kYieldRounds) {
      lock.unlock();
      sched_yield();
      lock.lock();
      continue;
    }
    wake_.wait_for(lock, kNap);
  }
}

void Engine::call_back(std::function<void()> callback) {
  std::lock_guard lock(callback_mutex_);
  callbacks_.push_back(std::move(callback));
  if (!callback_thread_.joinable() && !callbacks_stopping_) {
    callback_thread_ = std::thread([this] { callback_loop(); });
    pthread_setname_np(callback_thread_.native_handle(), "tutti-callback");
  }
  callback_wake_.notify_one();
}

void Engine::callback_loop() {
  std::unique_lock lock(callback_mutex_);
  for (;;) {
    callback_wake_.wait(lock, [this] { return callbacks_stopping_ || !callbacks_.empty(); });
    if (callbacks_.empty()) return;
    auto callback = std::move(callbacks_.front());
    callbacks_.pop_front();
    lock.unlock();
    callback();
    lock.lock();
  }
}

void Engine::stop() {
  {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    stopping_ = true;
    wake_.notify_all();
  }
  if (progress_.joinable()) progress_.join();
  {
    std::lock_guard lock(callback_mutex_);
    callbacks_stopping_ = true;
    callback_wake_.notify_all();
  }
  // exit() may be called from a callback.
  if (callback_thread_.joinable()) {
    if (callback_thread_.get_id() == std::this_thread::get_id()) {
      callback_thread_.detach();
    } else {
      callback_thread_.join();
    }
  }
}

void Engine::forget_after_fork() {
  // The threads do not exist in the child; their handles must not be joined.
  if (progress_.joinable()) progress_.detach();
  if (callback_thread_.joinable()) callback_thread_.detach();
}

}  // namespace tutti::core
