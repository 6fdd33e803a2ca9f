// SPDX-License-Identifier: Apache-2.0
// The threads that drive what nobody waits for, and that call back.
#include "src/comm/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/comm/thread_ranks.h"

namespace tutti::core {
namespace {

using testing::eventually;
using testing::Rank;
using testing::spawn;

TEST(Engine, callbacks_run_in_order_on_a_thread_of_their_own) {
  Engine engine;
  std::vector<int> order;
  std::atomic<int> ran{0};
  std::thread::id thread;
  for (int i = 0; i < 5; ++i)
    engine.call_back([&, i] {
      order.push_back(i);
      thread = std::this_thread::get_id();
      ++ran;
    });
  ASSERT_TRUE(eventually([&] { return ran == 5; }));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Engine, stop_runs_what_is_queued_first_and_may_come_twice) {
  Engine engine;
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) engine.call_back([&] { ++ran; });
  engine.stop();
  EXPECT_EQ(ran, 100);
  engine.stop();
}

TEST(Engine, a_callback_may_ask_for_another) {
  Engine engine;
  std::atomic<int> ran{0};
  engine.call_back([&] {
    engine.call_back([&] { ++ran; });
    ++ran;
  });
  EXPECT_TRUE(eventually([&] { return ran == 2; }));
}

TEST(Engine, helps_nobody_when_nothing_is_active) {
  Engine engine;
  EXPECT_FALSE(engine.help(nullptr));
}

// Nobody waits, tests or polls: the engine alone brings the operations to their ends.
TEST(Engine, drives_what_nobody_waits_for) {
  std::atomic<int> done{0};
  spawn(3, [&](Rank comm) {
    std::vector<std::int32_t> data(50'000, 1);
    Call call;
    call.what = TUTTI_ALL_REDUCE;
    call.type = TUTTI_INT32;
    call.count = data.size();
    call.in = call.out = data.data();
    Operation* operation = std::move(comm->prepare(call)).value();
    ASSERT_TRUE(comm->submit(*operation).is_ok());
    EXPECT_TRUE(eventually([&] { return operation->done(); }));
    EXPECT_TRUE(operation->status().is_ok());
    EXPECT_EQ(data, std::vector<std::int32_t>(50'000, 3));
    operation->release();
    ++done;
    EXPECT_TRUE(eventually([&] { return done == 3; }));
    EXPECT_TRUE(comm->quiet());
  });
}

// The progress thread makes way for stop() just before it goes to sleep. ctest's limit is the assertion.
TEST(Engine, stop_is_not_slept_over) {
  spawn(1, [](Rank comm) {
    for (int round = 0; round < 8000; ++round) {
      Engine engine;
      engine.activate(comm.get());
      for (int turn = round % 50; turn > 0; --turn) engine.help(nullptr);
      engine.stop();
    }
  });
}

}  // namespace
}  // namespace tutti::core
