// SPDX-License-Identifier: Apache-2.0
// A long-lived job whose third rank is killed again and again, in every phase. Afterwards nothing is left of the dead:
// no descriptor, no shared memory, no thread, no process, no file but their flight recorders.
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/api/phases.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;

constexpr int kPhases = static_cast<int>(std::size(kAllPhases));
#if defined(TUTTI_TEST_FULL)
constexpr int kKills = 25 * kPhases;
#else
constexpr int kKills = 3 * kPhases;
#endif
/// Every phase has run once by then: pools are filled, threads started.
constexpr int kWarmUp = kPhases;

struct Resources {
  int descriptors = 0, memfds = 0, threads = 0;
  std::uint64_t memfd_bytes = 0;  ///< mapped
  bool within(const Resources& other) const {
    return descriptors <= other.descriptors && memfds <= other.memfds && threads <= other.threads &&
           memfd_bytes <= other.memfd_bytes;
  }
  void raise_to(const Resources& other) {
    descriptors = std::max(descriptors, other.descriptors);
    memfds = std::max(memfds, other.memfds);
    threads = std::max(threads, other.threads);
    memfd_bytes = std::max(memfd_bytes, other.memfd_bytes);
  }
  std::string text() const {
    std::ostringstream out;
    out << descriptors << " descriptors, " << memfds << " memfds, " << memfd_bytes << " memfd bytes mapped, " << threads
        << " threads";
    return out.str();
  }
};

Resources resources_of_this_process() {
  Resources found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error) continue;  // the descriptor of this very listing
    ++found.descriptors;
    if (target.rfind("/memfd:", 0) == 0) ++found.memfds;
  }
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++found.threads;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") == std::string::npos) continue;
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    found.memfd_bytes += end - begin;
  }
  return found;
}

/// Words of the board: the round that may start (+1), the round whose id is made (+1).
constexpr int kRoundFlag = 0, kIdFlag = 1, kDoneFlag = 2;

Phase phase_of(int round) { return kAllPhases[round % kPhases]; }
/// Rank 0 leads the rendezvous: a dead leader of an init is a rank that never came, which has its own test.
int victim_of(int round) { return phase_of(round) == Phase::init ? 1 + round / kPhases % 2 : round / kPhases % 3; }
int ranks_of(int round) { return phase_of(round) == Phase::init ? 4 : 3; }  // the fourth one never comes

tutti::Config config_of(int round) {
  return test_config(phase_of(round) == Phase::init ? "init_timeout=3s" : "", "round " + std::to_string(round));
}

void check_verdict(const tutti::Status& status, int round) {
  const std::string culprit = "rank " + std::to_string(victim_of(round));
  const std::string where = std::string(name_of(phase_of(round))) + ", round " + std::to_string(round);
  // In init the dead rank may not have said its name yet: then it is missing.
  const bool missing = phase_of(round) == Phase::init && status.code() == Code::timeout;
  EXPECT_TRUE(status.code() == Code::peer_lost || missing) << where << ": " << to_string(status);
  EXPECT_TRUE(missing || status.text().find(culprit) != std::string::npos) << where << ": " << status.text();
}

void survive_round(Child& child, int round) {
  Board& board = child.board();
  const std::uint64_t number = static_cast<std::uint64_t>(round) + 1;
  ASSERT_TRUE(eventually([&] { return board.flags[kRoundFlag] >= number; }, seconds(90)));
  tutti::UniqueId& id = board.ids[round % Board::kIds];
  if (child.rank() == 0) {
    id = tutti::UniqueId::create().value();
    board.flags[kIdFlag] = number;
  }
  ASSERT_TRUE(eventually([&] { return board.flags[kIdFlag] >= number; }));
  const int rank = child.rank() < victim_of(round) ? child.rank() : child.rank() + 1;
  auto comm = Communicator::create(id, rank, ranks_of(round), config_of(round));
  const tutti::Status status = comm.is_ok() ? run_phase(*comm, phase_of(round), board, kForever) : comm.status();
  check_verdict(status, round);
  ++board.flags[kDoneFlag];
}

