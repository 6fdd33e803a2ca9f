// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/random.h"

namespace tutti::core::shm {
namespace {

constexpr Id16 kProcess = {1, 2, 3};
constexpr Id16 kBoot = {9, 8, 7};

std::unique_ptr<Arena> make_arena() {
  auto arena = Arena::make(kProcess, kBoot);
  EXPECT_TRUE(arena.is_ok()) << arena.status().to_string();
  return std::move(arena).value();
}

SharedBlock allocate(Arena& arena, std::size_t bytes) {
  auto block = arena.allocate(bytes);
  EXPECT_TRUE(block.is_ok()) << block.status().to_string();
  return block.is_ok() ? *block : SharedBlock{};
}

std::uint64_t file_bytes(const Arena& arena) {
  struct stat info {};
  EXPECT_EQ(fstat(arena.fd(), &info), 0);
  return static_cast<std::uint64_t>(info.st_size);
}

bool is_zero(const SharedBlock& block) {
  return std::all_of(block.pointer, block.pointer + block.bytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(Arena, header_says_whose_it_is) {
  const auto arena = make_arena();
  ArenaHeader header;
  ASSERT_EQ(pread(arena->fd(), static_cast<void*>(&header), sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
  EXPECT_EQ(header.magic, kArenaMagic);
  EXPECT_EQ(header.version, kArenaVersion);
  EXPECT_EQ(header.process, kProcess);
  EXPECT_EQ(header.boot, kBoot);
  EXPECT_EQ(header.reserve, arena->reserve());
  EXPECT_EQ(header.backed, file_bytes(*arena));
}

TEST(Arena, is_sealed_against_shrinking_and_can_still_grow) {
  const auto arena = make_arena();
  EXPECT_TRUE(fcntl(arena->fd(), F_GET_SEALS) & F_SEAL_SHRINK);
  EXPECT_NE(ftruncate(arena->fd(), 0), 0);
  EXPECT_NE(fcntl(arena->fd(), F_ADD_SEALS, F_SEAL_GROW), 0);
  const SharedBlock block = allocate(*arena, 3 * kExtentBytes);
  block.pointer[block.bytes - 1] = std::byte{1};
  EXPECT_EQ(file_bytes(*arena), 4 * kExtentBytes);
}

TEST(Arena, blocks_are_aligned_zeroed_and_where_their_offset_says) {
  const auto arena = make_arena();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{4097}, std::size_t{65536},
        std::size_t{kExtentBytes - 1}, std::size_t{kExtentBytes}, std::size_t{5 << 20}}) {
    const SharedBlock block = allocate(*arena, bytes);
    EXPECT_EQ(block.bytes, bytes);
    EXPECT_EQ(block.pointer, arena->base() + block.offset);
    EXPECT_GE(block.offset, sizeof(ArenaHeader));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.pointer) % (bytes >= kExtentBytes ? kExtentBytes : 128), 0U);
    EXPECT_TRUE(is_zero(block));
  }
}

TEST(Arena, small_blocks_share_extents) {
  const auto arena = make_arena();
  const std::uint64_t before = file_bytes(*arena);
  // Thirty idle communicators of 64 KiB fit the first extent, beside the header.
  for (int i = 0; i < 30; ++i) allocate(*arena, 64 << 10);
  EXPECT_EQ(file_bytes(*arena), before);
  for (int i = 0; i < 30; ++i) allocate(*arena, 64 << 10);
  EXPECT_EQ(file_bytes(*arena), before + kExtentBytes);
}

TEST(Arena, a_recycled_block_is_zeroed) {
  const auto arena = make_arena();
  for (const std::size_t bytes : {std::size_t{128}, std::size_t{100000}, std::size_t{3 * kExtentBytes}}) {
    const SharedBlock first = allocate(*arena, bytes);
    std::memset(first.pointer, 0xab, bytes);
    arena->release(first);
    const SharedBlock second = allocate(*arena, bytes);
    EXPECT_EQ(second.offset, first.offset);
    EXPECT_TRUE(is_zero(second));
    arena->release(second);
  }
}

TEST(Arena, a_larger_block_over_recycled_and_fresh_memory_is_zeroed) {
  const auto arena = make_arena();
  const SharedBlock first = allocate(*arena, 2 * kExtentBytes);
  std::memset(first.pointer, 0xab, first.bytes);
  arena->release(first);
  const SharedBlock second = allocate(*arena, 5 * kExtentBytes);
  EXPECT_EQ(second.offset, first.offset);  // grew where the free range ended
  EXPECT_EQ(file_bytes(*arena), 6 * kExtentBytes);
  EXPECT_TRUE(is_zero(second));
}

TEST(Arena, steady_state_does_not_grow) {
  const auto arena = make_arena();
  const std::vector<std::size_t> sizes = {200, 4096, 70000, 300000, 1500000, 2 * kExtentBytes, 9 * kExtentBytes + 5};
  std::uint64_t after_first = 0;
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<SharedBlock> blocks;
    for (const std::size_t bytes : sizes) blocks.push_back(allocate(*arena, bytes));
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (const SharedBlock& block : blocks) arena->release(block);
    if (round == 0) after_first = file_bytes(*arena);
    ASSERT_EQ(file_bytes(*arena), after_first);
  }
}

TEST(Arena, an_extent_of_released_small_blocks_serves_large_ones) {
  const auto arena = make_arena();
  std::vector<SharedBlock> small;
  for (int i = 0; i < 64; ++i) small.push_back(allocate(*arena, 256 << 10));
  const std::uint64_t grown = file_bytes(*arena);
  for (const SharedBlock& block : small) arena->release(block);
  allocate(*arena, 6 * kExtentBytes);
  EXPECT_EQ(file_bytes(*arena), grown);
}

TEST(Arena, releasing_twice_or_something_foreign_is_caught) {
  const auto arena = make_arena();
  const SharedBlock block = allocate(*arena, 100);
  arena->release(block);
  EXPECT_DEATH(arena->release(block), "arena");
  EXPECT_DEATH(arena->release(SharedBlock{4096, nullptr, 7}), "arena");
}

TEST(Arena, too_much_is_an_error_that_says_so) {
  const auto arena = make_arena();
  const auto beyond = arena->allocate(SIZE_MAX);
  ASSERT_FALSE(beyond.is_ok());
  EXPECT_EQ(beyond.status().code(), TUTTI_UNAVAILABLE);
  EXPECT_NE(beyond.status().message().find("reserve"), std::string::npos);
  const auto whole = arena->allocate(arena->reserve());
  ASSERT_FALSE(whole.is_ok());
  EXPECT_EQ(whole.status().code(), TUTTI_UNAVAILABLE);
  EXPECT_EQ(file_bytes(*arena), kExtentBytes);
  allocate(*arena, 4096);  // still usable
}

TEST(Arena, a_file_size_limit_is_an_error_not_a_signal) {
  const auto arena = make_arena();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 4 * kExtentBytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto block = arena->allocate(8 * kExtentBytes);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(block.is_ok());
  EXPECT_NE(block.status().to_string().find("ulimit -f"), std::string::npos);
}

TEST(Arena, threads_get_blocks_of_their_own) {
  const auto arena = make_arena();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&arena, &wrong, t] {
      Random random(static_cast<std::uint64_t>(t));
      const auto mark = static_cast<std::byte>(t + 1);
      for (int i = 0; i < 50; ++i) {
        const std::size_t bytes = i % 10 == 9 ? 3 << 20 : 1 + random.below(100000);
        auto block = arena->allocate(bytes);
        if (!block.is_ok() || !is_zero(*block)) {
          ++wrong;
          continue;
        }
        std::fill(block->pointer, block->pointer + bytes, mark);
        if (!std::all_of(block->pointer, block->pointer + bytes, [mark](std::byte b) { return b == mark; })) ++wrong;
        arena->release(*block);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tutti::core::shm
