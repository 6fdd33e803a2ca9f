// SPDX-License-Identifier: Apache-2.0
// Communicators progress independently, whatever order other ranks issue in.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Communicator;
using tutti::Work;

constexpr int kCommunicators = 4;
constexpr int kRanks = 4;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Four communicators over the same four ranks, on each rank's thread.
void with_communicators(const std::function<void(int rank, std::vector<Communicator>&)>& body) {
  spawn(kRanks, [&](Communicator& comm) {
    std::vector<Communicator> comms;
    for (int i = 0; i < kCommunicators; ++i) comms.push_back(comm.split(0, comm.rank()).value());
    body(comm.rank(), comms);
  });
}

/// One round: every communicator gets 1 to 3 operations; each rank issues them in an order of its own (kept within a
/// communicator) and then waits in another order of its own. All ranks issue the whole round before they wait.
void random_round(int rank, std::vector<Communicator>& comms, unsigned seed) {
  std::mt19937 shared(seed);
  std::vector<int> order;
  std::vector<std::size_t> counts;
  for (int c = 0; c < kCommunicators; ++c)
    for (auto i = shared() % 3; i < 3; ++i) order.push_back(c);
  for (std::size_t i = 0; i < order.size(); ++i) counts.push_back(1 + (shared() % 8 == 0 ? 30000 : shared() % 2000));

  std::mt19937 own(seed * 31 + static_cast<unsigned>(rank) + 1);
  std::shuffle(order.begin(), order.end(), own);
  std::vector<std::vector<int>> data(order.size());
  std::vector<Work> works;
  std::array<std::size_t, kCommunicators> issued{};
  std::vector<int> expected;
  for (std::size_t i = 0; i < order.size(); ++i) {
    // The n-th operation of a communicator is the same on all ranks.
    const int c = order[i];
    const std::size_t n = issued[at(c)]++;
    data[i].assign(counts[at(c) * 2 % counts.size()] + n, rank + c);
    works.push_back(comms[at(c)].async().all_reduce(data[i]).value());
    expected.push_back(kRanks * (kRanks - 1) / 2 + kRanks * c);
  }
  std::vector<std::size_t> waits(works.size());
  std::iota(waits.begin(), waits.end(), std::size_t{0});
  std::shuffle(waits.begin(), waits.end(), own);
  for (const std::size_t i : waits) {
    ASSERT_STATUS_OK(works[i].wait()) << "seed " << seed << ", rank " << rank << ", communicator " << order[i];
    ASSERT_EQ(data[i], std::vector<int>(data[i].size(), expected[i])) << "seed " << seed << ", rank " << rank;
  }
}

#if defined(__SANITIZE_THREAD__)
constexpr unsigned kOrders = 100;
#else
constexpr unsigned kOrders = 1000;
#endif

TEST(Engine, a_thousand_random_issue_orders_never_hang) {
  with_communicators([](int rank, std::vector<Communicator>& comms) {
    for (unsigned seed = 1; seed <= kOrders; ++seed) {
      random_round(rank, comms, seed);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

// Rank 3 withholds its call on communicator 0; the other three communicators finish on every rank while it does.
TEST(Engine, a_withheld_peer_holds_up_its_own_communicator_only) {
  for (int first = 0; first < kCommunicators; ++first) {  // the withheld one issued first, ..., last
    std::atomic<int> finished{0};
    std::atomic<std::int64_t> slowest_ns{0};
    with_communicators([&](int rank, std::vector<Communicator>& comms) {
      std::vector<std::vector<float>> data(kCommunicators, std::vector<float>(20000, 1));
      std::vector<Work> works(kCommunicators);
      const std::int64_t begin = now_ns();
      for (int i = 0; i < kCommunicators; ++i) {
        const int c = (i + first) % kCommunicators;
        if (rank == 3 && c == 0) continue;
        works[at(c)] = comms[at(c)].async().all_reduce(data[at(c)]).value();
      }
      for (int c = 1; c < kCommunicators; ++c) ASSERT_STATUS_OK(works[at(c)].wait());
      const std::int64_t took = now_ns() - begin;
      for (std::int64_t seen = slowest_ns; took > seen && !slowest_ns.compare_exchange_weak(seen, took);) {
      }
      ++finished;
      if (rank == 3) {
        ASSERT_TRUE(eventually([&] { return finished == kRanks; })) << "the others did not finish without it";
        works[0] = comms[0].async().all_reduce(data[0]).value();
      } else if (finished < kRanks) {
        const auto done = works[0].test();
        ASSERT_STATUS_OK(done.status());
        EXPECT_FALSE(*done && finished < kRanks);
      }
      ASSERT_STATUS_OK(works[0].wait());
      for (const auto& mine : data) EXPECT_EQ(mine, std::vector<float>(20000, kRanks));
    });
    ::testing::Test::RecordProperty("slowest_us_" + std::to_string(first), std::to_string(slowest_ns / 1000));
    EXPECT_LT(slowest_ns, 5'000'000'000) << "50 ms when the machine is idle";
  }
}

// The same with nobody waiting: the engine alone.
TEST(Engine, callbacks_of_other_communicators_come_while_one_is_withheld) {
  std::atomic<int> called{0};
  with_communicators([&](int rank, std::vector<Communicator>& comms) {
    std::vector<std::vector<float>> data(kCommunicators, std::vector<float>(5000, 1));
    std::vector<Work> works;
    for (int c = rank == 3 ? 1 : 0; c < kCommunicators; ++c) {
      works.push_back(comms[at(c)].async().all_reduce(data[at(c)]).value());
      if (c == 0) continue;
      ASSERT_STATUS_OK(works.back().on_complete([&](tutti::Code code) {
        EXPECT_EQ(code, tutti::Code::ok);
        ++called;
      }));
    }
    ASSERT_TRUE(eventually([&] { return called == kRanks * (kCommunicators - 1); }));
    if (rank == 3) works.push_back(comms[0].async().all_reduce(data[0]).value());
    for (Work& work : works) ASSERT_STATUS_OK(work.wait());
  });
}

}  // namespace
}  // namespace api_test