void survivor(Child& child) {
  Resources before;
  for (int round = 0; round < kKills; ++round) {
    survive_round(child, round);
    if (::testing::Test::HasFailure()) return;
    // High-water mark: what is left of one round goes when the next one begins or when its peers have left too.
    if (round < kWarmUp) before.raise_to(resources_of_this_process());
  }
  Resources after;
  // Memory of ended communicators goes when a communicator begins or ends and their last member has left: give it the
  // occasion.
  const auto settled = [&] {
    { const auto alone = Communicator::create(tutti::UniqueId::create().value(), 0, 1, test_config()); }
    return (after = resources_of_this_process()).within(before);
  };
  EXPECT_TRUE(eventually(settled, seconds(5))) << "rank " << child.rank() << ": before " << before.text() << "; after "
                                               << kKills - kWarmUp << " kills " << after.text();
  // All of it goes when the process's last communicator has gone? No: pools stay. But it must still work.
  auto comm = Communicator::create(child.id(Board::kIds - 1), child.rank(), 2, test_config());
  ASSERT_STATUS_OK(comm.status());
  EXPECT_STATUS_OK(run_phase(*comm, Phase::fifo, child.board(), 3));
}

void victim(Board& board, int round) {
  const std::uint64_t number = static_cast<std::uint64_t>(round) + 1;
  ASSERT_TRUE(eventually([&] { return board.flags[kIdFlag] >= number; }));
  auto comm = Communicator::create(board.ids[round % Board::kIds], victim_of(round), ranks_of(round), config_of(round));
  ASSERT_STATUS_OK(comm.status());
  static_cast<void>(run_phase(*comm, phase_of(round), board, kForever));
  FAIL() << "the victim outlived its round " << round;
}

int sockets_of(pid_t pid) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.rfind("socket:", 0) == 0) ++count;
  }
  return count;
}

void kill_one(Job& job, int round, std::set<pid_t>& dead) {
  Board& board = job.board();
  for (auto& counter : board.counter) counter = 0;
  Job own({.ranks = 1, .deadline = seconds(80)}, [&board, round](Child&) { victim(board, round); });
  board.flags[kRoundFlag] = static_cast<std::uint64_t>(round) + 1;
  const std::uint64_t depth = 1 + mix(static_cast<std::uint64_t>(round), 5) % 30;
  const int rank = victim_of(round);
  ASSERT_TRUE(eventually([&] {
    return phase_of(round) == Phase::init ? sockets_of(own.pid(0)) >= 1 : board.counter[rank] >= depth;
  })) << "round "
      << round << " (" << name_of(phase_of(round)) << ") does not run";
  dead.insert(own.pid(0));
  own.signal(0, SIGKILL);
  EXPECT_EQ(own.wait()[0].signal, SIGKILL);
  ASSERT_TRUE(eventually([&] { return board.flags[kDoneFlag] == 2 * (static_cast<std::uint64_t>(round) + 1); }))
      << "a survivor of round " << round << " (" << name_of(phase_of(round)) << ") does not end";
}

TEST(Resources, nothing_is_left_after_many_kills) {
  std::set<pid_t> dead;
  std::map<std::string, int> histogram;
  Job job({.ranks = 2, .deadline = seconds(kKills > 100 ? 1200 : 110)}, survivor);
  for (int round = 0; round < kKills && !HasFailure(); ++round) {
    kill_one(job, round, dead);
    ++histogram[name_of(phase_of(round))];
  }
  const auto results = job.wait();
  for (const ChildResult& result : results) EXPECT_EQ(result.exit_code, 0);

  std::printf("%d kills:", kKills);
  for (const auto& [phase, count] : histogram) std::printf(" %s %d", phase.c_str(), count);
  std::printf("\n");

  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a process is left";
  // Recorders of the dead and of those whose communicators failed with them, and of nobody else.
  std::set<pid_t> recorded = dead;
  for (int rank = 0; rank < 2; ++rank) recorded.insert(job.pid(rank));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run_folder())) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    bool known = false;
    for (const pid_t pid : recorded) known = known || name.find("-" + std::to_string(pid) + "-") != std::string::npos;
    EXPECT_TRUE(known) << "left behind: " << entry.path();
  }
  for (const char* folder : {"/dev/shm", "/tmp"})
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      for (const pid_t pid : dead)
        EXPECT_EQ(entry.path().filename().string().find("tutti-" + std::to_string(pid)), std::string::npos)
            << entry.path();
}

}  // namespace
}  // namespace api_test
