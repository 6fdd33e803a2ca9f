// SPDX-License-Identifier: Apache-2.0
#include "src/base/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace tutti::core {
namespace {

TEST(Random, equals_the_published_sequence) {
  // First outputs of SplitMix64 for seed 1234567, as listed with the reference code at prng.di.unimi.it.
  Random random(1234567);
  EXPECT_EQ(random(), 6457827717110365317ULL);
  EXPECT_EQ(random(), 3203168211198807973ULL);
  EXPECT_EQ(random(), 9817491932198370423ULL);
}

TEST(Random, every_input_bit_flips_about_half_of_the_output) {
  for (int bit = 0; bit < 64; ++bit) {
    int flipped = 0;
    Random random(7);
    for (int i = 0; i < 64; ++i) {
      const std::uint64_t x = random();
      flipped += std::popcount(mix64(x) ^ mix64(x ^ (std::uint64_t{1} << bit)));
    }
    // 4096 fair bits: mean 2048, standard deviation 32.
    EXPECT_NEAR(flipped, 2048, 200) << bit;
  }
}

TEST(Random, hash_depends_on_order_and_content) {
  const std::uint64_t a = hash_text("ring"), b = hash_text("tree");
  EXPECT_NE(hash_combine(hash_combine(0, a), b), hash_combine(hash_combine(0, b), a));
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(hash_combine(0, static_cast<std::uint64_t>(i)));
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_NE(hash_text(""), hash_text(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace tutti::core
