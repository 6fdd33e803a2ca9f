// SPDX-License-Identifier: Apache-2.0
// Memory that users got from tutti_alloc or registered, by address.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "src/exec/control.h"
#include "transports/transport.h"

namespace tutti::core {

/// Thread-safe.
class UserMemory {
 public:
  explicit UserMemory(Endpoint& endpoint) : endpoint_(endpoint) {}
  Result<void*> allocate(std::size_t bytes);
  /// Errors: invalid_argument (not from allocate, or still registered).
  Status free(void* pointer);
  Result<std::uint64_t> register_range(void* pointer, std::size_t bytes);
  Status deregister(std::uint64_t id);
  /// The registration that holds all of [pointer, pointer + bytes).
  Announcement find(const void* pointer, std::uint64_t bytes) const;
  /// Whether find() can find anything: lets calls skip it.
  bool empty() const { return registered_.load(std::memory_order_relaxed) == 0; }

 private:
  struct Allocation {
    SharedBlock block;
    std::size_t bytes;  ///< of the user's pages in it
    std::uint32_t generation;
  };
  struct Registration {
    std::uintptr_t begin, end;
    std::uint32_t generation;
    std::uint64_t offset;
  };
  const Allocation* holder(std::uintptr_t begin, std::uintptr_t end) const;

  Endpoint& endpoint_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> allocations_;
  std::map<std::uint64_t, Registration> registrations_;
  std::atomic<std::size_t> registered_{0};
  std::uint32_t next_generation_ = 1;
  std::uint64_t next_registration_ = 1;
};

}  // namespace tutti::core
