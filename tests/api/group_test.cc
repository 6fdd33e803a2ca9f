// SPDX-License-Identifier: Apache-2.0
// Groups: sends and receives in any order, nesting, several ranks in one thread, creation and split inside.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;
using tutti::Group;
using tutti::Work;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::vector<Communicator> create_all(int ranks) {
  const auto id = tutti::UniqueId::create().value();
  Group group;
  std::vector<Communicator> comms;
  for (int rank = 0; rank < ranks; ++rank)
    comms.push_back(Communicator::create(id, rank, ranks, test_config()).value());
  EXPECT_STATUS_OK(group.end());
  return comms;
}

// Every pair exchanges a message above the eager limit, issued in an order of the rank's own.
TEST(Group, sends_and_receives_in_any_order_cannot_deadlock) {
  for (const int ranks : {2, 3, 5})
    for (const std::size_t count : {1u, 100u, 50000u})
      spawn(ranks, [&](Communicator& comm) {
        std::vector<std::vector<int>> out(at(ranks), std::vector<int>(count, comm.rank()));
        std::vector<std::vector<int>> in(at(ranks), std::vector<int>(count, -1));
        std::vector<int> order(at(2 * ranks));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(comm.rank())));
        Group group;
        for (const int what : order) {
          const int peer = what / 2;
          ASSERT_STATUS_OK(what % 2 == 0 ? comm.send(out[at(peer)], peer) : comm.recv(in[at(peer)], peer));
        }
        ASSERT_STATUS_OK(group.end());
        for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ(in[at(peer)], std::vector<int>(count, peer));
      });
}

TEST(Group, blocking_calls_inside_return_at_once_and_are_complete_after_the_end) {
  std::atomic<bool> inside{false};
  spawn(2, [&](Communicator& comm) {
    std::vector<float> first(10, 1), second(20000, 2);
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return inside.load(); }));
    }
    Group group;
    ASSERT_STATUS_OK(comm.all_reduce(first));
    ASSERT_STATUS_OK(comm.all_reduce(second));
    inside = true;  // rank 0 got here without rank 1
    ASSERT_STATUS_OK(group.end());
    EXPECT_EQ(first, std::vector<float>(10, 2));
    EXPECT_EQ(second, std::vector<float>(20000, 4));
  });
}

TEST(Group, nests_and_starts_at_the_outermost_end) {
  std::atomic<bool> inner_ended{false};
  spawn(2, [&](Communicator& comm) {
    std::vector<float> data(10, 1);
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return inner_ended.load(); }));
    }
    Group outer;
    {
      Group inner;
      ASSERT_STATUS_OK(comm.all_reduce(data));
      ASSERT_STATUS_OK(inner.end());
    }
    inner_ended = true;
    EXPECT_EQ(data[0], 1.0f);
    ASSERT_STATUS_OK(outer.end());
    EXPECT_EQ(data[0], 2.0f);
  });
}

TEST(Group, asynchronous_operations_inside_have_works) {
  spawn(3, [](Communicator& comm) {
    std::vector<int> data(1000, comm.rank());
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    std::vector<int> from(30000), to(30000, comm.rank());
    Group group;
    Work receive = comm.async().recv(from, previous, 4).value();
    Work reduce = comm.async().all_reduce(data).value();
    Work send = comm.async().send(to, next, 4).value();
    ASSERT_STATUS_OK(group.end());
    ASSERT_STATUS_OK(send.wait());
    ASSERT_STATUS_OK(receive.wait());
    ASSERT_STATUS_OK(reduce.wait());
    EXPECT_EQ(data, std::vector<int>(1000, 3));
    EXPECT_EQ(from, std::vector<int>(30000, previous));
  });
}

TEST(Group, one_thread_acts_for_several_ranks) {
  for (const int ranks : {2, 4}) {
    auto comms = create_all(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(static_cast<bool>(comms[at(rank)]));
      EXPECT_EQ(comms[at(rank)].rank(), rank);
      EXPECT_EQ(comms[at(rank)].ranks(), ranks);
    }
    for (const std::size_t count : {1u, 1000u, 100000u}) {
      std::vector<std::vector<double>> data(at(ranks), std::vector<double>(count, 1.5));
      Group group;
      for (int rank = 0; rank < ranks; ++rank) ASSERT_STATUS_OK(comms[at(rank)].all_reduce(data[at(rank)]));
      ASSERT_STATUS_OK(group.end());
      for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(data[at(rank)], std::vector<double>(count, 1.5 * ranks));
    }
  }
}

