// SPDX-License-Identifier: Apache-2.0
// Requests, ranks as threads and counted descriptors for the bootstrap tests.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/comm/bootstrap.h"

namespace tutti::core::test {

constexpr std::uint64_t kSecond = 1'000'000'000;

inline std::uint64_t clock_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

inline UniqueIdBytes fresh_id() {
  auto id = make_unique_id();
  EXPECT_TRUE(id.is_ok());
  return id.value();
}

/// Process number `n` of a pretended job: threads of one process can play several.
inline ProcessId process_number(int n) {
  ProcessId id{};
  id[0] = static_cast<unsigned char>(n);
  id[1] = static_cast<unsigned char>(n >> 8);
  id[15] = 0xaa;
  return id;
}

inline JoinRequest request_for(const UniqueIdBytes& id, int rank, int ranks, int process) {
  JoinRequest request;
  request.id = id;
  request.rank = rank;
  request.ranks = ranks;
  request.name = "test";
  request.deadline_ns = clock_ns() + 30 * kSecond;
  request.self.process = process_number(process);
  request.self.pid = getpid();
  request.self.member_id = static_cast<std::uint64_t>(rank) + 1000;
  request.self.host = "here";
  request.self.agreed = "slice_bytes=256K\ntimeout=300s\n";
  request.self.payload = "payload of " + std::to_string(rank);
  request.self.address.bytes = "address of process " + std::to_string(process);
  return request;
}

/// Every request in a thread of its own.
inline std::vector<Result<JoinResult>> join_all(std::vector<JoinRequest> requests) {
  std::vector<std::optional<Result<JoinResult>>> results(requests.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < requests.size(); ++i)
    threads.emplace_back([&results, &requests, i] { results[i].emplace(join(std::move(requests[i]))); });
  for (std::thread& thread : threads) thread.join();
  std::vector<Result<JoinResult>> plain;
  for (auto& result : results) plain.push_back(std::move(*result));
  return plain;
}

inline void close_descriptors(JoinResult& joined) {
  for (Introduction& member : joined.members) {
    for (const int number : member.address.descriptors) close(number);
    member.address.descriptors.clear();
  }
}

inline int open_files() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

}  // namespace tutti::core::test
