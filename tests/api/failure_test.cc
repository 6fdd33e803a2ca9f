// SPDX-License-Identifier: Apache-2.0
// Ranks that die, stop, never come, or abort: every other rank ends soon, and its text names the culprit.
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/api/phases.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Kill : public ::testing::TestWithParam<std::tuple<Phase, int>> {};

TEST_P(Kill, every_other_rank_returns_peer_lost_and_names_rank_and_operation) {
  const auto [phase, ranks] = GetParam();
  const Phase which = phase;
  const int size = ranks;
  for (int victim = 0; victim < size; ++victim) {
    Job job({.ranks = size, .deadline = seconds(60)}, [which, victim](Child& child) {
      auto created = child.create();
      ASSERT_STATUS_OK(created.status());
      Communicator& comm = *created;
      const tutti::Status status = run_phase(comm, which, child.board(), kForever);
      const std::int64_t waited = now_ns() - child.board().started_ns.load();
      EXPECT_EQ(status.code(), Code::peer_lost) << "rank " << child.rank() << ": " << to_string(status);
      EXPECT_TRUE(contains(status.text(), "rank " + std::to_string(victim))) << status.text();
      EXPECT_TRUE(contains(status.text(), operation_of(which))) << status.text();
      EXPECT_LT(waited, 5'000'000'000) << "1 s when the machine is idle";
      // The communicator is over, and says why.
      const tutti::Status again = comm.barrier();
      EXPECT_EQ(again.code(), Code::peer_lost) << to_string(again);
      EXPECT_TRUE(contains(again.text(), "rank " + std::to_string(victim))) << again.text();
      EXPECT_EQ(comm.status().code(), Code::peer_lost);
    });
    const std::uint64_t rounds = 3 + mix(static_cast<std::uint64_t>(which), static_cast<std::uint64_t>(victim)) % 20;
    ASSERT_TRUE(eventually([&] { return job.board().counter[victim] >= rounds; })) << "the job does not run";
    job.board().started_ns = now_ns();
    job.signal(victim, SIGKILL);
    const auto results = job.wait();
    for (int rank = 0; rank < size; ++rank) {
      const auto& result = results[static_cast<std::size_t>(rank)];
      EXPECT_EQ(result.signal, rank == victim ? SIGKILL : 0) << "rank " << rank;
      EXPECT_EQ(result.exit_code, rank == victim ? -1 : 0) << "rank " << rank << ", victim " << victim;
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, Kill,
                         ::testing::Combine(::testing::Values(Phase::line, Phase::slots, Phase::fifo, Phase::registered,
                                                              Phase::point_to_point, Phase::split, Phase::destroy),
                                            ::testing::Values(2, 4)),
                         [](const auto& instance) {
                           return std::string(name_of(std::get<0>(instance.param))) + "_" +
                                  std::to_string(std::get<1>(instance.param)) + "_ranks";
                         });

/// Open descriptors of another process that are sockets.
int sockets_of(pid_t pid) {
  int count = 0;
  char target[64];
  for (int fd = 0; fd < 64; ++fd) {
    const std::string link = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
    const ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
    if (length > 0 && std::string(target, static_cast<std::size_t>(length)).rfind("socket:", 0) == 0) ++count;
  }
  return count;
}

bool asleep(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t end = text.rfind(") ");
  return end != std::string::npos && text.compare(end + 2, 1, "S") == 0;
}

// Rank 2 never comes, so 0 and 1 are inside init when 1 is killed.
TEST(KillInInit, the_others_name_the_dead_rank) {
  Job job({.ranks = 3, .deadline = seconds(60)}, [](Child& child) {
    if (child.rank() == 2) {
      ASSERT_TRUE(eventually([&] { return child.board().flags[1] == 2; }));
      return;
    }
    const auto comm = child.create("init_timeout=20s");
    ++child.board().flags[1];
    child.board().ended_ns[child.rank()] = now_ns();
    EXPECT_EQ(comm.code(), Code::peer_lost) << to_string(comm.status());
    EXPECT_TRUE(contains(comm.text(), "rank 1")) << comm.text();
    ++child.board().flags[1];
  });
  // Connected, and both found asleep 20 times running: the handshake is over, all they can do is wait for rank 2.
  int looks = 0;
  ASSERT_TRUE(eventually([&] {
    const bool waiting =
        sockets_of(job.pid(0)) >= 2 && sockets_of(job.pid(1)) >= 1 && asleep(job.pid(0)) && asleep(job.pid(1));
    looks = waiting ? looks + 1 : 0;
    return looks >= 20;
  })) << "rank 1 did not connect to rank 0";
  job.board().started_ns = now_ns();
  job.signal(1, SIGKILL);
  const auto results = job.wait();
  EXPECT_LT(job.board().ended_ns[0] - job.board().started_ns, 5'000'000'000);
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_EQ(results[1].signal, SIGKILL);
  EXPECT_EQ(results[2].exit_code, 0);
}

TEST(MissingRank, is_named_with_the_number_present) {
  for (const int missing : {0, 1, 3})
    spawn_processes({.ranks = 4, .deadline = seconds(30)}, [missing](Child& child) {
      const tutti::UniqueId id = child.id();
      if (child.rank() == missing) return;
      const std::int64_t begin = now_ns();
      const auto comm = Communicator::create(id, child.rank(), 4, {.name = "late", .settings = "init_timeout=700ms"});
      EXPECT_LT(now_ns() - begin, 6'000'000'000);
      EXPECT_EQ(comm.code(), Code::timeout) << to_string(comm.status());
      if (missing == 0) {
        EXPECT_TRUE(contains(comm.text(), "rank 0")) << comm.text();
      } else {
        EXPECT_TRUE(contains(comm.text(), "3 of 4")) << comm.text();
        EXPECT_TRUE(contains(comm.text(), "missing: " + std::to_string(missing))) << comm.text();
      }
    });
}

class Stop : public ::testing::TestWithParam<Phase> {};

// A stopped process answers nothing and dies of nothing: found at the deadline.
TEST_P(Stop, at_the_deadline_every_rank_names_the_stopped_one) {
  const Phase phase = GetParam();
  constexpr int kRanks = 4;
  for (const int victim : {0, 2}) {
    Job job({.ranks = kRanks, .deadline = seconds(60)}, [phase, victim](Child& child) {
      auto comm = child.create("timeout=1500ms").value();
      const tutti::Status status = run_phase(comm, phase, child.board(), kForever);
      EXPECT_EQ(status.code(), Code::timeout) << "rank " << child.rank() << ": " << to_string(status);
      EXPECT_TRUE(contains(status.text(), "rank " + std::to_string(victim))) << status.text();
      EXPECT_TRUE(contains(status.text(), operation_of(phase))) << status.text();
      for (int other = 0; other < kRanks; ++other) {
        if (other == victim || other == child.rank()) continue;
        EXPECT_FALSE(contains(status.text(), "rank " + std::to_string(other) + " has not")) << status.text();
      }
      ++child.board().flags[3];
    });
    ASSERT_TRUE(eventually([&] { return job.board().counter[victim] >= 5; }));
    job.signal(victim, SIGSTOP);
    EXPECT_TRUE(eventually([&] { return job.board().flags[3] == kRanks - 1; }));
    job.signal(victim, SIGKILL);
    const auto results = job.wait();
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].exit_code, rank == victim ? -1 : 0) << "rank " << rank;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, Stop, ::testing::Values(Phase::line, Phase::fifo, Phase::registered),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

TEST(Abort, wakes_every_waiter_with_the_reason) {
  spawn_processes({.ranks = 4, .deadline = seconds(40)}, [](Child& child) {
    auto comm = child.create().value();
    ASSERT_STATUS_OK(comm.barrier());
    Board& board = child.board();
    tutti::Status status;
    std::vector<float> data(100000, 1);
    if (child.rank() == 0) {
      // All others are inside (or about to be): both must end.
      ASSERT_TRUE(eventually([&] { return board.flags[0] == 3; }));
      board.started_ns = now_ns();
      ASSERT_STATUS_OK(comm.abort("the evaluation failed"));
      status = comm.status();
    } else {
      ++board.flags[0];
      if (child.rank() == 1) status = comm.all_reduce(data);
      if (child.rank() == 2) status = comm.async().all_reduce(data).value().wait();
      if (child.rank() == 3) status = comm.recv(data, 0, 9);
      EXPECT_LT(now_ns() - board.started_ns, 5'000'000'000);
    }
    EXPECT_EQ(status.code(), Code::aborted) << "rank " << child.rank() << ": " << to_string(status);
    EXPECT_TRUE(contains(status.text(), "the evaluation failed")) << status.text();
    if (child.rank() != 0) {
      EXPECT_TRUE(contains(status.text(), "rank 0")) << status.text();
    }
    const tutti::Status again = comm.barrier();
    EXPECT_EQ(again.code(), Code::aborted) << to_string(again);
    EXPECT_TRUE(contains(again.text(), "the evaluation failed")) << again.text();
  });
}

TEST(Abort, from_another_thread_while_the_first_one_blocks) {
  spawn_processes({.ranks = 2, .deadline = seconds(40)}, [](Child& child) {
    auto comm = child.create().value();
    Board& board = child.board();
    if (child.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return board.flags[0] == 1; }));  // never calls the barrier
      return;
    }
    std::thread other([&] {
      ASSERT_TRUE(eventually([&] { return board.flags[1] == 1; }));
      EXPECT_STATUS_OK(comm.abort("enough"));
    });
    board.flags[1] = 1;
    const tutti::Status status = comm.barrier();
    other.join();
    board.flags[0] = 1;
    EXPECT_EQ(status.code(), Code::aborted) << to_string(status);
  });
}

TEST(Abort, the_first_error_wins) {
  spawn_processes({.ranks = 2, .deadline = seconds(40)}, [](Child& child) {
    auto comm = child.create().value();
    ASSERT_STATUS_OK(comm.barrier());
    if (child.rank() == 0) {
      ASSERT_STATUS_OK(comm.abort("first"));
      ASSERT_STATUS_OK(comm.abort("second"));
    }
    tutti::Status status = comm.barrier();
    EXPECT_EQ(status.code(), Code::aborted) << to_string(status);
    EXPECT_TRUE(contains(status.text(), "first")) << status.text();
    EXPECT_FALSE(contains(status.text(), "second")) << status.text();
  });
}

// Dead in one communicator is dead in all of them, idle ones included; nobody else's are touched.
TEST(KillElsewhere, all_communicators_with_the_dead_rank_end_and_only_those) {
  Job job({.ranks = 3, .deadline = seconds(60)}, [](Child& child) {
    auto all = child.create().value();
    auto pair = all.split(child.rank() == 2 ? 1 : 0).value();  // without the victim
    auto copy = all.split(0).value();
    ASSERT_STATUS_OK(all.barrier());
    child.board().counter[child.rank()] = 1;
    if (child.rank() == 2) {
      while (true) pause();
    }
    EXPECT_EQ(copy.barrier().code(), Code::peer_lost);
    EXPECT_TRUE(eventually([&] { return all.status().code() == Code::peer_lost; }));
    std::vector<int> data(10, 1);
    EXPECT_STATUS_OK(pair.all_reduce(data));
    EXPECT_EQ(data, std::vector<int>(10, 2));
  });
  ASSERT_TRUE(eventually([&] { return job.board().counter[2] == 1; }));
  job.signal(2, SIGKILL);
  const auto results = job.wait();
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_EQ(results[1].exit_code, 0);
}

}  // namespace
}  // namespace api_test
