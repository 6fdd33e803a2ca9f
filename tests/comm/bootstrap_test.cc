// SPDX-License-Identifier: Apache-2.0
// join() over real sockets, ranks as threads. Deaths of processes are in bootstrap_process_test.cc, message orders in
// bootstrap_protocol_test.cc.
#include "src/comm/bootstrap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <set>

#include "src/comm/bootstrap_socket.h"
#include "tests/comm/bootstrap_support.h"

namespace tutti::core::test {
namespace {

JobId job_of(const UniqueIdBytes& id) {
  JobId job;
  std::copy_n(id.begin(), job.size(), job.begin());
  return job;
}

std::vector<JoinRequest> requests_for(const UniqueIdBytes& id, const std::vector<int>& processes) {
  std::vector<JoinRequest> requests;
  for (std::size_t rank = 0; rank < processes.size(); ++rank)
    requests.push_back(request_for(id, static_cast<int>(rank), static_cast<int>(processes.size()), processes[rank]));
  return requests;
}

void expect_whole_table(const JoinResult& joined, const std::vector<int>& processes) {
  ASSERT_EQ(joined.members.size(), processes.size());
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const Introduction& member = joined.members[rank];
    EXPECT_EQ(member.process, process_number(processes[rank]));
    EXPECT_EQ(member.pid, getpid());
    EXPECT_EQ(member.member_id, rank + 1000);
    EXPECT_EQ(member.host, "here");
    EXPECT_EQ(member.agreed, "slice_bytes=256K\ntimeout=300s\n");
    EXPECT_EQ(member.payload, "payload of " + std::to_string(rank));
    EXPECT_EQ(member.address.bytes, "address of process " + std::to_string(processes[rank]));
  }
}

// What a byte written into one end says at the other: all connections of all ranks, paired up.
void expect_connections_in_pairs(std::vector<Result<JoinResult>>& results, const std::vector<int>& processes) {
  std::multiset<std::pair<ProcessId, ProcessId>> ends;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    for (const LivenessConnection& connection : results[rank]->connections) {
      ASSERT_GE(connection.fd.get(), 0);
      ends.emplace(process_number(processes[rank]), connection.process);
      EXPECT_EQ(connection.process, process_number(processes[static_cast<std::size_t>(connection.rank)]));
      const ProcessId self = process_number(processes[rank]);
      ASSERT_EQ(send(connection.fd.get(), self.data(), self.size(), MSG_NOSIGNAL), 16);
    }
  }
  for (const auto& [a, b] : ends) {
    EXPECT_NE(a, b);
    EXPECT_EQ(ends.count({a, b}), 1u);
    EXPECT_EQ(ends.count({b, a}), 1u);
  }
  for (auto& result : results) {
    for (const LivenessConnection& connection : result->connections) {
      ProcessId other;
      ASSERT_EQ(recv(connection.fd.get(), other.data(), other.size(), 0), 16);
      EXPECT_EQ(other, connection.process);
    }
  }
}

std::size_t connections_of(const std::vector<Result<JoinResult>>& results, std::size_t rank) {
  return results[rank].value().connections.size();
}

TEST(Bootstrap, unique_ids_differ_and_survive_text) {
  const UniqueIdBytes a = fresh_id(), b = fresh_id();
  EXPECT_NE(a, b);
  const std::string text = format_unique_id(a);
  EXPECT_EQ(text.size(), 256u);
  EXPECT_EQ(parse_unique_id(text).value(), a);
  for (std::size_t i = 48; i < a.size(); ++i) EXPECT_EQ(a[i], 0);
}

