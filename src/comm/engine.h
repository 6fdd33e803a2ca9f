// SPDX-License-Identifier: Apache-2.0
// Progress of asynchronous operations that nobody waits for. Whoever waits drives; the engine's thread drives the rest,
// and a second thread runs completion callbacks. Both start on first need and sleep when idle.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::core {

class Communicator;

class Engine {
 public:
  ~Engine();
  /// `communicator` has asynchronous work from now on; starts the thread on first need.
  void activate(Communicator* communicator);
  /// Not driven any more once this returns.
  void deactivate(Communicator* communicator);
  /// Advances every active communicator but `own` that nobody else drives. Returns true if something moved. Never
  /// blocks.
  bool help(const Communicator* own);
  /// Runs `callback` on the callback thread.
  void call_back(std::function<void()> callback);
  /// Joins the threads; queued callbacks run first. Idempotent.
  void stop();
  void forget_after_fork();

 private:
  void progress_loop();
  void let_others_in(std::unique_lock<std::mutex>& lock);
  void callback_loop();

  std::mutex mutex_;  // active_, stopping_
  /// Threads that want mutex_: the progress thread, which holds it while anything moves, makes way.
  std::atomic<int> wanted_{0};
  std::condition_variable wake_;
  std::vector<Communicator*> active_;
  bool stopping_ = false;
  std::thread progress_;

  std::mutex callback_mutex_;
  std::condition_variable callback_wake_;
  std::deque<std::function<void()>> callbacks_;
  bool callbacks_stopping_ = false;
  std::thread callback_thread_;
};

}  // namespace tutti::core
