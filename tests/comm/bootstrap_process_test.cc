// SPDX-License-Identifier: Apache-2.0
// join() of real processes, some of which die in it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

#include "src/base/random.h"
#include "src/comm/bootstrap_driver.h"
#include "tests/comm/process_ranks.h"

namespace tutti::core::test {
namespace {

constexpr std::uint64_t kSeed = 20261130;

/// Joins and reports "joined" or the error.
void join_and_report(const UniqueIdBytes& id, int ranks, const RankProcess& self, std::uint64_t deadline_in_ns) {
  JoinRequest request = request_for(id, self.rank(), ranks, self.rank());
  request.deadline_ns = clock_ns() + deadline_in_ns;
  const auto joined = join(std::move(request));
  self.report(joined.is_ok() ? "joined"
                             : std::to_string(joined.status().failing_rank()) + " " + joined.status().to_string());
  self.wait_for_release();
}

/// A member that this test moves by hand as far as it likes.
class HandMember {
 public:
  HandMember(const UniqueIdBytes& id, int rank, int ranks) {
    settings_.rank = rank;
    settings_.ranks = ranks;
    settings_.name = "test";
    std::memcpy(settings_.identity.job.data(), id.data(), 16);
    std::memcpy(settings_.identity.secret.data(), id.data() + 16, 32);
    settings_.self = request_for(id, rank, ranks, rank).self;
    settings_.start_ns = clock_ns();
    settings_.deadline_ns = clock_ns() + 20 * kSecond;
    protocol_.emplace(settings_);
  }
  MemberProtocol& protocol() { return *protocol_; }

  /// Exchanges bytes until `done` or a verdict. False: 20 s have passed.
  bool run(const std::function<bool()>& done) {
    while (!protocol_->finished() && !done()) {
      if (clock_ns() > settings_.deadline_ns) return false;
      if (!socket_) {
        if (connect_to_job(settings_.identity.job, socket_) != 0) continue;
        protocol_->connected(make_nonce().value(), "root", clock_ns());
      }
      for (ProtocolAction& action : protocol_->take_actions())
        if (action.bytes) outbox_.push(std::move(action.bytes), std::move(action.descriptors));
      outbox_.flush(socket_.get());
      if (done()) return true;
      std::vector<pollfd> entries = {{socket_.get(), POLLIN, 0}};
      poll_until(entries, settings_.deadline_ns);
      char buffer[4096];
      Received got = receive_some(socket_.get(), buffer, std::min(protocol_->want(), sizeof buffer), true);
      if (got.state == Received::State::end) {
        socket_.reset();
        protocol_->closed(clock_ns());
      } else if (got.state == Received::State::data) {
        protocol_->received(got.bytes, std::move(got.descriptors), clock_ns());
      }
    }
    return true;
  }
  /// Until the root has counted this rank as present: only then does it read ahead.
  bool run_until_welcome() {
    return run([this] { return protocol_->want() > 4096; });
  }
  void vanish() { socket_.reset(); }

