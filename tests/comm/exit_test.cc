// SPDX-License-Identifier: Apache-2.0
// exit() without destroy, as programs do it: with a thread inside an operation, and with a communicator that static
// destructors end only after Tutti's own farewell.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "src/comm/communicator.h"

namespace tutti::core {
namespace {

constexpr unsigned kDeadlineSeconds = 60;

std::unique_ptr<Communicator> join_as(const UniqueIdBytes& id, int rank) {
  tutti_config config{};
  config.struct_size = sizeof config;
  config.name = "exit";
  config.settings = "timeout=30s;init_timeout=30s";
  auto made = Communicator::create(id, rank, 2, &config);
  if (!made.is_ok()) _exit(90);
  return std::move(*made);
}

Status add_up(Communicator& comm, std::vector<std::int32_t>& data) {
  Call call;
  call.what = TUTTI_ALL_REDUCE;
  call.type = TUTTI_INT32;
  call.count = data.size();
  call.in = call.out = data.data();
  return comm.run(call);
}

/// Two processes; returns their exit codes. One that hangs dies of SIGALRM: -14.
std::vector<int> run_pair(const std::function<int(int rank, std::unique_ptr<Communicator>)>& body) {
  const UniqueIdBytes id = std::move(make_unique_id()).value();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 2; ++rank) {
    pids.push_back(fork());
    if (pids.back() != 0) continue;
    alarm(kDeadlineSeconds);
    exit(body(rank, join_as(id, rank)));
  }
  std::vector<int> codes;
  for (const pid_t pid : pids) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return codes;
}

TEST(Exit, with_a_thread_inside_an_operation_is_a_departure_that_the_peer_sees) {
  for (const std::size_t count : std::initializer_list<std::size_t>{1, 100'000}) {
    const std::vector<int> codes = run_pair([count](int rank, std::unique_ptr<Communicator> owned) {
      Communicator& comm = *owned.release();  // a program that just leaves
      std::vector<std::int32_t> data(count, 0);
      if (rank == 1) {
        Status status;
        while (status.is_ok()) status = add_up(comm, data);
        return status.code() == TUTTI_PEER_LOST && status.failing_rank() == 0 ? 0 : 1;
      }
      static std::atomic<int> calls{0};
      std::thread([&comm, count] {
        auto* own = new std::vector<std::int32_t>(count, 0);  // outlives exit()
        while (true)
          if (add_up(comm, *own).is_ok()) ++calls;
      }).detach();
      while (calls < 50) std::this_thread::yield();
      return 0;
    });
    EXPECT_EQ(codes, (std::vector<int>{0, 0})) << count;
  }
}

std::unique_ptr<Communicator> g_communicator;  // made before Tutti's atexit handler: ends after it

TEST(Exit, static_destructors_come_after_the_farewell) {
  const std::vector<int> codes = run_pair([](int, std::unique_ptr<Communicator> owned) {
    g_communicator = std::move(owned);
    std::vector<std::int32_t> data(10, 1);
    return add_up(*g_communicator, data).is_ok() && data[0] == 2 ? 0 : 1;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace tutti::core
