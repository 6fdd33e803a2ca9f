// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/plan/check.h"

namespace tutti::core {
namespace {

TEST(ScatterAllgather, every_rank_receives_every_chunk_once_and_the_root_none) {
  const int root = 3;
  for (const int ranks : {4, 7, 8, 12}) {
    const auto schedules = build_all(*find_algorithm(TUTTI_BROADCAST, "scatter_allgather"), ranks, root);
    ASSERT_TRUE(schedules.is_ok());
    for (const Schedule& schedule : *schedules) {
      std::multiset<std::uint32_t> received;
      for (const Step& step : schedule.steps)
        if (step.op == StepOp::recv) received.insert(step.dst.chunk);
      EXPECT_EQ(received.size(), schedule.rank == root ? 0u : static_cast<std::size_t>(ranks));
      EXPECT_EQ(std::set<std::uint32_t>(received.begin(), received.end()).size(), received.size());
    }
  }
}

TEST(ScatterAllgather, sends_less_than_twice_the_message_where_a_tree_sends_it_log2_times) {
  const RowCost cost = find_algorithm(TUTTI_BROADCAST, "scatter_allgather")->cost(16);
  EXPECT_LT(cost.sent, 2);
  EXPECT_EQ(find_algorithm(TUTTI_BROADCAST, "binomial")->cost(16).sent, 4);
}

}  // namespace
}  // namespace tutti::core
