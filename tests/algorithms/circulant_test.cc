// SPDX-License-Identifier: Apache-2.0
// circulant, bruck, bruck_k, pat: the flows that look alike from every rank.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

std::vector<Schedule> schedules_of(tutti_collective what, const char* name, int ranks) {
  auto schedules = build_all(*find_algorithm(what, name), ranks, 0);
  EXPECT_TRUE(schedules.is_ok());
  return schedules.is_ok() ? *schedules : std::vector<Schedule>{};
}

/// Messages of rank 0 by distance to the left (`sign` -1) or right.
std::map<int, int> sends_by_distance(const std::vector<Schedule>& schedules, int sign) {
  const int ranks = static_cast<int>(schedules.size());
  std::map<int, int> sends;
  for (const Step& step : schedules.at(0).steps)
    if (step.op == StepOp::send) ++sends[(sign * step.peer + ranks) % ranks];
  return sends;
}

TEST(Circulant, halves_its_run_of_blocks_in_every_round) {
  // Runs of 11, 6, 3, 2, 1 blocks.
  const auto schedules = schedules_of(TUTTI_REDUCE_SCATTER, "circulant", 11);
  EXPECT_EQ(sends_by_distance(schedules, 1), (std::map<int, int>{{6, 5}, {3, 3}, {2, 1}, {1, 1}}));
}

TEST(Circulant, is_optimal_in_rounds_and_bytes_for_any_number_of_ranks) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const RowCost cost = find_algorithm(TUTTI_ALL_REDUCE, "circulant")->cost(ranks);
    EXPECT_GE(1 << static_cast<int>(cost.rounds / 2), ranks);
    EXPECT_LT(1 << static_cast<int>(cost.rounds / 2 - 1), ranks);
    EXPECT_DOUBLE_EQ(cost.sent, find_algorithm(TUTTI_ALL_REDUCE, "ring")->cost(ranks).sent);
  }
}

TEST(Bruck, doubles_its_blocks_in_every_round) {
  EXPECT_EQ(sends_by_distance(schedules_of(TUTTI_ALL_GATHER, "bruck", 11), -1),
            (std::map<int, int>{{1, 1}, {2, 2}, {4, 4}, {8, 3}}));
}

TEST(Bruck, k_ary_feeds_three_links_at_a_time) {
  EXPECT_EQ(sends_by_distance(schedules_of(TUTTI_ALL_GATHER, "bruck_k", 11), -1),
            (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}, {4, 4}, {8, 3}}));
  const Algorithm& row = *find_algorithm(TUTTI_ALL_GATHER, "bruck_k");
  EXPECT_EQ(row.cost(4).rounds, 1);
  EXPECT_EQ(row.cost(16).rounds, 2);
  EXPECT_EQ(row.cost(17).rounds, 3);
}

TEST(Pat, sends_least_over_the_largest_distance) {
  EXPECT_EQ(sends_by_distance(schedules_of(TUTTI_ALL_GATHER, "pat", 16), -1),
            (std::map<int, int>{{8, 1}, {4, 2}, {2, 4}, {1, 8}}));
  EXPECT_EQ(sends_by_distance(schedules_of(TUTTI_REDUCE_SCATTER, "pat", 16), 1),
            (std::map<int, int>{{8, 1}, {4, 2}, {2, 4}, {1, 8}}));
}

TEST(CircularFlows, never_send_and_receive_on_one_lane_in_one_round) {
  // In a run of sends and receives between two waits or changes of direction: stated as, a rendezvous suffices for
  // every number of ranks, whatever the length of the cycles.
  for (const auto& [what, name] : {std::pair{TUTTI_ALL_GATHER, "bruck"}, std::pair{TUTTI_ALL_GATHER, "bruck_k"},
                                   std::pair{TUTTI_ALL_GATHER, "pat"}, std::pair{TUTTI_ALL_REDUCE, "circulant"}}) {
    const Algorithm& row = *find_algorithm(what, name);
    EXPECT_EQ(row.needs.credits, 0);
    for (const int ranks : {3, 5, 7, 9, 15, 33}) {
      const CheckOutcome outcome = check_schedules(schedules_of(what, name, ranks), {what, 0, 0});
      EXPECT_TRUE(outcome.ok()) << outcome.violation->to_string("");
      EXPECT_EQ(outcome.rounds, row.cost(ranks).rounds);
    }
  }
}

}  // namespace
}  // namespace tutti::core
