// SPDX-License-Identifier: Apache-2.0
#include "src/exec/waiting.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/exec/world.h"

namespace tutti::core {
namespace {

TEST(WaitPolicy, spins_with_a_core_for_every_rank_and_yields_without) {
  const WaitPolicy roomy = WaitPolicy::make(-1, 4, 4);
  EXPECT_GT(roomy.spins, 0u);
  const WaitPolicy crowded = WaitPolicy::make(-1, 5, 4);
  EXPECT_EQ(crowded.spins, 0u) << "whoever is awaited needs this core";
  EXPECT_GT(crowded.yields, roomy.yields);
  EXPECT_EQ(WaitPolicy::make(0, 1, 4).spins, 0u);
  EXPECT_EQ(WaitPolicy::make(20, 1, 4).spins * 5, WaitPolicy::make(100, 1, 4).spins);
  EXPECT_EQ(WaitPolicy::make(20, 9, 1).spins, WaitPolicy::make(20, 1, 4).spins) << "the knob wins";
  EXPECT_GT(WaitPolicy::make(1'000'000, 1, 4).spins, WaitPolicy::make(999'999, 1, 4).spins);
}

TEST(Waiter, spins_then_yields_then_asks_to_sleep) {
  World world(1);
  WaitPolicy policy;
  policy.spins = 100;
  policy.yields = 3;
  Waiter waiter(policy, world.page(0));
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < policy.spins; ++i) {
      EXPECT_TRUE(waiter.spinning());
      EXPECT_FALSE(waiter.pause());
    }
    EXPECT_FALSE(waiter.spinning());
    for (std::uint32_t i = 0; i < policy.yields; ++i) EXPECT_FALSE(waiter.pause());
    EXPECT_TRUE(waiter.pause());
    EXPECT_EQ(waiter.polls(), policy.spins + policy.yields + 1);
    waiter.reset();
  }
}

TEST(Waiter, cancelling_leaves_nobody_asleep) {
  World world(1);
  Waiter first({}, world.page(0)), second({}, world.page(0));
  first.prepare();
  second.prepare();
  EXPECT_EQ(world.page(0).sleeping.load(), 2u);
  first.cancel();
  EXPECT_EQ(world.page(0).sleeping.load(), 1u);
  second.cancel();
  EXPECT_EQ(world.page(0).sleeping.load(), 0u);
}

TEST(Waiter, a_ring_after_prepare_is_not_slept_over) {
  World world(1);
  Waiter waiter({}, world.page(0));
  // A sleep that misses its ring takes the whole millisecond; many that do not take less than half of that.
  constexpr int kRounds = 200;
  const std::int64_t begin = monotonic_ns();
  for (int i = 0; i < kRounds; ++i) {
    waiter.prepare();
    SendChannel::ring(world.page(0));
    waiter.sleep();
  }
  EXPECT_LT(monotonic_ns() - begin, kRounds * std::int64_t{500'000});
  EXPECT_EQ(world.page(0).sleeping.load(), 0u);
}

TEST(Waiter, a_sleep_without_a_ring_ends) {
  World world(1);
  Waiter waiter({}, world.page(0));
  waiter.prepare();
  waiter.sleep();  // ctest's deadline is the assertion
  EXPECT_EQ(world.page(0).sleeping.load(), 0u);
}

/// Nanoseconds of the calling thread's time slice; 0: the kernel does not say.
std::uint64_t own_slice() {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  return syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 ? attributes.runtime : 0;
}

TEST(ShortSlices, are_asked_for_by_the_thread_that_yields_and_by_no_other) {
  const std::uint64_t before = own_slice();
  if (before < 500'000) GTEST_SKIP() << "this kernel has no time slices per thread, or this thread already has its own";
  std::uint64_t without = 0, after = 0;
  std::thread([&] {
    World world(1);
    WaitPolicy policy = WaitPolicy::make(-1, 2, 1);
    Waiter(policy, world.page(0)).pause();
    without = own_slice();
    policy.short_slices = true;
    Waiter(policy, world.page(0)).pause();
    after = own_slice();
  }).join();
  EXPECT_EQ(without, before);
  EXPECT_EQ(after, 100'000u);
  EXPECT_EQ(own_slice(), before);
}

/// Ping-pong in which each side sleeps between messages. Returns the median round trip in nanoseconds.
std::int64_t median_round_trip(World& world, int rounds, const WaitPolicy& policy) {
  for (int rank = 0; rank < 2; ++rank) world.page(rank).sleeping.store(policy.crowded ? kCrowded : 0);
  register_for_wake_ups();
  const auto await = [&](int rank, std::uint64_t sequence) {
    Waiter waiter(policy, world.page(rank));
    const auto there = [&] {
      ReceiveChannel* channel = world.channels(rank).receive(1 - rank, 0);
      return channel && channel->sequence() == sequence && channel->ready(kTestEpoch);
    };
    while (!there()) {
      waiter.prepare();
      if (there())
        waiter.cancel();
      else
        waiter.sleep();
    }
    world.channels(rank).receive(1 - rank, 0)->release(8);
  };
  const auto send = [&](int rank) {
    SendChannel* channel = world.channels(rank).send(1 - rank, 0);
    ASSERT_NE(channel->reserve(8, 0), nullptr);
    channel->commit(8, 1, kTestEpoch);
  };
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      await(1, static_cast<std::uint64_t>(i));
      send(1);
    }
  });
  std::vector<std::int64_t> times;
  for (int i = 0; i < rounds; ++i) {
    const std::int64_t begin = monotonic_ns();
    send(0);
    await(0, static_cast<std::uint64_t>(i));
    times.push_back(monotonic_ns() - begin);
  }
  other.join();
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

class WaiterThreads : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Crowded, WaiterThreads, ::testing::Bool());

TEST_P(WaiterThreads, sleepers_are_woken_by_messages) {
  World world(2);
  WaitPolicy policy;
  policy.crowded = GetParam();
  const std::int64_t median = median_round_trip(world, 2000, policy);
  ::testing::Test::RecordProperty("median_round_trip_ns", std::to_string(median));
#if !defined(__SANITIZE_THREAD__)
  // Two sleeps that nobody ends take two milliseconds.
  EXPECT_LT(median, 2'000'000);
#endif
  EXPECT_EQ(world.page(0).sleeping.load() & ~kCrowded, 0u);
  EXPECT_EQ(world.page(1).sleeping.load() & ~kCrowded, 0u);
}

}  // namespace
}  // namespace tutti::core
