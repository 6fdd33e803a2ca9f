// SPDX-License-Identifier: Apache-2.0
// Small blocking calls of two ranks may take a way of their own; what they send and give must not depend on that.
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Communicator;

/// From now on every call of this rank goes the long way.
void prevent_short_way(Communicator& comm) {
  ASSERT_STATUS_OK(comm.set_event_hook([](const tutti_event&) {}));
}

TEST(SmallCalls, a_row_asked_for_once_does_not_run_the_calls_that_ask_for_none) {
  // Rows that are one exchange of two ranks: whichever the selector takes, one of them is another one.
  for (const std::string row : {"one_shot", "recursive_doubling"})
    spawn(2, [&](Communicator& comm) {
      std::vector<float> data(2, 1);
      for (int i = 0; i < 2; ++i) ASSERT_STATUS_OK(comm.all_reduce(data, tutti::Op::sum, {.algorithm = row}));
      if (comm.rank() == 1) prevent_short_way(comm);
      for (int i = 0; i < 2; ++i) ASSERT_STATUS_OK(comm.all_reduce(data));
      EXPECT_EQ(data[1], 16);
    });
}

// A call that the progress thread has started is remembered by it, while this thread looks for what it remembers.
// (ThreadSanitizer finds it, since nothing but the library orders the two.)
TEST(SmallCalls, beside_asynchronous_ones) {
  spawn(2, [](Communicator& comm) {
    // Calls of 1 and 33 bytes share a place among those remembered.
    std::atomic<int> ended{0};
    std::vector<std::uint8_t> large(300000, 1), other(33, 1), small(1, 1);
    for (int i = 0; i < 20; ++i) {
      ASSERT_STATUS_OK(comm.all_reduce(small, tutti::Op::max));
      auto first = comm.async().all_reduce(large, tutti::Op::max);
      ASSERT_STATUS_OK(first.status());
      auto second = comm.async().all_reduce(other, tutti::Op::max);
      ASSERT_STATUS_OK(second.status());
      ASSERT_STATUS_OK(second->on_complete([&ended](tutti::Code) { ended.fetch_add(1, std::memory_order_relaxed); }));
      ASSERT_TRUE(eventually([&ended, i] { return ended.load(std::memory_order_relaxed) > i; }));
      ASSERT_STATUS_OK(comm.all_reduce(small, tutti::Op::max));
      ASSERT_STATUS_OK(first->wait());
      ASSERT_STATUS_OK(second->wait());
    }
  });
}

// The line of such a call travels before its rank has said what it calls.
TEST(SmallCalls, that_differ_are_both_named) {
  for (int round = 0; round < 20; ++round)
    spawn(2, [](Communicator& comm) {
      std::vector<float> four(4, 1), five(5, 1);
      for (int i = 0; i < 2; ++i) {
        ASSERT_STATUS_OK(comm.all_reduce(four));
        ASSERT_STATUS_OK(comm.all_reduce(five));
      }
      const tutti::Status status = comm.all_reduce(comm.rank() == 0 ? four : five);
      EXPECT_EQ(status.code(), tutti::Code::mismatch);
      for (const char* part : {"float32 x 4", "float32 x 5"})
        EXPECT_NE(status.text().find(part), std::string::npos) << status.text();
    });
}

// Every rank chooses for itself how it makes a call: the messages are the same.
TEST(SmallCalls, may_go_another_way_on_every_rank) {
  constexpr unsigned kSeeds = 20, kCalls = 200;
  for (unsigned seed = 1; seed <= kSeeds; ++seed)
    spawn(2, [seed](Communicator& comm) {
      std::mt19937 shared(seed), own(2 * seed + static_cast<unsigned>(comm.rank()));
      std::vector<std::vector<int>> data(kCalls);
      std::vector<tutti::Work> works;
      for (auto& each : data) {
        each.assign(1 + shared() % 14, 1);
        if (own() % 40 == 0) prevent_short_way(comm);
        if (own() % 40 == 0) {
          ASSERT_STATUS_OK(comm.set_event_hook(nullptr));
        }
        switch (own() % 4) {
          case 0: works.push_back(comm.async().all_reduce(each).value()); break;
          case 1: ASSERT_STATUS_OK(comm.all_reduce(each, tutti::Op::sum, {.tag = 3})); break;
          default: ASSERT_STATUS_OK(comm.all_reduce(each));
        }
        if (shared() % 8 == 0) {
          ASSERT_STATUS_OK(comm.barrier());
        }
        if (own() % 8 != 0) continue;
        for (tutti::Work& work : works) ASSERT_STATUS_OK(work.wait());
        works.clear();
      }
      for (tutti::Work& work : works) ASSERT_STATUS_OK(work.wait());
      for (const auto& each : data) ASSERT_EQ(each, std::vector<int>(each.size(), 2)) << "seed " << seed;
    });
}

}  // namespace
}  // namespace api_test
