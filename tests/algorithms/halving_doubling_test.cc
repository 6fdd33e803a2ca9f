// SPDX-License-Identifier: Apache-2.0
// recursive_halving, recursive_doubling all_gather, halving_doubling.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "src/plan/algorithm.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

std::vector<Schedule> schedules_of(tutti_collective what, const char* name, int ranks) {
  auto schedules = build_all(*find_algorithm(what, name), ranks, 0);
  EXPECT_TRUE(schedules.is_ok());
  return schedules.is_ok() ? *schedules : std::vector<Schedule>{};
}

TEST(RecursiveHalving, half_of_all_bytes_go_to_a_neighbour) {
  for (const Schedule& schedule : schedules_of(TUTTI_REDUCE_SCATTER, "recursive_halving", 16)) {
    std::map<int, int> sends;  // by distance
    for (const Step& step : schedule.steps)
      if (step.op == StepOp::send) ++sends[std::abs(step.peer - schedule.rank)];
    EXPECT_EQ(sends, (std::map<int, int>{{1, 8}, {2, 4}, {4, 2}, {8, 1}}));
  }
}

TEST(RecursiveHalving, runs_over_powers_of_two_only) {
  for (const auto& [what, name] :
       {std::pair{TUTTI_REDUCE_SCATTER, "recursive_halving"}, std::pair{TUTTI_ALL_GATHER, "recursive_doubling"}}) {
    EXPECT_TRUE(admits(*find_algorithm(what, name), 8));
    EXPECT_FALSE(admits(*find_algorithm(what, name), 6));
  }
}

TEST(RecursiveDoubling, gathers_runs_of_neighbouring_blocks) {
  for (const Schedule& schedule : schedules_of(TUTTI_ALL_GATHER, "recursive_doubling", 8)) {
    std::set<int> peers;
    for (const Step& step : schedule.steps) {
      if (step.op != StepOp::recv) continue;
      peers.insert(step.peer);
      const int distance = schedule.rank ^ step.peer;
      EXPECT_EQ(static_cast<int>(step.dst.chunk) / distance, step.peer / distance);
    }
    EXPECT_EQ(peers.size(), 3u);
  }
}

TEST(HalvingDoubling, takes_two_log2_rounds_and_the_bytes_of_the_ring) {
  const Algorithm& row = *find_algorithm(TUTTI_ALL_REDUCE, "halving_doubling");
  const Algorithm& ring = *find_algorithm(TUTTI_ALL_REDUCE, "ring");
  for (const int ranks : {2, 8, 64}) {
    EXPECT_DOUBLE_EQ(row.cost(ranks).sent, ring.cost(ranks).sent);
    EXPECT_LE(row.cost(ranks).rounds, ring.cost(ranks).rounds);
  }
  EXPECT_EQ(row.cost(64).rounds, 12);
  EXPECT_EQ(row.cost(65).rounds, 14) << "a fold before and an unfold after";
}

TEST(HalvingDoubling, streams_a_round_both_ways_over_a_rendezvous) {
  for (const int ranks : {8, 11}) {
    const auto schedules = schedules_of(TUTTI_ALL_REDUCE, "halving_doubling", ranks);
    const CheckOutcome outcome = check_schedules(schedules, {TUTTI_ALL_REDUCE, 0, 0});
    EXPECT_TRUE(outcome.ok()) << outcome.violation->to_string("");
    for (const Schedule& schedule : schedules)
      for (const Step& step : schedule.steps) EXPECT_LE(step.lane, 1);
  }
}

}  // namespace
}  // namespace tutti::core
