// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: a part of the matrix, many communicators, many ranks, life cycle, fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/api/cases.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;

int sum_over(Communicator& comm, int value) {
  std::vector<int> data(1, value);
  const tutti::Status status = comm.all_reduce(data);
  EXPECT_STATUS_OK(status);
  return data[0];
}

// Every fifth combination of the matrix, with a stride prime to its structure.
TEST(Processes, a_part_of_the_matrix) {
  for (const int ranks : {2, 3, 5, 8})
    spawn_processes({.ranks = ranks}, [ranks](Child& child) {
      auto comm = child.create();
      ASSERT_STATUS_OK(comm.status());
      int index = 0;
      for (const tutti_collective what :
           {TUTTI_ALL_REDUCE, TUTTI_ALL_GATHER, TUTTI_REDUCE_SCATTER, TUTTI_BROADCAST, TUTTI_BARRIER})
        for (const Case& c : make_cases(what, false)) {
          if (c.ranks != ranks || ++index % 5 != 0) continue;
          Expectation expectation(c);
          run_case(*comm, expectation);
          if (::testing::Test::HasFailure()) return;
        }
    });
}

TEST(Processes, a_callback_may_launch_and_wait_for_a_collective) {
  spawn_processes({.ranks = 3}, [](Child& child) {
    auto comm = child.create().value();
    auto second = comm.split(0).value();
    std::vector<int> first_data(1000, 1), second_data(1000, 2);
    std::atomic<bool> called{false};
    auto work = comm.async().all_reduce(first_data).value();
    ASSERT_STATUS_OK(work.on_complete([&](Code code) {
      EXPECT_EQ(code, Code::ok);
      EXPECT_STATUS_OK(second.all_reduce(second_data));
      called = true;
    }));
    ASSERT_STATUS_OK(work.wait());
    ASSERT_TRUE(eventually([&] { return called.load(); }));
    EXPECT_EQ(first_data, std::vector<int>(1000, 3));
    EXPECT_EQ(second_data, std::vector<int>(1000, 6));
  });
}

TEST(Processes, split) {
  spawn_processes({.ranks = 5}, [](Child& child) {
    auto comm = child.create().value();
    auto part = comm.split(child.rank() < 3 ? 0 : 1, 10 - child.rank()).value();
    EXPECT_EQ(part.ranks(), child.rank() < 3 ? 3 : 2);
    EXPECT_EQ(sum_over(part, child.rank()), child.rank() < 3 ? 3 : 7);
    EXPECT_EQ(sum_over(comm, 1), 5);
  });
}

TEST(Processes, a_hundred_in_one_process_pair) {
  spawn_processes({.ranks = 2}, [](Child& child) {
    std::vector<Communicator> comms;
    for (int i = 0; i < 30; ++i) comms.push_back(child.create("", i).value());
    for (int i = 0; i < 70; ++i) comms.push_back(comms[static_cast<std::size_t>(i % 30)].split(0).value());
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<int>> data(100, std::vector<int>(2000, child.rank() + 1));
      std::vector<tutti::Work> works;
      for (int i = 0; i < 100; ++i) {
        // Each rank in an order of its own: communicators progress independently.
        const auto which = static_cast<std::size_t>(child.rank() == 0 ? i : 99 - i);
        works.push_back(comms[which].async().all_reduce(data[which]).value());
      }
      for (auto& work : works) ASSERT_STATUS_OK(work.wait());
      for (const auto& mine : data) ASSERT_EQ(mine, std::vector<int>(2000, 3));
    }
  });
}

TEST(Processes, sixty_four_processes) {
  spawn_processes({.ranks = 64}, [](Child& child) {
    auto created = child.create("timeout=60s");
    ASSERT_STATUS_OK(created.status());
    Communicator& comm = *created;
    std::vector<int> small(2, 1), large(40000, 1);
    ASSERT_STATUS_OK(comm.all_reduce(small));
    EXPECT_EQ(small, std::vector<int>(2, 64));
    ASSERT_STATUS_OK(comm.all_reduce(large));
    EXPECT_EQ(large, std::vector<int>(40000, 64));
    std::vector<std::int64_t> own(3, child.rank()), all(3 * 64);
    ASSERT_STATUS_OK(comm.all_gather(own, all));
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::int64_t>(i / 3));
    ASSERT_STATUS_OK(comm.barrier());
  });
}

