// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process, seen from inside the library.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "src/comm/communicator.h"
#include "src/comm/group.h"

namespace tutti::core::testing {

using Rank = std::unique_ptr<Communicator>;

inline tutti_config config_of(const char* settings) {
  tutti_config config{};
  config.struct_size = sizeof config;
  config.name = "test";
  config.settings = settings;
  return config;
}

inline void spawn(int ranks, const std::function<void(Rank)>& body,
                  const char* settings = "timeout=30s;init_timeout=30s;cost=default") {
  const UniqueIdBytes id = std::move(make_unique_id()).value();
  const tutti_config config = config_of(settings);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      auto made = Communicator::create(id, r, ranks, &config);
      ASSERT_TRUE(made.is_ok()) << made.status().to_string();
      body(std::move(*made));
    });
  for (std::thread& thread : threads) thread.join();
}

inline bool eventually(const std::function<bool()>& condition) {
  const std::int64_t end = monotonic_ns() + 60'000'000'000;
  while (!condition()) {
    if (monotonic_ns() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

inline Call all_reduce_of(std::vector<std::int32_t>& data) {
  Call call;
  call.what = TUTTI_ALL_REDUCE;
  call.type = TUTTI_INT32;
  call.count = data.size();
  call.in = call.out = data.data();
  return call;
}

/// Operations that start together at run(), each with a reference of the test's own.
class TestGroup {
 public:
  TestGroup() { Group::current().begin(); }
  ~TestGroup() {
    for (Operation* operation : operations_) operation->release();
  }
  TestGroup(const TestGroup&) = delete;
  TestGroup& operator=(const TestGroup&) = delete;
  void add(Communicator& comm, const Call& call) {
    auto prepared = comm.prepare(call);
    ASSERT_TRUE(prepared.is_ok()) << prepared.status().to_string();
    operations_.push_back(*prepared);
    (*prepared)->retain();
    Group::current().add_operation(*prepared, true);
  }
  Status run() { return Group::current().end(); }
  const Operation& operation(std::size_t index) const { return *operations_[index]; }

 private:
  std::vector<Operation*> operations_;
};

}  // namespace tutti::core::testing