TEST(Bootstrap, malformed_unique_ids_are_named) {
  std::string text = format_unique_id(fresh_id());
  text[77] = 'g';
  const auto digit = parse_unique_id(text);
  EXPECT_EQ(digit.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(digit.status().message().find("character 77"), std::string::npos) << digit.status().message();
  const auto length = parse_unique_id("abc");
  EXPECT_EQ(length.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(length.status().message().find("3 characters"), std::string::npos) << length.status().message();
}

TEST(Bootstrap, one_rank_needs_nobody) {
  const int before = open_files();
  auto joined = join(request_for(fresh_id(), 0, 1, 0));
  ASSERT_TRUE(joined.is_ok()) << joined.status().to_string();
  expect_whole_table(*joined, {0});
  EXPECT_TRUE(joined->connections.empty());
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, ranks_of_one_process_get_the_table_and_no_connections) {
  const int before = open_files();
  const std::vector<int> processes = {0, 0, 0, 0, 0};
  {
    auto results = join_all(requests_for(fresh_id(), processes));
    for (auto& result : results) {
      ASSERT_TRUE(result.is_ok()) << result.status().to_string();
      expect_whole_table(*result, processes);
      EXPECT_TRUE(result->connections.empty());
    }
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, processes_get_a_star_and_a_ring_of_connections) {
  const int before = open_files();
  const std::vector<int> processes = {0, 1, 2, 3, 4};
  {
    auto results = join_all(requests_for(fresh_id(), processes));
    for (auto& result : results) {
      ASSERT_TRUE(result.is_ok()) << result.status().to_string();
      expect_whole_table(*result, processes);
    }
    expect_connections_in_pairs(results, processes);
    EXPECT_EQ(connections_of(results, 0), 4u);
    EXPECT_EQ(connections_of(results, 1), 2u);  // root, successor; its predecessor is the root
    EXPECT_EQ(connections_of(results, 2), 3u);
    EXPECT_EQ(connections_of(results, 4), 2u);
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, interleaved_ranks_share_their_processes_connections) {
  const std::vector<int> processes = {7, 1, 2, 7, 1, 2, 3, 1, 7};
  auto results = join_all(requests_for(fresh_id(), processes));
  for (auto& result : results) {
    ASSERT_TRUE(result.is_ok()) << result.status().to_string();
    expect_whole_table(*result, processes);
  }
  expect_connections_in_pairs(results, processes);
  EXPECT_EQ(connections_of(results, 0), 3u);
  for (const std::size_t later_of_its_process : {3u, 4u, 5u, 7u, 8u})
    EXPECT_EQ(connections_of(results, later_of_its_process), 0u);
}

TEST(Bootstrap, descriptors_reach_every_rank_of_other_processes_once) {
  const int before = open_files();
  const std::vector<int> processes = {0, 0, 1, 1, 2};
  std::vector<UniqueFd> owned;
  {
    auto requests = requests_for(fresh_id(), processes);
    for (std::size_t rank = 0; rank < requests.size(); ++rank) {
      for (int i = 0; i <= processes[rank]; ++i) {
        owned.emplace_back(memfd_create("tutti-test", MFD_CLOEXEC));
        ASSERT_EQ(ftruncate(owned.back().get(), 100 * processes[rank] + i + 1), 0);
        requests[rank].self.address.descriptors.push_back(owned.back().get());
      }
    }
    auto results = join_all(std::move(requests));
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_TRUE(results[rank].is_ok()) << results[rank].status().to_string();
      JoinResult& joined = *results[rank];
      for (std::size_t other = 0; other < processes.size(); ++other) {
        const auto& numbers = joined.members[other].address.descriptors;
        const bool lowest = other == 0 || processes[other - 1] != processes[other];
        if (processes[other] == processes[rank] || !lowest) {
          EXPECT_TRUE(numbers.empty());
          continue;
        }
        ASSERT_EQ(numbers.size(), static_cast<std::size_t>(processes[other]) + 1);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          struct stat info {};
          ASSERT_EQ(fstat(numbers[i], &info), 0);
          EXPECT_EQ(info.st_size, 100 * processes[other] + static_cast<int>(i) + 1);
          EXPECT_NE(fcntl(numbers[i], F_GETFD) & FD_CLOEXEC, 0);
        }
      }
      close_descriptors(joined);
    }
  }
  for (const UniqueFd& fd : owned) EXPECT_GE(fcntl(fd.get(), F_GETFD), 0);  // borrowed, not taken
  owned.clear();
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, jobs_with_other_ids_do_not_meet) {
  auto requests = requests_for(fresh_id(), {0, 1});
  const auto others = requests_for(fresh_id(), {2, 3});
  requests.insert(requests.end(), others.begin(), others.end());
  auto results = join_all(std::move(requests));
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].is_ok()) << results[i].status().to_string();
    expect_whole_table(*results[i], i < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
  }
}