 private:
  ProtocolSettings settings_;
  std::optional<MemberProtocol> protocol_;
  UniqueFd socket_;
  Outbox outbox_;
};

TEST(BootstrapProcess, sixty_four_processes_join_and_exchange_memory) {
  const UniqueIdBytes id = fresh_id();
  const std::uint64_t start = clock_ns();
  ProcessRanks job(64, [&](const RankProcess& self) {
    const UniqueFd memory(memfd_create("tutti-test", MFD_CLOEXEC));
    if (ftruncate(memory.get(), self.rank() + 1) != 0) return self.report("no memory");
    JoinRequest request = request_for(id, self.rank(), 64, self.rank());
    request.self.address.descriptors = {memory.get()};
    auto joined = join(std::move(request));
    if (!joined.is_ok()) return self.report(joined.status().to_string());
    int wrong = 0;
    for (int rank = 0; rank < 64; ++rank) {
      const Introduction& member = joined->members[static_cast<std::size_t>(rank)];
      struct stat info {};
      wrong += member.payload != "payload of " + std::to_string(rank);
      wrong += member.address.descriptors.size() != (rank == self.rank() ? 0u : 1u);
      for (const int number : member.address.descriptors)
        wrong += fstat(number, &info) != 0 || info.st_size != rank + 1;
    }
    self.report(wrong == 0 ? "right" : std::to_string(wrong) + " wrong");
  });
  const auto lines = job.lines(64);
  std::printf("64 processes started and joined in %.3f s\n", static_cast<double>(clock_ns() - start) * 1e-9);
  ASSERT_EQ(lines.size(), 64u);
  for (const auto& [rank, text] : lines) EXPECT_EQ(text, "right") << "rank " << rank;
}

TEST(BootstrapProcess, a_present_rank_that_dies_is_named_at_once) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(1, [&](const RankProcess& self) { join_and_report(id, 4, self, 20 * kSecond); });
  HandMember survivor(id, 3, 4), victim(id, 2, 4);
  ASSERT_TRUE(survivor.run_until_welcome());
  ASSERT_TRUE(victim.run_until_welcome());
  const std::uint64_t start = clock_ns();
  victim.vanish();
  ASSERT_TRUE(survivor.run([] { return false; }));
  EXPECT_LT(clock_ns() - start, kSecond);
  const Status& verdict = survivor.protocol().verdict();
  EXPECT_EQ(verdict.code(), TUTTI_PEER_LOST);
  EXPECT_EQ(verdict.failing_rank(), 2);
  const auto [rank, text] = job.next_line(kSecond);
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(text, "2 " + verdict.to_string());
  EXPECT_LT(clock_ns() - start, kSecond);
}

TEST(BootstrapProcess, a_killed_root_is_named_at_once_by_all_who_were_present) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(1, [&](const RankProcess& self) { join_and_report(id, 4, self, 20 * kSecond); });
  HandMember first(id, 1, 4), second(id, 2, 4);
  ASSERT_TRUE(first.run_until_welcome());
  ASSERT_TRUE(second.run_until_welcome());
  const std::uint64_t start = clock_ns();
  job.kill_and_reap(0);
  for (HandMember* member : {&first, &second}) {
    ASSERT_TRUE(member->run([] { return false; }));
    EXPECT_EQ(member->protocol().verdict().code(), TUTTI_PEER_LOST);
    EXPECT_EQ(member->protocol().verdict().failing_rank(), 0);
  }
  EXPECT_LT(clock_ns() - start, kSecond);
}

TEST(BootstrapProcess, a_stopped_root_is_named_at_the_deadline) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(1, [&](const RankProcess& self) { join_and_report(id, 3, self, 20 * kSecond); });
  HandMember present(id, 2, 3);
  ASSERT_TRUE(present.run_until_welcome());
  job.signal_rank(0, SIGSTOP);
  JoinRequest request = request_for(id, 1, 3, 1);
  request.deadline_ns = clock_ns() + kSecond / 4;
  const auto joined = join(std::move(request));
  EXPECT_EQ(joined.status().code(), TUTTI_TIMEOUT);
  EXPECT_EQ(joined.status().failing_rank(), 0);
  EXPECT_NE(joined.status().message().find("took the connection and did not answer"), std::string::npos)
      << joined.status().to_string();
}

/// Kills `victim` of four joining processes at some moment, and returns what the others report.
std::multimap<int, std::string> kill_while_joining(int victim, std::uint64_t after_ns) {
  const UniqueIdBytes id = fresh_id();
  ProcessRanks job(4, [&](const RankProcess& self) { join_and_report(id, 4, self, kSecond); });
  const std::uint64_t moment = clock_ns() + after_ns;
  while (clock_ns() < moment) continue;
  job.kill_and_reap(victim);
  std::multimap<int, std::string> lines;
  while (lines.size() < 3) {
    auto line = job.next_line(5 * kSecond);
    if (line.first < 0) break;
    if (line.first != victim) lines.insert(std::move(line));  // the victim may have been quicker
  }
  return lines;
}

TEST(BootstrapProcess, a_member_killed_at_any_moment_leaves_the_others_of_one_mind) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Random random(kSeed);
  for (int round = 0; round < 8; ++round) {
    const int victim = 1 + static_cast<int>(random.below(3));
    const auto lines = kill_while_joining(victim, random.below(3'000'000));
    ASSERT_EQ(lines.size(), 3u);
    const std::string& verdict = lines.begin()->second;
    for (const auto& [rank, text] : lines) EXPECT_EQ(text, verdict) << "round " << round << " rank " << rank;
    if (verdict != "joined") {
      EXPECT_EQ(verdict.substr(0, 2), std::to_string(victim) + " ") << verdict;
    }
  }
}

TEST(BootstrapProcess, a_root_killed_at_any_moment_is_named_by_all) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Random random(kSeed);
  for (int round = 0; round < 8; ++round) {
    const auto lines = kill_while_joining(0, random.below(3'000'000));
    ASSERT_EQ(lines.size(), 3u);
    for (const auto& [rank, text] : lines) {
      if (text == "joined") continue;  // it was too late to stop this one: its watcher will tell
      EXPECT_EQ(text.substr(0, 2), "0 ") << "round " << round << " rank " << rank << ": " << text;
    }
  }
}

}  // namespace
}  // namespace tutti::core::test
