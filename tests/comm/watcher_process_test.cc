// SPDX-License-Identifier: Apache-2.0
// Real processes join, watch each other, and are killed.
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "src/comm/bootstrap_socket.h"
#include "src/comm/watcher.h"
#include "tests/comm/process_ranks.h"

namespace tutti::core::test {
namespace {

/// Joins, says "ready", reports every loss as "lost RANK", and says "bye" after an orderly end.
void watch(const UniqueIdBytes& id, int ranks, const RankProcess& self, bool grandchild = false) {
  auto joined = join(request_for(id, self.rank(), ranks, self.rank()));
  if (!joined.is_ok()) return self.report("failed " + joined.status().to_string());
  const auto watcher = Watcher::make([&](const ProcessId& process, const std::string&) {
    for (std::size_t rank = 0; rank < joined->members.size(); ++rank)
      if (joined->members[rank].process == process) self.report("lost " + std::to_string(rank));
  });
  watcher->add(std::move(joined->connections));
  if (grandchild && fork() == 0) {
    // As a data loader would: outlives its parent, and must not keep its connections open.
    watcher->forget_after_fork();
    self.report("forked");
    self.wait_for_release();
    _exit(0);
  }
  self.report("ready");
  self.wait_for_release();
  watcher->stop();
  self.report("bye");
}

/// Kills `victims` and checks that exactly they are reported, once, by everybody else but `silent` ones.
void kill_and_expect(ProcessRanks& job, int ranks, const std::set<int>& victims, const std::set<int>& silent = {}) {
  const std::uint64_t start = clock_ns();
  for (const int victim : victims) job.signal_rank(victim, SIGKILL);
  std::size_t survivors = static_cast<std::size_t>(ranks) - victims.size();
  for (const int rank : silent) survivors -= 1 - victims.count(rank);
  std::set<std::pair<int, int>> expected, seen;
  for (int rank = 0; rank < ranks; ++rank)
    for (const int victim : victims)
      if (victims.count(rank) == 0 && silent.count(rank) == 0) expected.emplace(rank, victim);
  while (seen.size() < survivors * victims.size()) {
    const auto [rank, text] = job.next_line(kSecond);
    ASSERT_GE(rank, 0) << "a loss was not reported within 1 s";
    if (victims.count(rank) != 0) continue;  // of one victim by another, before it died
    ASSERT_EQ(text.substr(0, 5), "lost ") << text;
    ASSERT_TRUE(seen.emplace(rank, std::stoi(text.substr(5))).second) << "twice: rank " << rank << " " << text;
  }
  EXPECT_EQ(seen, expected);
  const double ms = static_cast<double>(clock_ns() - start) * 1e-6;
  std::printf("%zu killed: all %zu survivors knew within %.2f ms\n", victims.size(), survivors, ms);
  EXPECT_LT(ms, 1000);
}

void expect_all_ready(ProcessRanks& job, std::size_t ranks) {
  const auto lines = job.lines(ranks);
  ASSERT_EQ(lines.size(), ranks);
  for (const auto& [rank, text] : lines) ASSERT_EQ(text, "ready") << "rank " << rank;
}

/// Lets everybody go; nobody may report a loss on the way out.
void expect_orderly_end(ProcessRanks& job, std::size_t survivors) {
  job.release();
  const auto lines = job.lines(survivors);
  EXPECT_EQ(lines.size(), survivors);
  for (const auto& [rank, text] : lines) EXPECT_EQ(text, "bye") << "rank " << rank;
}

TEST(WatcherProcess, an_orderly_end_is_no_loss) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(5, [&](const RankProcess& self) { watch(id, 5, self); });
  expect_all_ready(job, 5);
  expect_orderly_end(job, 5);
}

TEST(WatcherProcess, a_killed_rank_is_known_to_all) {
  for (const int victim : {1, 3, 5}) {
    const UniqueIdBytes id = fresh_id();
    ProcessRanks job(6, [&](const RankProcess& self) { watch(id, 6, self); });
    expect_all_ready(job, 6);
    kill_and_expect(job, 6, {victim});
    expect_orderly_end(job, 5);
  }
}

TEST(WatcherProcess, a_killed_root_is_known_to_all) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(6, [&](const RankProcess& self) { watch(id, 6, self); });
  expect_all_ready(job, 6);
  kill_and_expect(job, 6, {0});
  expect_orderly_end(job, 5);
}

