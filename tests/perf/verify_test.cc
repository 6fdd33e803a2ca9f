// SPDX-License-Identifier: Apache-2.0
#include "perf/common/verify.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "perf/common/element.h"

namespace tutti::perf {
namespace {

Segment reduction(Pattern pattern, tutti_op op, uint64_t count) {
  Segment segment;
  segment.pattern = pattern;
  segment.count = count;
  segment.seed = 5;
  segment.ranks = 3;
  segment.op = op;
  return segment;
}

/// Larger than the blocks in which verify works, and not a multiple of them.
constexpr uint64_t kCount = 10007;

TEST(Verify, accepts_what_fill_wrote) {
  const Layout layout = {reduction(Pattern::reduce_expected, TUTTI_SUM, kCount)};
  std::vector<float> buffer(kCount);
  fill(TUTTI_FLOAT32, layout, buffer.data());
  const Verdict verdict = verify(TUTTI_FLOAT32, layout, buffer.data());
  EXPECT_EQ(verdict.elements, kCount);
  EXPECT_EQ(verdict.wrong, 0u);
}

TEST(Verify, finds_each_single_wrong_bit) {
  const Layout layout = {reduction(Pattern::reduce_expected, TUTTI_SUM, kCount)};
  std::vector<char> buffer(kCount * 4);
  fill(TUTTI_FLOAT32, layout, buffer.data());
  for (uint64_t element : {uint64_t{0}, uint64_t{2047}, uint64_t{2048}, kCount - 1}) {
    char& byte = buffer[element * 4];
    byte = static_cast<char>(byte ^ 1);
    const Verdict verdict = verify(TUTTI_FLOAT32, layout, buffer.data());
    EXPECT_EQ(verdict.wrong, 1u);
    EXPECT_EQ(verdict.first_wrong, element);
    byte = static_cast<char>(byte ^ 1);
  }
}

TEST(Verify, names_the_first_of_several_and_counts_all) {
  const Layout layout = {reduction(Pattern::reduce_expected, TUTTI_MAX, kCount)};
  std::vector<int32_t> buffer(kCount);
  fill(TUTTI_INT32, layout, buffer.data());
  const int32_t expected = buffer[3000];
  buffer[3000] = expected ^ 4;
  buffer[9000] ^= 1;
  const Verdict verdict = verify(TUTTI_INT32, layout, buffer.data());
  EXPECT_EQ(verdict.wrong, 2u);
  EXPECT_EQ(verdict.first_wrong, 3000u);
  EXPECT_EQ(verdict.expected, describe_element(TUTTI_INT32, &expected));
  EXPECT_EQ(verdict.got, describe_element(TUTTI_INT32, &buffer[3000]));
}

TEST(Verify, averages_of_floats_may_differ_by_two_units) {
  const Layout layout = {reduction(Pattern::reduce_expected, TUTTI_AVG, 4)};
  std::vector<uint16_t> buffer(4);
  fill(TUTTI_FLOAT16, layout, buffer.data());
  buffer[1] = static_cast<uint16_t>(buffer[1] + 2);
  EXPECT_EQ(verify(TUTTI_FLOAT16, layout, buffer.data()).wrong, 0u);
  buffer[1] = static_cast<uint16_t>(buffer[1] + 1);
  EXPECT_EQ(verify(TUTTI_FLOAT16, layout, buffer.data()).wrong, 1u);
}

TEST(Verify, averages_of_integers_and_sums_are_exact) {
  EXPECT_EQ(tolerance(TUTTI_INT32, reduction(Pattern::reduce_expected, TUTTI_AVG, 1)), 0u);
  EXPECT_EQ(tolerance(TUTTI_FLOAT32, reduction(Pattern::reduce_expected, TUTTI_SUM, 1)), 0u);
  EXPECT_EQ(tolerance(TUTTI_FLOAT32, reduction(Pattern::copy, TUTTI_AVG, 1)), 0u);
}

TEST(Verify, works_in_later_segments_and_unaligned) {
  Layout layout = {reduction(Pattern::copy, TUTTI_SUM, 100), reduction(Pattern::copy, TUTTI_SUM, 50)};
  layout[1].rank = 1;
  std::vector<char> buffer(1 + 150 * 8);
  fill(TUTTI_FLOAT64, layout, buffer.data() + 1);
  EXPECT_EQ(verify(TUTTI_FLOAT64, layout, buffer.data() + 1).wrong, 0u);
  buffer[1 + 120 * 8] = static_cast<char>(buffer[1 + 120 * 8] ^ 1);
  const Verdict verdict = verify(TUTTI_FLOAT64, layout, buffer.data() + 1);
  EXPECT_EQ(verdict.wrong, 1u);
  EXPECT_EQ(verdict.first_wrong, 120u);
}

}  // namespace
}  // namespace tutti::perf
