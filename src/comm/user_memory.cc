// SPDX-License-Identifier: Apache-2.0
#include "src/comm/user_memory.h"

#include <algorithm>
#include <string>

namespace tutti::core {

Result<void*> UserMemory::allocate(std::size_t bytes) {
  // Whole pages, so that neither two users nor a user and Tutti share one. The endpoint aligns to lines only: a page
  // more, and the pages begin somewhere in the first one.
  constexpr std::size_t kPage = 4096;
  const std::size_t rounded = std::max<std::size_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  if (rounded < bytes || rounded + kPage < rounded)
    return Status::error(TUTTI_INVALID_ARGUMENT, "bytes is " + std::to_string(bytes) + ", more than fits in memory");
  TUTTI_TRY(block, endpoint_.allocate(rounded + kPage));
  const auto address = reinterpret_cast<std::uintptr_t>(block.pointer);
  std::byte* const pages = block.pointer + (kPage - address % kPage) % kPage;
  std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<std::uintptr_t>(pages)] = {block, rounded, next_generation_++};
  return static_cast<void*>(pages);
}

Status UserMemory::free(void* pointer) {
  std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const auto found = allocations_.find(begin);
  if (found == allocations_.end())
    return Status::error(TUTTI_INVALID_ARGUMENT, "pointer is not from tutti_alloc, or was freed before");
  const std::uintptr_t end = begin + found->second.bytes;
  for (const auto& entry : registrations_)
    if (entry.second.begin < end && begin < entry.second.end)
      return Status::error(TUTTI_INVALID_ARGUMENT, "the memory is still registered")
          .with_remedy("tutti_deregister_buffer first");
  endpoint_.release(found->second.block);
  allocations_.erase(found);
  return {};
}

const UserMemory::Allocation* UserMemory::holder(std::uintptr_t begin, std::uintptr_t end) const {
  auto after = allocations_.upper_bound(begin);
  if (after == allocations_.begin()) return nullptr;
  const auto& [start, allocation] = *std::prev(after);
  return end <= start + allocation.bytes ? &allocation : nullptr;
}

Result<std::uint64_t> UserMemory::register_range(void* pointer, std::size_t bytes) {
  if (bytes == 0) return Status::error(TUTTI_INVALID_ARGUMENT, "bytes is 0").with_remedy("register at least one byte");
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (begin + bytes < begin)
    return Status::error(TUTTI_INVALID_ARGUMENT, "bytes is " + std::to_string(bytes) + ", past the end of memory");
  std::lock_guard lock(mutex_);
  const Allocation* allocation = holder(begin, begin + bytes);
  Registration registration{begin, begin + bytes, 0, ~std::uint64_t{0}};
  if (allocation) {
    registration.generation = allocation->generation;
    registration.offset =
        allocation->block.offset + (begin - reinterpret_cast<std::uintptr_t>(allocation->block.pointer));
  }
  registrations_[next_registration_] = registration;
  registered_.store(registrations_.size(), std::memory_order_relaxed);
  return next_registration_++;
}

Status UserMemory::deregister(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  if (registrations_.erase(id) == 0) return Status::error(TUTTI_INVALID_ARGUMENT, "the registration is unknown");
  registered_.store(registrations_.size(), std::memory_order_relaxed);
  return {};
}

Announcement UserMemory::find(const void* pointer, std::uint64_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  std::lock_guard lock(mutex_);
  for (const auto& [id, registration] : registrations_) {
    if (begin < registration.begin || begin > registration.end || bytes > registration.end - begin) continue;
    const std::uint64_t offset = registration.offset == ~std::uint64_t{0}
                                     ? registration.offset
                                     : registration.offset + (begin - registration.begin);
    return {static_cast<std::uint32_t>(id), registration.generation, offset};
  }
  return {};
}

}  // namespace tutti::core