TEST(Processes, send_and_receive_around_the_eager_limit) {
  spawn_processes({.ranks = 3}, [](Child& child) {
    auto comm = child.create().value();
    for (const std::size_t bytes : {0u, 1u, 24u, 25u, 4096u, 4097u, 1u << 20}) {
      const auto value = [&](int rank) { return static_cast<std::uint8_t>(rank * 16 + 1); };
      const std::vector<std::uint8_t> out(bytes, value(child.rank()));
      std::vector<std::uint8_t> in(bytes);
      auto work = comm.async().send(out, (child.rank() + 1) % 3).value();
      ASSERT_STATUS_OK(comm.recv(in, (child.rank() + 2) % 3));
      ASSERT_STATUS_OK(work.wait());
      EXPECT_EQ(in, std::vector<std::uint8_t>(bytes, value((child.rank() + 2) % 3)));
    }
  });
}

TEST(Processes, threads_and_processes_mixed) {
  // Two processes of two threads each, which are the ranks.
  spawn_processes({.ranks = 2}, [](Child& child) {
    const tutti::UniqueId id = child.id();
    spawn_ranks({.ranks = 2}, [&](int thread) {
      auto comm = Communicator::create(id, child.rank() * 2 + thread, 4, test_config());
      ASSERT_STATUS_OK(comm.status());
      for (const std::size_t count : {1u, 1000u, 200000u}) {
        std::vector<int> data(count, 1);
        ASSERT_STATUS_OK(comm->all_reduce(data));
        ASSERT_EQ(data, std::vector<int>(count, 4));
      }
    });
  });
}

TEST(Processes, a_mismatch_is_told_to_all) {
  for (const std::size_t count : {2u, 1u << 18})
    spawn_processes({.ranks = 5}, [count](Child& child) {
      auto comm = child.create().value();
      std::vector<float> data(count, 1);
      tutti::Status status = child.rank() == 3 ? comm.broadcast(data, 3) : comm.all_reduce(data);
      if (status.is_ok()) status = comm.barrier();
      EXPECT_EQ(status.code(), Code::mismatch) << to_string(status);
      for (const char* part : {"rank 3", "broadcast", "all_reduce", "op #0"})
        EXPECT_NE(status.text().find(part), std::string::npos) << part << " in " << status.text();
    });
}

TEST(Processes, communicators_progress_independently) {
  spawn_processes({.ranks = 4}, [](Child& child) {
    auto comm = child.create().value();
    std::vector<Communicator> comms;
    for (int i = 0; i < 4; ++i) comms.push_back(comm.split(0).value());
    for (unsigned round = 0; round < 100; ++round) {
      // Each rank issues in an order of its own and waits in another.
      std::vector<std::vector<int>> data(4, std::vector<int>(1 + round * 97 % 9000, 1));
      std::vector<tutti::Work> works(4);
      for (unsigned i = 0; i < 4; ++i) {
        const auto c = (i * 3 + mix(round, static_cast<std::uint64_t>(child.rank()))) % 4;
        works[c] = comms[c].async().all_reduce(data[c]).value();
      }
      for (unsigned i = 0; i < 4; ++i) {
        const auto c = (i + static_cast<unsigned>(child.rank())) % 4;
        ASSERT_STATUS_OK(works[c].wait()) << "round " << round;
        ASSERT_EQ(data[c], std::vector<int>(data[c].size(), 4));
      }
    }
  });
}

TEST(Lifecycle, exit_without_destroy_is_quiet) {
  for (const int ranks : {2, 4})
    spawn_processes({.ranks = ranks, .deadline = seconds(30)}, [](Child& child) {
      // Left alive on purpose, where the leak checker sees it: communicator, registration, an unfinished operation.
      struct LeftAlive {
        Communicator comm;
        std::vector<int> data;
        tutti::Registration registration;
        tutti::Work work;
      };
      static LeftAlive* volatile left_alive;
      left_alive = new LeftAlive{child.create().value(), std::vector<int>(1000, 1), {}, {}};
      LeftAlive& left = *left_alive;
      left.registration = left.comm.register_buffer(left.data).value();
      ASSERT_STATUS_OK(left.comm.all_reduce(left.data));
      if (child.rank() == 0) left.work = left.comm.async().all_reduce(left.data).value();
    });
}

