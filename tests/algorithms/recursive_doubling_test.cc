// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(RecursiveDoubling, takes_log2_rounds_and_sends_everything_each_time) {
  const Algorithm* row = find_algorithm(TUTTI_ALL_REDUCE, "recursive_doubling");
  ASSERT_NE(row, nullptr);
  for (const int ranks : {2, 4, 8, 16, 32, 64}) {
    const RowCost cost = row->cost(ranks);
    int rounds = 0;
    while ((1 << rounds) < ranks) ++rounds;
    EXPECT_EQ(cost.rounds, rounds);
    EXPECT_EQ(cost.sent, rounds);
  }
  // Ranks beyond a power of two cost a fold before and an unfold after.
  EXPECT_EQ(row->cost(6).rounds, 3);
  EXPECT_EQ(row->cost(7).rounds, 4);
  EXPECT_EQ(row->cost(7).sent, 3);
}

TEST(RecursiveDoubling, guests_of_the_fold_send_once) {
  const Algorithm* row = find_algorithm(TUTTI_ALL_REDUCE, "recursive_doubling");
  auto schedules = build_all(*row, 6, 0);
  ASSERT_TRUE(schedules.is_ok());
  for (const int guest : {0, 2}) EXPECT_EQ((*schedules)[static_cast<std::size_t>(guest)].steps.size(), 2u);
}

}  // namespace
}  // namespace tutti::core