TEST(Group, several_threads_of_several_ranks_each) {
  const auto id = tutti::UniqueId::create().value();
  constexpr int kThreads = 2, kEach = 2, kRanks = kThreads * kEach;
  spawn_ranks({.ranks = kThreads}, [&](int thread) {
    std::vector<Communicator> comms;
    Group creation;
    for (int i = 0; i < kEach; ++i)
      comms.push_back(Communicator::create(id, thread * kEach + i, kRanks, test_config()).value());
    ASSERT_STATUS_OK(creation.end());
    std::vector<std::vector<int>> data(kEach, std::vector<int>(5000, 1));
    Group group;
    for (int i = 0; i < kEach; ++i) ASSERT_STATUS_OK(comms[at(i)].all_reduce(data[at(i)]));
    ASSERT_STATUS_OK(group.end());
    for (const auto& mine : data) EXPECT_EQ(mine, std::vector<int>(5000, kRanks));
  });
}

TEST(Group, split_inside_for_several_ranks_of_one_thread) {
  auto comms = create_all(4);
  std::vector<Communicator> halves;
  Group group;
  for (int rank = 0; rank < 4; ++rank) halves.push_back(comms[at(rank)].split(rank % 2, -rank).value());
  ASSERT_STATUS_OK(group.end());
  std::vector<std::vector<int>> data(4, std::vector<int>(100));
  Group reduce;
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(halves[at(rank)].ranks(), 2);
    EXPECT_EQ(halves[at(rank)].rank(), rank < 2 ? 1 : 0);  // the key turns the order round
    data[at(rank)].assign(100, rank);
    ASSERT_STATUS_OK(halves[at(rank)].all_reduce(data[at(rank)]));
  }
  ASSERT_STATUS_OK(reduce.end());
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(data[at(rank)], std::vector<int>(100, rank % 2 == 0 ? 2 : 4));
}

TEST(Group, an_error_inside_comes_from_the_call_and_from_the_end) {
  spawn(1, [](Communicator& comm) {
    std::vector<float> data(4);
    Group group;
    const auto f32 = tutti::DataType::float32;
    const tutti::Status wrong = comm.all_reduce(nullptr, data.data(), 4, f32);
    EXPECT_EQ(wrong.code(), Code::invalid_argument) << to_string(wrong);
    const tutti::Status end = group.end();
    EXPECT_EQ(end.code(), Code::invalid_argument) << to_string(end);
    EXPECT_EQ(group.end().code(), Code::invalid_argument);  // twice
    EXPECT_STATUS_OK(comm.all_reduce(data));                // the communicator is as good as before
  });
}

TEST(Group, end_without_begin_is_refused) {
  EXPECT_EQ(tutti_group_end(), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tutti_last_error()), "");
}

TEST(Group, an_empty_group_is_fine) {
  Group group;
  EXPECT_STATUS_OK(group.end());
}

// The destructor ends quietly: what was started inside is complete afterwards.
TEST(Group, the_destructor_ends_it) {
  spawn(2, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    {
      Group group;
      ASSERT_STATUS_OK(comm.all_reduce(data));
    }
    EXPECT_EQ(data, std::vector<int>(10, 2));
  });
}

TEST(Group, a_communicator_dropped_before_its_group_ends_is_no_trap) {
  const auto id = tutti::UniqueId::create().value();
  Group group;
  {
    auto first = Communicator::create(id, 0, 2, test_config()).value();
    auto second = Communicator::create(id, 1, 2, test_config()).value();
    EXPECT_FALSE(static_cast<bool>(first));  // not before the end
  }
  EXPECT_STATUS_OK(group.end());
}

// ---- any mix -----------------------------------------------------------------------------------------------------

/// One call of a round and what it must leave behind.
struct Step {
  int comm;
  int kind;  // 0 all_reduce, 1 broadcast, 2 all_gather, 3 shift by `distance`
  std::size_t count;
  int distance;
  std::vector<int> in{}, out{};
};

