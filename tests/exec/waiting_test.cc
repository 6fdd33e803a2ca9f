// SPDX-License-Identifier: Apache-2.0
#include "src/exec/waiting.h"

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

/// Ping-pong in which each side sleeps between messages. Returns the median round trip in nanoseconds.
std::int64_t median_round_trip(World& world, int rounds) {
  register_for_wake_ups();
  const auto await = [&](int rank, std::uint64_t sequence) {
    Waiter waiter({}, world.page(rank));
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

TEST(WaiterThreads, sleepers_are_woken_by_messages) {
  World world(2);
  const std::int64_t median = median_round_trip(world, 2000);
  ::testing::Test::RecordProperty("median_round_trip_ns", std::to_string(median));
#if !defined(__SANITIZE_THREAD__)
  // Two sleeps that nobody ends take two milliseconds.
  EXPECT_LT(median, 2'000'000);
#endif
  EXPECT_EQ(world.page(0).sleeping.load(), 0u);
  EXPECT_EQ(world.page(1).sleeping.load(), 0u);
}

}  // namespace
}  // namespace tutti::core