TEST(WatcherProcess, two_killed_at_once_are_both_known_to_all) {
  for (const std::set<int>& victims : {std::set<int>{1, 2}, {0, 3}, {0, 1}, {2, 4}}) {
    const UniqueIdBytes id = fresh_id();
    ProcessRanks job(6, [&](const RankProcess& self) { watch(id, 6, self); });
    expect_all_ready(job, 6);
    kill_and_expect(job, 6, victims);
    expect_orderly_end(job, 4);
  }
}

TEST(WatcherProcess, one_after_another_down_to_the_last) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(6, [&](const RankProcess& self) { watch(id, 6, self); });
  expect_all_ready(job, 6);
  std::set<int> dead;
  // Without the star's centre the ring alone carries the news, from neighbour to neighbour. (Deaths that cut the ring
  // in two pieces as well leave each piece with its own news.)
  for (const int victim : {0, 1, 5, 2, 4}) {
    kill_and_expect(job, 6, {victim}, dead);
    dead.insert(victim);
  }
  expect_orderly_end(job, 1);
}

TEST(WatcherProcess, a_stopped_rank_is_not_lost) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(5, [&](const RankProcess& self) { watch(id, 5, self); });
  expect_all_ready(job, 5);
  job.signal_rank(3, SIGSTOP);
  kill_and_expect(job, 5, {1}, {3});  // would fail on a report about rank 3
  job.signal_rank(3, SIGCONT);
  const auto late = job.next_line();
  EXPECT_EQ(late.first, 3);
  EXPECT_EQ(late.second, "lost 1");
  expect_orderly_end(job, 4);
}

TEST(WatcherProcess, a_forked_child_does_not_hide_its_parents_death) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(4, [&](const RankProcess& self) { watch(id, 4, self, self.rank() == 2); });
  std::size_t ready = 0, forked = 0;
  while (ready < 4 || forked < 1) {
    const auto [rank, text] = job.next_line();
    ASSERT_GE(rank, 0);
    ++(text == "forked" ? forked : ready);
  }
  kill_and_expect(job, 4, {2});
  expect_orderly_end(job, 3);
}

TEST(WatcherProcess, a_forgotten_watcher_does_nothing_and_blocks_nobody) {
  auto ends = make_connection_pair();
  auto later = make_connection_pair();
  ASSERT_TRUE(ends.is_ok() && later.is_ok());
  auto watcher = Watcher::make([](const ProcessId&, const std::string&) {});
  const auto add = [&](int process, UniqueFd fd) {
    std::vector<LivenessConnection> connections(1);
    connections[0].process = process_number(process);
    connections[0].fd = std::move(fd);
    watcher->add(std::move(connections));
  };
  const int before = open_files();
  add(1, std::move(ends->first));
  const pid_t child = fork();
  if (child == 0) {
    watcher->forget_after_fork();
    bool right = open_files() == before - 1;  // the connection and the thread's own descriptor are gone
    add(2, std::move(later->first));          // closes
    right = right && open_files() == before - 2 && !watcher->is_lost(process_number(1));
    watcher->stop();
    watcher.reset();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(watcher->is_lost(process_number(1)));
}

TEST(WatcherProcess, sixty_four_processes_hear_of_a_death) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(64, [&](const RankProcess& self) { watch(id, 64, self); });
  expect_all_ready(job, 64);
  kill_and_expect(job, 64, {17});
  expect_orderly_end(job, 63);
}

}  // namespace
}  // namespace tutti::core::test
