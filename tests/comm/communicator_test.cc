// SPDX-License-Identifier: Apache-2.0
// What shows only with a hand inside: operations that end while other threads wait, calls after a verdict, the engine's
// manners. Results are tested through the public interface (tests/api).
#include "src/comm/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/comm/thread_ranks.h"

namespace tutti::core {
namespace {

using testing::config_of;
using testing::eventually;
using testing::Rank;
using testing::spawn;

template <class T>
Call all_reduce(std::vector<T>& data) {
  Call call;
  call.what = TUTTI_ALL_REDUCE;
  call.type = sizeof(T) == 1 ? TUTTI_UINT8 : TUTTI_INT32;
  call.count = data.size();
  call.in = call.out = data.data();
  return call;
}

Operation& issue(Communicator& comm, const Call& call) {
  Operation* operation = std::move(comm.prepare(call)).value();
  EXPECT_TRUE(comm.submit(*operation).is_ok());
  return *operation;
}

// Several threads wait for operations of a communicator that another thread destroys under them.
TEST(Destroy, ends_what_other_threads_wait_for) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> destroyed{false};
    spawn(2, [&](Rank comm) {
      if (comm->rank() == 1) {  // never calls: rank 0's operations cannot finish
        EXPECT_TRUE(eventually([&] { return destroyed.load(); }));
        return;
      }
      constexpr int kWaiters = 3;
      std::vector<std::vector<std::int32_t>> data(kWaiters, std::vector<std::int32_t>(1000, 1));
      std::vector<Operation*> operations;
      for (auto& each : data) operations.push_back(&issue(*comm, all_reduce(each)));
      std::atomic<int> waiting{0};
      std::vector<std::thread> threads;
      for (Operation* operation : operations)
        threads.emplace_back([&, operation] {
          Communicator& own = *operation->communicator;
          ++waiting;
          const Status status = own.wait(*operation, -1);
          EXPECT_EQ(status.code(), TUTTI_ABORTED) << status.to_string();
        });
      EXPECT_TRUE(eventually([&] { return waiting == kWaiters && comm->has_waiter(); }));
      comm.reset();
      destroyed = true;
      for (std::thread& thread : threads) thread.join();
      for (Operation* operation : operations) {
        EXPECT_TRUE(operation->done());
        operation->release();
      }
    });
  }
}

// A call that needs nothing of the others still sees that the communicator has ended.
TEST(Verdict, stops_calls_that_need_no_peer) {
  spawn(2, [](Rank comm) {
    ASSERT_TRUE(comm->run(Call{}).is_ok());
    if (comm->rank() == 1) comm->abort("on purpose");
    ASSERT_TRUE(eventually([&] {
      std::vector<std::int32_t> nothing;
      return comm->run(all_reduce(nothing)).code() == TUTTI_ABORTED;
    }));
    ASSERT_FALSE(comm->status().is_ok());
    EXPECT_NE(comm->status().message().find("on purpose"), std::string::npos) << comm->status().to_string();
  });
}

// While the progress thread moves a large operation, other threads still get at the engine.
TEST(EngineManners, issuing_does_not_wait_for_other_operations_to_end) {
  constexpr std::size_t kLarge = std::size_t{96} << 20;
  spawn(2, [&](Rank comm) {
    Rank other = std::move(comm->split(0, 0, nullptr)).value();
    std::vector<std::uint8_t> large(kLarge, 1);
    ASSERT_TRUE(comm->run(Call{}).is_ok());
    const std::int64_t begin = monotonic_ns();
    Operation& slow = issue(*comm, all_reduce(large));
    std::int64_t longest = 0;
    std::vector<std::int32_t> done(1, 0);
    while (done[0] < 2) {  // until it has ended on both
      done[0] = slow.done();
      const std::int64_t before = monotonic_ns();
      Operation& quick = issue(*other, all_reduce(done));
      longest = std::max(longest, monotonic_ns() - before);
      ASSERT_TRUE(other->wait(quick, -1).is_ok());
      quick.release();
    }
    const std::int64_t all = monotonic_ns() - begin;
    EXPECT_LT(longest, all / 2) << "of " << all << " ns that the large operation took";
    EXPECT_TRUE(comm->wait(slow, -1).is_ok());
    EXPECT_EQ(large[kLarge / 2], 2);
    slow.release();
  });
}

