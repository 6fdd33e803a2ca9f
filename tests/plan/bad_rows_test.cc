// SPDX-License-Identifier: Apache-2.0
// Whole rows with one planted fault each, as an author might hand them in: check_row refuses them and says where.
#include <gtest/gtest.h>

#include "src/plan/builder.h"
#include "src/plan/check.h"

namespace tutti::core {
namespace {

RowCost no_cost(int /*ranks*/) { return {}; }

Algorithm row_of(Result<Schedule> (*build)(const BuildRequest&), int credits) {
  const Needs needs{.credits = credits, .power_of_two = false, .max_ranks = 0, .forwards = false};
  return {"bad", TUTTI_ALL_REDUCE, needs, build, no_cost, "?", "?", "a test"};
}

/// Everybody sends its input to everybody on `lane` and keeps what it gets in scratch, one slot per sender.
void exchange_all(ScheduleBuilder& steps, const Placement& placement) {
  const int rank = placement.rank, ranks = placement.ranks;
  for (int hop = 1; hop < ranks; ++hop)
    steps.send((rank + hop) % ranks, input(0), scratch(static_cast<std::uint32_t>(rank)));
  for (int hop = 1; hop < ranks; ++hop) {
    const int sender = (rank + ranks - hop) % ranks;
    steps.recv(sender, input(0), scratch(static_cast<std::uint32_t>(sender)));
  }
}

Slot piece(const Placement& placement, int sender) {
  return sender == placement.rank ? input(0) : scratch(static_cast<std::uint32_t>(sender));
}

int hazard_line = 0;  // of the reduce below
/// Lane 1 receives, lane 0 adds. It waits for the last receive, but on rank 0 only for the last but one.
Result<Schedule> build_hazard(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = ranks + 1});
  steps.on_lane(1);
  exchange_all(steps, placement);
  const std::uint32_t received = steps.here();
  steps.on_lane(0);
  if (ranks > 1) steps.wait(1, placement.rank == 0 ? received - 2 : received - 1);
  steps.copy(piece(placement, 0), scratch(ranks));
  hazard_line = __LINE__ + 1;
  for (int sender = 1; sender < placement.ranks; ++sender) steps.reduce(piece(placement, sender), scratch(ranks));
  return steps.copy(scratch(ranks), output(0)).finish();
}

TEST(BadRow, slot_hazard_is_refused_with_its_place) {
  const auto proof = check_row(row_of(build_hazard, 1), 4);
  ASSERT_FALSE(proof.is_ok());
  // Rank 0 receives from 3, 2, 1 and does not wait for 1, which it adds in step 2 (a wait and the copy come before).
  EXPECT_EQ(proof.status().failing_rank(), 0) << proof.status().message();
  const std::string place = "rank 0 lane 0 step 2 (bad.cc:" + std::to_string(hazard_line) + ")";
  EXPECT_NE(proof.status().message().find(place), std::string::npos) << proof.status().message();
  const bool names_the_rule = proof.status().message().find("slot hazard") != std::string::npos ||
                              proof.status().message().find("read before write") != std::string::npos;
  EXPECT_TRUE(names_the_rule) << proof.status().message();
}

/// A ring in which every rank sends both its chunks ahead before it receives: needs 2 credits, states 1.
Result<Schedule> build_greedy(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const int rank = placement.rank, ranks = placement.ranks;
  ScheduleBuilder steps(request, {.chunks = 2, .scratch_chunks = 2});
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (std::uint32_t chunk = 0; chunk < 2 && ranks > 1; ++chunk) steps.send(next, input(chunk), scratch(chunk));
  for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
    if (ranks > 1) steps.recv(previous, input(chunk), scratch(chunk));
    steps.copy(input(chunk), output(chunk));
    if (ranks > 1) steps.reduce(scratch(chunk), output(chunk));
  }
  return steps.finish();
}

TEST(BadRow, credit_deadlock_is_refused_with_its_place) {
  const auto proof = check_row(row_of(build_greedy, 1), 2);
  ASSERT_FALSE(proof.is_ok());
  EXPECT_NE(proof.status().message().find("rank 0 lane 0 step 1 (bad.cc:"), std::string::npos)
      << proof.status().message();
  EXPECT_NE(proof.status().message().find("deadlock: waits to send to rank 1 (1 messages unconsumed, credits 1)"),
            std::string::npos)
      << proof.status().message();
  EXPECT_TRUE(check_row(row_of(build_greedy, 2), 2).is_ok());
}

/// Everybody adds its own first, then the others by rank: right sums, different bits from 3 ranks on.
Result<Schedule> build_selfish(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = static_cast<std::uint32_t>(placement.ranks)});
  exchange_all(steps, placement);
  steps.copy(input(0), output(0));
  for (int sender = 0; sender < placement.ranks; ++sender)
    if (sender != placement.rank) steps.reduce(piece(placement, sender), output(0));
  return steps.finish();
}

TEST(BadRow, wrong_association_is_refused_with_its_place) {
  EXPECT_TRUE(check_row(row_of(build_selfish, 1), 2).is_ok()) << "with 2 ranks it is right";
  const auto proof = check_row(row_of(build_selfish, 1), 4);
  ASSERT_FALSE(proof.is_ok());
  // Ranks 0 and 1 agree (a + b = b + a), rank 2 is the first of another opinion; its last step wrote the result.
  EXPECT_NE(proof.status().message().find("rank 2 lane 0 step 9 (bad.cc:"), std::string::npos)
      << proof.status().message();
  EXPECT_NE(proof.status().message().find("another expression tree"), std::string::npos) << proof.status().message();
}

/// rank_order, said of a row that adds in another order on all ranks alike.
Result<Schedule> build_backwards(const BuildRequest& request) {
  const Placement& placement = *request.placement;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks);
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = ranks + 1});
  exchange_all(steps, placement);
  steps.copy(piece(placement, placement.ranks - 1), scratch(ranks));
  for (int sender = placement.ranks - 2; sender >= 0; --sender) steps.reduce(piece(placement, sender), scratch(ranks));
  return steps.copy(scratch(ranks), output(0)).finish();
}

TEST(BadRow, a_tree_that_is_not_the_declared_one_is_refused_with_its_place) {
  Algorithm row = row_of(build_backwards, 1);
  EXPECT_TRUE(check_row(row, 4).is_ok()) << "all ranks agree";
  row.tree = Tree::rank_order;
  EXPECT_TRUE(check_row(row, 2).is_ok()) << "a + b is b + a";
  for (const Tree tree : {Tree::rank_order, Tree::balanced}) {
    row.tree = tree;
    const auto proof = check_row(row, 4);
    ASSERT_FALSE(proof.is_ok());
    EXPECT_NE(proof.status().message().find("rank 0 lane 0 step 10 (bad.cc:"), std::string::npos)
        << proof.status().message();
    EXPECT_NE(
        proof.status().message().find("is not the " + std::string(tree_name(tree)) + " tree that the row declares"),
        std::string::npos)
        << proof.status().message();
  }
}

}  // namespace
}  // namespace tutti::core
