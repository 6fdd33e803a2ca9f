// SPDX-License-Identifier: Apache-2.0
#include "src/comm/plan_cache.h"

#include <gtest/gtest.h>

#include "src/exec/mailbox.h"
#include "src/plan/builder.h"

namespace tutti::core {
namespace {

const Algorithm& row_of(tutti_collective what, const char* name) { return *find_algorithm(what, name); }

TEST(PlanCache, builds_once_and_gives_the_same_plan_again) {
  PlanCache plans(Placement{2, 5, {}});
  const Algorithm& ring = row_of(TUTTI_ALL_REDUCE, "ring");
  const Plan* first = *plans.get(ring, -1);
  EXPECT_EQ(first->row, &ring);
  EXPECT_EQ(first->lowered.rank, 2);
  EXPECT_EQ(first->lowered.ranks, 5);
  EXPECT_EQ(*plans.get(row_of(TUTTI_ALL_GATHER, "ring"), -1), *plans.get(row_of(TUTTI_ALL_GATHER, "ring"), -1));
  EXPECT_EQ(*plans.get(ring, -1), first);
  EXPECT_EQ(plans.generation(), 0u);
}

TEST(PlanCache, roots_are_plans_of_their_own) {
  PlanCache plans(Placement{1, 4, {}});
  const Algorithm& chain = row_of(TUTTI_BROADCAST, "chain");
  const Plan* zero = *plans.get(chain, 0);
  const Plan* one = *plans.get(chain, 1);
  EXPECT_NE(zero, one);
  EXPECT_EQ(zero->root, 0);
  EXPECT_EQ(one->root, 1);
  EXPECT_EQ(zero->lowered.rx.size(), 1u);
  EXPECT_TRUE(one->lowered.rx.empty()) << "the root receives nothing";
}

TEST(PlanCache, throws_out_the_least_recently_used_and_raises_the_generation) {
  constexpr int kRanks = 200;
  PlanCache plans(Placement{0, kRanks, {}});
  const Algorithm& chain = row_of(TUTTI_BROADCAST, "chain");
  const Plan* kept = *plans.get(chain, 0);
  int root = 1;
  while (plans.generation() == 0) {
    ASSERT_LT(root, kRanks) << "the cache is bounded";
    ASSERT_TRUE(plans.get(chain, root++).is_ok());
    ASSERT_EQ(*plans.get(chain, 0), kept) << "used all the time";
  }
  const std::uint64_t generation = plans.generation();
  ASSERT_TRUE(plans.get(chain, root - 1).is_ok());
  EXPECT_EQ(plans.generation(), generation) << "nothing new, nothing thrown out";
  ASSERT_TRUE(plans.get(chain, 1).is_ok());
  EXPECT_EQ(plans.generation(), generation + 1) << "root 1 was the least recently used: it had to be built again";
}

Result<Schedule> build_too_many_lanes(const BuildRequest& request) {
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
  for (std::uint8_t lane = 0; lane <= kMaxLanes; ++lane) steps.on_lane(lane).copy(input(0), output(0));
  return steps.finish();
}

Result<Schedule> build_nothing(const BuildRequest&) { return Status::error(TUTTI_UNSUPPORTED, "not today"); }

RowCost no_cost(int) { return {}; }

TEST(PlanCache, a_plan_that_the_executor_cannot_run_is_refused) {
  PlanCache plans(Placement{0, 2, {}});
  const Algorithm wide{"wide", TUTTI_BROADCAST, {}, build_too_many_lanes, no_cost, "", "", ""};
  const Status status = plans.get(wide, 0).status();
  EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
  EXPECT_NE(status.message().find("wide"), std::string::npos) << status.to_string();
}

TEST(PlanCache, an_error_of_the_builder_names_the_row_and_is_not_kept) {
  PlanCache plans(Placement{0, 2, {}});
  const Algorithm broken{"broken", TUTTI_BROADCAST, {}, build_nothing, no_cost, "", "", ""};
  for (int i = 0; i < 2; ++i) {
    const Status status = plans.get(broken, 0).status();
    EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
    EXPECT_NE(status.message().find("broken"), std::string::npos) << status.to_string();
  }
}

}  // namespace
}  // namespace tutti::core