TEST(Lifecycle, a_clean_end_leaves_no_file) {
  const auto files = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run_folder()))
      if (entry.is_regular_file()) names.push_back(entry.path().string());
    return names;
  };
  const auto before = files();
  spawn_processes({.ranks = 3}, [&](Child& child) {
    auto comm = child.create().value();
    ASSERT_STATUS_OK(comm.barrier());
    EXPECT_GT(files().size(), before.size());  // the recorder of a running job is there
    ASSERT_STATUS_OK(comm.barrier());
  });
  EXPECT_EQ(files(), before);
}

TEST(Lifecycle, a_rank_that_leaves_is_no_dead_rank) {
  spawn_processes({.ranks = 3}, [](Child& child) {
    auto comm = child.create().value();
    ASSERT_STATUS_OK(comm.barrier());
    if (child.rank() == 2) {
      comm = Communicator();
      child.board().flags[0] = 1;
      return;
    }
    // Done before the goodbye, so its result stays good.
    ASSERT_TRUE(eventually([&] { return child.board().flags[0] == 1; }));
    // Who still needs the one that left is told so, by name; not after the deadline.
    std::vector<int> data(10, 1);
    const auto before = now_ns();
    const tutti::Status status = comm.all_reduce(data);
    EXPECT_LT(now_ns() - before, 5'000'000'000);
    EXPECT_FALSE(status.is_ok());
    EXPECT_NE(status.text().find("rank 2"), std::string::npos) << to_string(status);
  });
}

TEST(Lifecycle, use_in_a_forked_child_is_refused_and_the_parent_goes_on) {
  spawn_processes({.ranks = 2}, [](Child& child) {
    auto comm = child.create().value();
    ASSERT_STATUS_OK(comm.barrier());
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      std::vector<int> data(10, 1);
      const tutti::Status call = comm.all_reduce(data);
      const tutti::Status fresh = Communicator::create(tutti::UniqueId{}, 0, 1).status();
      const bool refused = call.code() == Code::unsupported && call.text().find("fork") != std::string::npos &&
                           fresh.code() == Code::unsupported && fresh.text().find("fork") != std::string::npos;
      if (!refused) std::fprintf(stderr, "%s\n%s\n", to_string(call).c_str(), to_string(fresh).c_str());
      _exit(refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(sum_over(comm, 1), 2);  // the child's end was nobody's death
  });
}

// A data loader: forked after the start, never uses Tutti, lives on. The death of its parent must still be seen at
// once.
TEST(Lifecycle, a_forked_child_does_not_keep_its_dead_parent_alive) {
  Job job({.ranks = 2, .deadline = seconds(30)}, [](Child& child) {
    auto comm = child.create().value();
    ASSERT_STATUS_OK(comm.barrier());
    if (child.rank() == 1) {
      const pid_t pid = fork();
      if (pid == 0) {
        child.board().flags[1] = static_cast<std::uint64_t>(getpid());
        while (true) pause();
      }
      ASSERT_TRUE(eventually([&] { return child.board().flags[1] != 0; }));
      child.board().flags[2] = static_cast<std::uint64_t>(now_ns());
      raise(SIGKILL);
    }
    const tutti::Status status = comm.barrier();
    const std::int64_t waited = now_ns() - static_cast<std::int64_t>(child.board().flags[2].load());
    EXPECT_EQ(status.code(), Code::peer_lost) << to_string(status);
    EXPECT_LT(waited, 5'000'000'000);
  });
  const auto results = job.wait();
  kill(static_cast<pid_t>(job.board().flags[1].load()), SIGKILL);
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_EQ(results[1].signal, SIGKILL);
}

}  // namespace
}  // namespace api_test