TEST(Bootstrap, an_id_serves_one_communicator_after_another) {
  const UniqueIdBytes id = fresh_id();
  const int before = open_files();
  for (int life = 0; life < 100; ++life) {
    auto results = join_all(requests_for(id, {0, 1, 1}));
    for (auto& result : results) ASSERT_TRUE(result.is_ok()) << result.status().to_string();
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, a_missing_rank_is_named_alike_to_everybody) {
  const int before = open_files();
  auto requests = requests_for(fresh_id(), {0, 1, 2, 3});
  requests.erase(requests.begin() + 2);
  for (JoinRequest& request : requests) request.deadline_ns = clock_ns() + kSecond / 5;
  const auto results = join_all(std::move(requests));
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
    EXPECT_EQ(result.status().failing_rank(), 2);
    EXPECT_NE(result.status().message().find("3 of 4 ranks present; missing: 2"), std::string::npos)
        << result.status().message();
    EXPECT_EQ(result.status().message(), results.front().status().message());
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, a_rank_with_a_shorter_deadline_gets_the_same_verdict) {
  auto requests = requests_for(fresh_id(), {0, 1, 2, 3});
  requests.erase(requests.begin() + 2);
  requests.back().deadline_ns = clock_ns() + kSecond / 5;
  const auto results = join_all(std::move(requests));
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
    EXPECT_EQ(result.status().message(), results.front().status().message());
    EXPECT_NE(result.status().message().find("missing: 2"), std::string::npos) << result.status().message();
  }
}

TEST(Bootstrap, a_missing_rank_0_is_named_with_its_job) {
  JoinRequest request = request_for(fresh_id(), 1, 2, 1);
  request.deadline_ns = clock_ns() + kSecond / 5;
  const auto result = join(std::move(request));
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
  EXPECT_EQ(result.status().failing_rank(), 0);
  EXPECT_NE(result.status().message().find("rank 0 has not come: no socket for job"), std::string::npos)
      << result.status().message();
}

TEST(Bootstrap, a_second_rank_0_is_told_who_was_first) {
  const UniqueIdBytes id = fresh_id();
  const auto listener = listen_for_job(job_of(id));
  ASSERT_TRUE(listener.is_ok());
  const auto result = join(request_for(id, 0, 2, 0));
  EXPECT_EQ(result.status().code(), TUTTI_UNAVAILABLE);
  EXPECT_EQ(result.status().failing_rank(), 0);
  EXPECT_NE(result.status().message().find("already there: process " + std::to_string(getpid())), std::string::npos)
      << result.status().message();
}

TEST(Bootstrap, differing_settings_name_both_ranks_and_values) {
  auto requests = requests_for(fresh_id(), {0, 1});
  requests[1].self.agreed = "slice_bytes=1M\ntimeout=300s\n";
  const auto results = join_all(std::move(requests));
  for (const auto& result : results) {
    EXPECT_EQ(result.status().code(), TUTTI_MISMATCH);
    EXPECT_EQ(result.status().failing_rank(), 1);
    EXPECT_NE(result.status().message().find("setting slice_bytes is 256K on rank 0 and 1M on rank 1"),
              std::string::npos)
        << result.status().message();
  }
}

TEST(Bootstrap, a_wrong_secret_is_refused_and_the_job_goes_on) {
  const UniqueIdBytes id = fresh_id();
  UniqueIdBytes wrong = id;
  wrong[20] ^= 1;
  auto requests = requests_for(id, {0, 1});
  requests.push_back(request_for(wrong, 1, 2, 2));
  std::optional<Result<JoinResult>> stranger;
  std::thread root([&] {
    auto joined = join(std::move(requests[0]));
    EXPECT_TRUE(joined.is_ok()) << joined.status().to_string();
  });
  stranger.emplace(join(std::move(requests[2])));
  EXPECT_EQ(stranger->status().code(), TUTTI_UNAVAILABLE);
  EXPECT_NE(stranger->status().message().find("does not know the secret"), std::string::npos)
      << stranger->status().message();
  auto joined = join(std::move(requests[1]));
  EXPECT_TRUE(joined.is_ok()) << joined.status().to_string();
  root.join();
}

