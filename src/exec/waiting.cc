// SPDX-License-Identifier: Apache-2.0
#include "src/exec/waiting.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tutti::core {

namespace {

/// A poll of a cached line with its checks takes about 10 ns, and every eighth is followed by a pause (performance.md 0
/// fact 4).
constexpr std::uint32_t kPollsPerMicrosecond = 40;
constexpr std::uint32_t kDefaultSpinMicroseconds = 50;

/// Nanoseconds: the shortest slice that the kernel grants, and what nobody would call a choice of his own.
constexpr std::uint64_t kShortSlice = 100'000, kUsualSlices = 500'000;

}  // namespace

void use_short_slices() {
  thread_local bool asked = false;
  if (asked) return;
  asked = true;
  // glibc has no wrapper; the layout is the kernel's struct sched_attr, version 0.
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER || attributes.runtime < kUsualSlices) return;
  attributes.runtime = kShortSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void register_for_wake_ups() { syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0); }

WaitPolicy WaitPolicy::make(int spin_us, int local_ranks, int cores) {
  WaitPolicy policy;
  if (local_ranks <= cores) {
    const auto us = spin_us < 0 ? kDefaultSpinMicroseconds : static_cast<std::uint32_t>(spin_us);
    policy.spins = us * kPollsPerMicrosecond;
    policy.yields = 50;
  } else {
    policy.spins = spin_us < 0 ? 0 : static_cast<std::uint32_t>(spin_us) * kPollsPerMicrosecond;
    // A turn of all other ranks of the core takes a few yields; after many the peer is not just busy.
    policy.yields = 400;
    policy.crowded = true;
  }
  return policy;
}

bool Waiter::pause() {
  ++polls_;
  if (polls_ <= policy_.spins) {
#if defined(__x86_64__)
    // The first polls decide small operations: no pause there.
    if (polls_ > 64 && polls_ % 8 == 0) __builtin_ia32_pause();
#endif
    return false;
  }
  if (polls_ <= policy_.spins + policy_.yields) {
    if (policy_.short_slices) use_short_slices();
    sched_yield();
    return false;
  }
  return true;
}

void Waiter::prepare() {
  bell_ = own_.doorbell.load(std::memory_order_acquire);
  own_.sleeping.fetch_add(1, std::memory_order_seq_cst);
  // Orders this against the peers' "store the stamp, load sleeping" without a fence on their hot path. Where the kernel
  // refuses, the sleep's limit of 1 ms bounds a missed ring. It interrupts the other cores, 30 us in a virtual machine:
  // too much for those who sleep often, whose peers have the fence instead (must_ring).
  if (!policy_.crowded) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void Waiter::cancel() { own_.sleeping.fetch_sub(1, std::memory_order_relaxed); }

void Waiter::sleep() {
  const timespec limit{0, 1'000'000};
  syscall(SYS_futex, &own_.doorbell, FUTEX_WAIT, bell_, &limit, nullptr, 0);
  own_.sleeping.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tutti::core
