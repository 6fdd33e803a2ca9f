// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/range_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "src/base/random.h"

namespace tutti::core {
namespace {

TEST(RangePool, an_empty_pool_has_nothing) {
  RangePool pool;
  EXPECT_FALSE(pool.take(128).has_value());
  EXPECT_EQ(pool.free_bytes(), 0U);
  EXPECT_EQ(pool.free_before(4096), 0U);
}

TEST(RangePool, takes_the_smallest_that_fits_and_the_lowest_of_equals) {
  RangePool pool;
  pool.give(0, 1024);
  pool.give(2048, 256);
  pool.give(4096, 256);
  EXPECT_EQ(pool.take(256), 2048U);
  EXPECT_EQ(pool.take(256), 4096U);
  EXPECT_EQ(pool.take(256), 0U);
  EXPECT_EQ(pool.take(1024), std::nullopt);
  EXPECT_EQ(pool.take(768), 256U);
  EXPECT_EQ(pool.free_bytes(), 0U);
}

TEST(RangePool, neighbours_merge_in_any_order) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    RangePool pool;
    FreeRange last;
    for (const int piece : order) last = pool.give(static_cast<std::uint64_t>(piece) * 128, 128);
    EXPECT_EQ(last.offset, 0U);
    EXPECT_EQ(last.bytes, 384U);
    EXPECT_EQ(pool.free_before(384), 384U);
    EXPECT_EQ(pool.take(384), 0U);
  }
}

TEST(RangePool, carving_leaves_both_sides) {
  RangePool pool;
  pool.give(0, 1024);
  pool.carve(256, 512);
  EXPECT_EQ(pool.free_before(256), 256U);
  EXPECT_EQ(pool.free_before(1024), 256U);
  EXPECT_EQ(pool.free_before(768), 0U);
  EXPECT_EQ(pool.free_bytes(), 512U);
}

TEST(RangePool, giving_twice_is_caught) {
  RangePool pool;
  pool.give(0, 1024);
  EXPECT_DEATH(pool.give(512, 128), "range_pool");
  EXPECT_DEATH(pool.give(0, 1024), "range_pool");
  EXPECT_DEATH(pool.carve(2048, 128), "range_pool");
}

// Against a byte map: taken ranges never overlap, nothing is lost, and everything merges back into one range.
TEST(RangePool, random_use_never_overlaps_and_loses_nothing) {
  constexpr std::uint64_t kUnits = 256;
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    RangePool pool;
    pool.give(0, kUnits);
    std::vector<bool> taken(kUnits, false);
    std::map<std::uint64_t, std::uint64_t> live;
    std::uint64_t used = 0;
    for (int step = 0; step < 500; ++step) {
      if (random.below(2) == 0 && !live.empty()) {
        auto victim = live.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(random.below(live.size())));
        for (std::uint64_t i = 0; i < victim->second; ++i) taken[victim->first + i] = false;
        used -= victim->second;
        pool.give(victim->first, victim->second);
        live.erase(victim);
      } else {
        const std::uint64_t bytes = 1 + random.below(24);
        const auto offset = pool.take(bytes);
        if (!offset) continue;
        for (std::uint64_t i = 0; i < bytes; ++i) {
          ASSERT_LT(*offset + i, kUnits);
          ASSERT_FALSE(taken[*offset + i]);
          taken[*offset + i] = true;
        }
        used += bytes;
        live.emplace(*offset, bytes);
      }
      ASSERT_EQ(pool.free_bytes(), kUnits - used);
    }
    for (const auto& [offset, bytes] : live) pool.give(offset, bytes);
    EXPECT_EQ(pool.take(kUnits), 0U);
  }
}

}  // namespace
}  // namespace tutti::core