void issue_collective(Communicator& comm, Step& step) {
  const auto ranks = static_cast<std::size_t>(comm.ranks());
  step.in.assign(step.count, comm.rank() + 1);
  step.out.assign(step.kind == 2 ? step.count * ranks : step.count, -1);
  if (step.kind == 0) {
    ASSERT_STATUS_OK(comm.all_reduce(step.in, step.out));
  } else if (step.kind == 1) {
    step.out = step.in;
    ASSERT_STATUS_OK(comm.broadcast(step.out, step.distance % comm.ranks()));
  } else {
    ASSERT_STATUS_OK(comm.all_gather(step.in, step.out));
  }
}

void check_step(const Communicator& comm, const Step& step) {
  const int ranks = comm.ranks();
  std::vector<int> expected(step.count, ranks * (ranks + 1) / 2);
  if (step.kind == 1) expected.assign(step.count, step.distance % ranks + 1);
  if (step.kind == 2) {
    expected.clear();
    for (int r = 0; r < ranks; ++r) expected.insert(expected.end(), step.count, r + 1);
  }
  if (step.kind == 3) expected.assign(step.count, (comm.rank() + step.distance) % ranks + 1);
  ASSERT_EQ(step.out, expected) << "kind " << step.kind << ", count " << step.count;
}

/// Collectives in the order that all ranks share, transfers anywhere between them.
void random_group(std::vector<Communicator>& comms, unsigned seed) {
  std::mt19937 shared(seed);
  std::vector<Step> steps;
  for (auto i = 4 + shared() % 40; i > 0; --i) {
    const int comm = static_cast<int>(shared() % comms.size()), kind = static_cast<int>(shared() % 4);
    const std::size_t count = shared() % 8 == 0 ? 1 + shared() % 40000 : 1 + shared() % 60;
    steps.push_back({comm, kind, count, static_cast<int>(shared() % 5)});
  }
  std::mt19937 own(seed * 64 + static_cast<unsigned>(comms[0].rank()));
  std::vector<std::size_t> collectives, transfers;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != 3) collectives.push_back(i);
    if (steps[i].kind == 3) transfers.insert(transfers.end(), {2 * i, 2 * i + 1});
  }
  std::shuffle(transfers.begin(), transfers.end(), own);
  for (Step& step : steps) {
    if (step.kind != 3) continue;
    step.in.assign(step.count, comms[at(step.comm)].rank() + 1);
    step.out.assign(step.count, -1);
  }
  Group group;
  for (std::size_t c = 0, t = 0; c < collectives.size() || t < transfers.size();) {
    if (t == transfers.size() || (c < collectives.size() && own() % 2 == 0)) {
      Step& step = steps[collectives[c++]];
      ASSERT_NO_FATAL_FAILURE(issue_collective(comms[at(step.comm)], step));
      continue;
    }
    const std::size_t index = transfers[t] / 2;
    const bool sends = transfers[t++] % 2 == 0;
    Step& step = steps[index];
    Communicator& comm = comms[at(step.comm)];
    const int ranks = comm.ranks(), shift = step.distance % ranks;
    const auto tag = static_cast<std::uint32_t>(index);
    ASSERT_STATUS_OK(sends ? comm.send(step.in, (comm.rank() + ranks - shift) % ranks, tag)
                           : comm.recv(step.out, (comm.rank() + shift) % ranks, tag));
  }
  ASSERT_STATUS_OK(group.end());
  for (const Step& step : steps) ASSERT_NO_FATAL_FAILURE(check_step(comms[at(step.comm)], step));
}

#if defined(__SANITIZE_THREAD__)
constexpr unsigned kMixes = 20;
#else
constexpr unsigned kMixes = 600;
#endif

// Two communicators over all, one over the ranks turned round, and halves that differ from rank to rank.
TEST(Group, any_mix_over_many_communicators_never_hangs) {
  spawn(4, [](Communicator& comm) {
    std::vector<Communicator> comms;
    comms.push_back(comm.split(0, comm.rank()).value());
    comms.push_back(comm.split(0, -comm.rank()).value());
    comms.push_back(comm.split(comm.rank() % 2, comm.rank()).value());
    comms.push_back(comm.split(comm.rank() / 2, comm.rank()).value());
    for (unsigned seed = 1; seed <= kMixes; ++seed) {
      random_group(comms, seed);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", rank " << comm.rank();
    }
  });
}

}  // namespace
}  // namespace api_test
