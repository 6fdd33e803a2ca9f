// SPDX-License-Identifier: Apache-2.0
// Work: wait, test, times, callbacks, many operations at once.
#include <atomic>
#include <thread>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;
using tutti::Work;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

float sum_of_ranks(const Communicator& comm) { return static_cast<float>(comm.ranks() * (comm.ranks() - 1) / 2); }

TEST(Async, returns_at_once_and_wait_gives_the_result) {
  std::atomic<bool> issued{false};
  spawn(2, [&](Communicator& comm) {
    std::vector<float> data(5000, static_cast<float>(comm.rank()));
    // Rank 1 calls only after rank 0 has returned from its call and found it unfinished.
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return issued.load(); }));
    }
    auto work = comm.async().all_reduce(data);
    ASSERT_STATUS_OK(work.status());
    if (comm.rank() == 0) {
      const auto done = work->test();
      ASSERT_STATUS_OK(done.status());
      EXPECT_FALSE(*done);
      EXPECT_EQ(work->wait(milliseconds(1)).code(), Code::timeout);  // its own patience; the operation goes on
      EXPECT_STATUS_OK(comm.status());
      issued = true;
    }
    ASSERT_STATUS_OK(work->wait());
    EXPECT_STATUS_OK(work->wait());  // again: the same answer
    const auto done = work->test();
    ASSERT_STATUS_OK(done.status());
    EXPECT_TRUE(*done);
    EXPECT_EQ(data, std::vector<float>(5000, 1.0f));
  });
}

TEST(Async, test_alone_makes_progress) {
  for (const std::size_t count : {1u, 1000u, 300000u})
    spawn(3, [&](Communicator& comm) {
      std::vector<float> data(count, static_cast<float>(comm.rank()));
      auto work = comm.async().all_reduce(data).value();
      ASSERT_TRUE(eventually([&] {
        const auto done = work.test();
        EXPECT_STATUS_OK(done.status());
        return !done.is_ok() || *done;
      }));
      EXPECT_EQ(data, std::vector<float>(count, sum_of_ranks(comm)));
    });
}

// Nobody waits or tests: the progress engine alone must finish what was started, callbacks included.
TEST(Async, the_engine_finishes_without_waiters) {
  std::atomic<int> called{0};
  spawn(3, [&](Communicator& comm) {
    std::vector<float> data(100000, static_cast<float>(comm.rank()));
    auto work = comm.async().all_reduce(data).value();
    ASSERT_STATUS_OK(work.on_complete([&](Code code) {
      EXPECT_EQ(code, Code::ok);
      ++called;
    }));
    ASSERT_TRUE(eventually([&] { return called == 3; }));
    EXPECT_EQ(data, std::vector<float>(100000, sum_of_ranks(comm)));
  });
}

TEST(Async, a_callback_runs_elsewhere_even_when_added_late) {
  spawn(2, [](Communicator& comm) {
    std::atomic<bool> called{false};
    std::thread::id thread{};
    auto work = comm.async().barrier().value();
    ASSERT_STATUS_OK(work.wait());
    ASSERT_STATUS_OK(work.on_complete([&](Code code) {
      EXPECT_EQ(code, Code::ok);
      thread = std::this_thread::get_id();
      called = true;
    }));
    ASSERT_TRUE(eventually([&] { return called.load(); }));
    EXPECT_NE(thread, std::this_thread::get_id());
  });
}

TEST(Async, many_outstanding_operations_of_all_kinds_keep_their_order) {
  constexpr int kOperations = 300;
  for (const int ranks : {2, 4})
    spawn(ranks, [&](Communicator& comm) {
      std::vector<std::vector<std::int64_t>> data(kOperations);
      std::vector<Work> works;
      for (int i = 0; i < kOperations; ++i) {
        auto& mine = data[at(i)];
        mine.assign(at(1 + i * 37 % 3000), comm.rank() + i);
        const int root = i % ranks;
        works.push_back((i % 3 == 0   ? comm.async().broadcast(mine, root)
                         : i % 3 == 1 ? comm.async().all_reduce(mine, tutti::Op::max)
                                      : comm.async().all_reduce(mine))
                            .value());
      }
      for (int i = kOperations - 1; i >= 0; --i) {
        ASSERT_STATUS_OK(works[at(i)].wait()) << "operation " << i;
        const std::int64_t expected = i % 3 == 0   ? i % ranks + i
                                      : i % 3 == 1 ? ranks - 1 + i
                                                   : ranks * (ranks - 1) / 2 + std::int64_t{ranks} * i;
        ASSERT_EQ(data[at(i)], std::vector<std::int64_t>(data[at(i)].size(), expected)) << "operation " << i;
      }
    });
}