TEST(Bootstrap, silent_and_babbling_strangers_do_not_hold_the_job_up) {
  const UniqueIdBytes id = fresh_id();
  const int before = open_files();
  std::thread root([&] {
    auto joined = join(request_for(id, 0, 3, 0));
    EXPECT_TRUE(joined.is_ok()) << joined.status().to_string();
  });
  std::vector<UniqueFd> strangers;
  while (strangers.size() < 600) {  // more than the root holds unproved at a time
    UniqueFd stranger;
    if (connect_to_job(job_of(id), stranger) != 0) continue;
    if (strangers.size() % 2 == 0) {
      EXPECT_EQ(send(stranger.get(), "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
    }
    strangers.push_back(std::move(stranger));
  }
  std::vector<JoinRequest> requests;
  requests.push_back(request_for(id, 1, 3, 1));
  requests.push_back(request_for(id, 2, 3, 2));
  for (auto& result : join_all(std::move(requests))) EXPECT_TRUE(result.is_ok()) << result.status().to_string();
  root.join();
  strangers.clear();
  EXPECT_EQ(open_files(), before);
}

TEST(Bootstrap, bad_requests_name_the_argument_and_its_limit) {
  const UniqueIdBytes id = fresh_id();
  EXPECT_EQ(join(request_for(id, 0, 0, 0)).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(join(request_for(id, 4, 4, 0)).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(join(request_for(id, -1, 4, 0)).status().code(), TUTTI_INVALID_ARGUMENT);
  JoinRequest request = request_for(id, 0, 2, 0);
  request.self.payload.assign(5000, 'x');
  const auto result = join(std::move(request));
  EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(result.status().message().find("payload bytes has 5000"), std::string::npos) << result.status().message();
}

TEST(Bootstrap, full_size_introductions_arrive_whole) {
  const std::vector<int> processes = {0, 1, 2};
  auto requests = requests_for(fresh_id(), processes);
  for (JoinRequest& request : requests) {
    request.self.payload.assign(4096, static_cast<char>('a' + request.rank));
    request.self.address.bytes.assign(16 * 1024, static_cast<char>('A' + request.rank));
    request.self.agreed = "long=" + std::string(60'000, 'v') + "\n";
  }
  for (auto& result : join_all(std::move(requests))) {
    ASSERT_TRUE(result.is_ok()) << result.status().to_string();
    for (int rank = 0; rank < 3; ++rank) {
      const Introduction& member = result->members[static_cast<std::size_t>(rank)];
      EXPECT_EQ(member.payload, std::string(4096, static_cast<char>('a' + rank)));
      EXPECT_EQ(member.address.bytes, std::string(16 * 1024, static_cast<char>('A' + rank)));
      EXPECT_EQ(member.agreed.size(), 60'006u);
    }
  }
}

// ThreadSanitizer makes 512 threads take most of a minute.
#if defined(__SANITIZE_THREAD__)
constexpr int kManyRanks = 64;
#else
constexpr int kManyRanks = 512;
#endif

TEST(Bootstrap, many_threads_join) {
  const int before = open_files();
  const std::uint64_t start = clock_ns();
  {
    auto results = join_all(requests_for(fresh_id(), std::vector<int>(kManyRanks, 0)));
    for (auto& result : results) {
      ASSERT_TRUE(result.is_ok()) << result.status().to_string();
      ASSERT_EQ(result->members.size(), static_cast<std::size_t>(kManyRanks));
      EXPECT_EQ(result->members.back().payload, "payload of " + std::to_string(kManyRanks - 1));
    }
  }
  std::printf("%d ranks as threads joined in %.3f s\n", kManyRanks, static_cast<double>(clock_ns() - start) * 1e-9);
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace tutti::core::test