// All calls of all_to_all_v share what is known of one; its size is each call's own.
TEST(Records, all_to_all_v_has_its_own_size) {
  spawn(2, [](Rank comm) {
    std::vector<std::uint8_t> in(100, 1), out(100);
    for (const std::uint64_t count : {std::uint64_t{3}, std::uint64_t{40}}) {
      const std::uint64_t counts[] = {count, count};
      Call call;
      call.what = TUTTI_ALL_TO_ALL_V;
      call.type = TUTTI_UINT8;
      call.blocks.counts = call.received.counts = counts;
      call.count = 2 * count;
      call.in = in.data();
      call.out = out.data();
      ASSERT_TRUE(comm->run(call).is_ok());
    }
    if (comm->rank() != 0) return;
    auto snapshot = read_recorder(comm->process().recorder().path());
    ASSERT_TRUE(snapshot.is_ok()) << snapshot.status().to_string();
    std::vector<std::uint64_t> sizes;
    for (const auto& slot : snapshot->slots)
      if (slot->state == 1 && slot->rank == 0)
        for (const Record& record : slot->records)
          if (record.sequence != 0 && record.what == TUTTI_ALL_TO_ALL_V) sizes.push_back(record.bytes);
    EXPECT_EQ(sizes, (std::vector<std::uint64_t>{6, 80}));
  });
}

TEST(Split, settings_must_be_equal_within_a_group) {
  spawn(3, [](Rank comm) {
    const tutti_config config = config_of(comm->rank() == 1 ? "slice_bytes=64K" : "slice_bytes=256K");
    auto refused = comm->split(0, 0, &config);
    EXPECT_EQ(refused.status().code(), TUTTI_MISMATCH);
    EXPECT_NE(refused.status().message().find("rank 1"), std::string::npos) << refused.status().to_string();
    // In groups of their own they may differ, and the parent lives on.
    auto made = comm->split(comm->rank() == 1, 0, &config);
    EXPECT_TRUE(made.is_ok()) << made.status().to_string();
    EXPECT_TRUE(comm->run(Call{}).is_ok());
  });
}

// Splits of one communicator are calls of it: in a group they run in order, not side by side.
TEST(GroupCreations, splits_of_one_parent_run_one_after_the_other) {
  spawn(2, [](Rank comm) {
    constexpr int kSplits = 4;
    std::vector<Rank> made(kSplits);
    Group& group = Group::current();
    group.begin();
    for (int i = 0; i < kSplits; ++i)
      group.add_creation(comm.get(), [&, i]() -> Status {
        TUTTI_TRY(child, comm->split(0, i % 2 ? -comm->rank() : comm->rank(), nullptr));
        made[static_cast<std::size_t>(i)] = std::move(child);
        return {};
      });
    const Status status = group.end();
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    for (int i = 0; i < kSplits; ++i) {
      const Rank& child = made[static_cast<std::size_t>(i)];
      ASSERT_NE(child, nullptr);
      EXPECT_EQ(child->rank(), i % 2 ? 1 - comm->rank() : comm->rank());
      EXPECT_TRUE(child->run(Call{}).is_ok());
    }
  });
}

struct Seen {
  std::vector<std::string> algorithms;
};

TEST(Events, point_to_point_has_no_row_although_a_collective_ran_before) {
  spawn(2, [](Rank comm) {
    Seen seen;
    comm->set_event_hook(
        [](const tutti_event* event, void* argument) {
          static_cast<Seen*>(argument)->algorithms.emplace_back(event->algorithm);
        },
        &seen);
    ASSERT_TRUE(comm->run(Call{}).is_ok());
    std::int32_t value = 0;
    Call call;
    call.what = comm->rank() == 0 ? TUTTI_SEND : TUTTI_RECV;
    call.type = TUTTI_INT32;
    call.peer = 1 - comm->rank();
    call.count = 1;
    call.in = call.out = &value;
    ASSERT_TRUE(comm->run(call).is_ok());
    comm->set_event_hook(nullptr, nullptr);
    EXPECT_EQ(seen.algorithms, (std::vector<std::string>{"dissemination", "dissemination", "", ""}));
  });
}

// A receive from a rank that has left fails at once, although another one that can still arrive was posted first.
TEST(Departed, every_receive_notices_its_own_sender) {
  std::atomic<bool> left{false};
  spawn(3, [&](Rank comm) {
    const int rank = comm->rank();
    if (rank == 2) {
      comm.reset();
      left = true;
      return;
    }
    ASSERT_TRUE(eventually([&] { return left.load(); }));
    if (rank == 1) {
      EXPECT_TRUE(eventually([&] { return !comm->status().is_ok(); }));
      return;
    }
    std::int32_t first = 0, second = 0;
    Call call;
    call.what = TUTTI_RECV;
    call.type = TUTTI_INT32;
    call.count = 1;
    call.peer = 1;
    call.out = &first;
    Operation& alive = issue(*comm, call);
    call.peer = 2;
    call.out = &second;
    const std::int64_t begin = monotonic_ns();
    const Status status = comm->run(call);
    EXPECT_EQ(status.code(), TUTTI_PEER_LOST) << status.to_string();
    EXPECT_EQ(status.failing_rank(), 2);
    EXPECT_LT(monotonic_ns() - begin, 20'000'000'000) << "the deadline is 30 s";
    EXPECT_FALSE(comm->wait(alive, -1).is_ok());
    alive.release();
  });
}

}  // namespace
}  // namespace tutti::core