TEST(Async, a_blocking_call_after_asynchronous_ones_keeps_issue_order) {
  spawn(3, [](Communicator& comm) {
    for (int round = 0; round < 50; ++round) {
      std::vector<int> first(1000, 1), second(3, 2);
      auto work = comm.async().all_reduce(first).value();
      ASSERT_STATUS_OK(comm.all_reduce(second));
      EXPECT_TRUE(*work.test());  // issued earlier, so done earlier
      EXPECT_EQ(first, std::vector<int>(1000, 3));
      EXPECT_EQ(second, std::vector<int>(3, 6));
    }
  });
}

TEST(Async, a_released_work_goes_on) {
  spawn(2, [](Communicator& comm) {
    std::vector<int> data(200000, 1), last(1, 1);
    { const Work dropped = comm.async().all_reduce(data).value(); }
    ASSERT_STATUS_OK(comm.all_reduce(last));  // behind it in the same order
    EXPECT_EQ(data, std::vector<int>(200000, 2));
  });
}

TEST(Async, times_are_in_order_and_name_the_last_peer) {
  std::atomic<bool> go{false};
  spawn(3, [&](Communicator& comm) {
    std::vector<float> data(1000, 1);
    ASSERT_STATUS_OK(comm.barrier());
    if (comm.rank() == 2) {
      ASSERT_TRUE(eventually([&] { return go.load(); }));
    }
    const std::int64_t before = now_ns();
    auto work = comm.async().all_reduce(data, tutti::Op::sum, {.algorithm = "one_shot"}).value();
    if (comm.rank() != 2) {
      // Everything of the other early rank is here before rank 2 calls, so rank 2 is last.
      static_cast<void>(work.wait(milliseconds(50)));
      if (comm.rank() == 0) go = true;
    }
    ASSERT_STATUS_OK(work.wait());
    const std::int64_t after = now_ns();
    const auto times = work.times();
    ASSERT_STATUS_OK(times.status());
    EXPECT_LE(before - 100000, times->issued.count());  // the library may read a cheaper clock: 100 us of slack
    EXPECT_LE(times->issued, times->started);
    EXPECT_LE(times->started, times->done);
    EXPECT_LE(times->done.count(), after + 100000);
    EXPECT_GT(times->last_peer.count(), 0);
    EXPECT_LE(times->last_peer, times->done);
    if (comm.rank() == 0) {
      EXPECT_EQ(times->last_peer_rank, 2);
    }
    EXPECT_EQ(times->algorithm, "one_shot");
  });
}

TEST(Async, times_of_a_running_operation_have_no_end) {
  std::atomic<bool> go{false};
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return go.load(); }));
    }
    auto work = comm.async().barrier().value();
    if (comm.rank() == 0) {
      const auto times = work.times();
      ASSERT_STATUS_OK(times.status());
      EXPECT_GT(times->issued.count(), 0);
      EXPECT_EQ(times->done.count(), 0);
      go = true;
    }
    ASSERT_STATUS_OK(work.wait());
  });
}

TEST(Async, its_own_deadline_ends_an_operation_and_names_the_missing_rank) {
  std::atomic<bool> failed{false};
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return failed.load(); }));
      return;
    }
    std::vector<float> data(10, 1);
    auto work = comm.async().all_reduce(data, tutti::Op::sum, {.tag = 77, .timeout = milliseconds(200)}).value();
    const tutti::Status status = work.wait();
    failed = true;
    EXPECT_EQ(status.code(), Code::timeout) << status.text();
    EXPECT_NE(status.text().find("rank 1"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("all_reduce"), std::string::npos) << status.text();
  });
}

TEST(Async, a_work_outlives_its_communicator) {
  spawn(2, [](Communicator& comm) {
    std::vector<float> data(10, 1);
    auto second = comm.split(0).value();
    auto done = second.async().all_reduce(data).value();
    ASSERT_STATUS_OK(done.wait());
    Work hanging;
    if (comm.rank() == 0) hanging = second.async().barrier().value();
    second = Communicator();
    EXPECT_STATUS_OK(done.wait());
    if (comm.rank() == 0) {
      const tutti::Status status = hanging.wait();
      EXPECT_TRUE(status.code() == Code::aborted || status.code() == Code::peer_lost) << to_string(status);
    }
    ASSERT_STATUS_OK(comm.barrier());
  });
}

TEST(Async, count_zero_is_done_and_keeps_the_numbering) {
  spawn(3, [](Communicator& comm) {
    std::vector<float> none, one(1, 1);
    for (int round = 0; round < 20; ++round) {
      auto work = comm.async().all_reduce(none).value();
      ASSERT_STATUS_OK(work.wait());
      ASSERT_STATUS_OK(comm.broadcast(none, round % 3));
      one[0] = 1;
      ASSERT_STATUS_OK(comm.all_reduce(one));
      EXPECT_EQ(one[0], 3.0f);
    }
  });
}

}  // namespace
}  // namespace api_test
