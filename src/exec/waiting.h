// SPDX-License-Identifier: Apache-2.0
// How a thread waits for memory that another process writes: spin, then yield, then sleep on the control page's bell
// for at most a millisecond.
#pragma once

#include <cstdint>

#include "src/exec/control.h"

namespace tutti::core {

/// Once per process, before the first message: lets sleeping peers order their announcements against our stores.
void register_for_wake_ups();

struct WaitPolicy {
  std::uint32_t spins = 0;    ///< polls before the first yield
  std::uint32_t yields = 0;   ///< yields before the first sleep
  bool crowded = false;       ///< more local ranks than cores
  bool short_slices = false;  ///< the waiting thread asks the kernel for short time slices, once
  /// `spin_us` < 0: by cores. With a core for every local rank a waiter spins for about twice the cost of a wake-up (12
  /// us on the machines measured, performance.md section 0 fact 5); with fewer it must give the core away at once.
  static WaitPolicy make(int spin_us, int local_ranks, int cores);
};

/// Asks the kernel to run the calling thread in time slices of 0.1 ms (Linux 6.12 or later; elsewhere nothing happens).
/// A yield costs a thread the rest of its slice: with the usual 3 ms, ranks that take turns on a core hand it to any
/// other process for that long, each time. Does its work once per thread; leaves real-time threads and threads with a
/// slice of their own alone.
void use_short_slices();

class Waiter {
 public:
  Waiter(const WaitPolicy& policy, ControlPage& own) : policy_(policy), own_(own) {}
  /// Forget how long it has been: something moved.
  void reset() { polls_ = 0; }
  /// True while pause() only spins: the caller may keep its drive token.
  bool spinning() const { return polls_ < policy_.spins; }
  std::uint32_t polls() const { return polls_; }
  /// Spins or yields. Returns true when the next step is to sleep: the caller prepares, looks again, and calls sleep().
  bool pause();
  /// Announces that this rank is about to sleep. Look at everything that could have arrived after this call, then sleep
  /// or cancel.
  void prepare();
  void cancel();
  /// Sleeps until somebody rings or 1 ms has passed.
  void sleep();

 private:
  WaitPolicy policy_;
  ControlPage& own_;
  std::uint32_t polls_ = 0;
  std::uint32_t bell_ = 0;
};

}  // namespace tutti::core
