// SPDX-License-Identifier: Apache-2.0
// In a file of its own: inlined into a caller, the compiler takes `new` and `free` for a mismatched pair.
#include "tests/comm/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> g_allocations{0};

}  // namespace

void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
// This one, too: what std::stable_sort takes from it is given back to the delete below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::core::testing {

std::uint64_t allocations() { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace tutti::core::testing
