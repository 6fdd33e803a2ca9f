// SPDX-License-Identifier: Apache-2.0
// The rendezvous under adversarial orders, deaths at every step, late, doubled, wrong and hostile parties.
#include "src/comm/bootstrap_protocol.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "tests/comm/bootstrap_world.h"

namespace tutti::core::test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kSeeds = 100;

/// Ranks 1 to n-1 on `processes` processes, round robin; rank 0 is process 0.
WorldPlan plan_for(std::uint64_t seed, int ranks, int processes) {
  WorldPlan plan;
  plan.seed = seed;
  plan.ranks = ranks;
  for (int rank = 1; rank < ranks; ++rank) {
    MemberPlan member;
    member.rank = rank;
    member.process = rank % processes;
    member.descriptors = member.process % 3;
    plan.members.push_back(member);
  }
  return plan;
}

std::string trace(const WorldPlan& plan) {
  return "seed " + std::to_string(plan.seed) + ", " + std::to_string(plan.ranks) + " ranks, victim " +
         std::to_string(plan.victim) + " at step " + std::to_string(plan.victim_step);
}

bool contains(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

void expect_success(const World& world, const WorldPlan& plan, std::size_t member) {
  const MemberProtocol& protocol = world.member(member);
  ASSERT_TRUE(protocol.verdict().is_ok()) << protocol.verdict().to_string();
  ASSERT_EQ(protocol.members().size(), static_cast<std::size_t>(plan.ranks));
  const int own = plan.members[member].process;
  std::set<int> seen = {0};
  for (const MemberPlan& other : plan.members) {
    const auto rank = static_cast<std::size_t>(other.rank);
    EXPECT_EQ(protocol.members()[rank].pid, 1000 + other.process);
    EXPECT_EQ(protocol.members()[rank].payload, "rank " + std::to_string(other.rank));
    const bool lowest = seen.insert(other.process).second;
    const bool expected = lowest && other.process != own;
    EXPECT_EQ(protocol.descriptors()[rank].size(), expected ? static_cast<std::size_t>(other.descriptors) : 0u);
  }
  EXPECT_EQ(protocol.descriptors()[0].size(), own == 0 ? 0u : 1u);
}

/// All who live share one verdict. Returns it.
Status common_verdict(const World& world, const WorldPlan& plan) {
  const Status verdict = world.root().verdict();
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    if (!world.member_alive(i)) continue;
    EXPECT_EQ(world.member(i).verdict().to_string(), verdict.to_string()) << "rank " << plan.members[i].rank;
    EXPECT_EQ(world.member(i).verdict().failing_rank(), verdict.failing_rank());
  }
  return verdict;
}

TEST(BootstrapProtocol, every_order_of_messages_leads_to_the_table) {
  std::printf("seeds 0 to %llu\n", static_cast<unsigned long long>(kSeeds - 1));
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 9);
    WorldPlan plan = plan_for(seed, ranks, 1 + static_cast<int>(seed % 4));
    plan.strangers = static_cast<int>(seed % 5);
    SCOPED_TRACE(trace(plan));
    World world(plan);
    ASSERT_TRUE(world.run());
    ASSERT_TRUE(common_verdict(world, plan).is_ok()) << world.root().verdict().to_string();
    std::multiset<std::pair<int, int>> ends;
    const auto lowest_rank = [&](int process) {
      if (process == 0) return 0;
      for (const MemberPlan& member : plan.members)
        if (member.process == process) return member.rank;
      return -1;
    };
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      expect_success(world, plan, i);
      const int own = plan.members[i].rank;
      if (world.member(i).keeps_connection()) ends.emplace(own, 0);
      for (const auto& [neighbour, descriptor] : world.member(i).neighbours())
        ends.emplace(own, static_cast<int>(neighbour.rank));
      if (world.member(i).keeps_connection() || !world.member(i).neighbours().empty()) {
        EXPECT_EQ(own, lowest_rank(plan.members[i].process));
      }
    }
    for (const auto& [id, rank] : world.root().liveness()) ends.emplace(0, rank);
    for (const auto& [a, b] : ends) EXPECT_EQ(ends.count({b, a}), ends.count({a, b}));
    for (const auto& end : ends) EXPECT_EQ(ends.count(end), 1u);
    for (int rank = 1; rank < ranks; ++rank) {
      const int a = lowest_rank(rank % (1 + static_cast<int>(seed % 4)));
      const int b = lowest_rank((rank - 1) % (1 + static_cast<int>(seed % 4)));
      if (a != b) {
        EXPECT_EQ(ends.count({a, b}), 1u) << a << " " << b;
      }
    }
  }
}

TEST(BootstrapProtocol, a_member_lost_at_any_step_is_named_to_all_or_they_had_all_joined) {
  long runs = 0, completed = 0, timeouts = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    World whole(plan_for(seed, 4, 3));
    ASSERT_TRUE(whole.run());
    for (int victim = 0; victim < 3; ++victim) {
      for (long step = 0; step <= whole.steps(); ++step, ++runs) {
        WorldPlan plan = plan_for(seed, 4, 3);
        plan.victim = victim;
        plan.victim_step = step;
        SCOPED_TRACE(trace(plan));
        World world(plan);
        ASSERT_TRUE(world.run());
        const Status verdict = common_verdict(world, plan);
        if (verdict.is_ok()) {
          ++completed;  // it died after it had said ready: the watcher's business
          continue;
        }
        const std::string name = std::to_string(plan.members[static_cast<std::size_t>(victim)].rank);
        EXPECT_EQ(verdict.failing_rank(), std::stoi(name));
        if (verdict.code() == TUTTI_TIMEOUT) {
          ++timeouts;  // it died before it had proved who it is
          EXPECT_TRUE(contains(verdict, "3 of 4 ranks present; missing: " + name)) << verdict.to_string();
        } else {
          EXPECT_EQ(verdict.code(), TUTTI_PEER_LOST);
          EXPECT_TRUE(contains(verdict, "rank " + name + " (")) << verdict.to_string();
          EXPECT_LT(world.now(), kSecond);
        }
      }
    }
  }
  std::printf("%ld deaths: %ld after the end, %ld before the proof, %ld named as lost\n", runs, completed, timeouts,
              runs - completed - timeouts);
  EXPECT_GT(completed, 0);
  EXPECT_GT(timeouts, 0);
  EXPECT_GT(runs - completed - timeouts, runs / 4);
}

TEST(BootstrapProtocol, a_root_lost_at_any_step_is_named_by_everybody) {
  long lost = 0, never_seen = 0, joined = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    World whole(plan_for(seed, 4, 3));
    ASSERT_TRUE(whole.run());
    for (long step = 0; step <= whole.steps(); ++step) {
      WorldPlan plan = plan_for(seed, 4, 3);
      plan.victim = kRootVictim;
      plan.victim_step = step;
      SCOPED_TRACE(trace(plan));
      World world(plan);
      ASSERT_TRUE(world.run());
      for (std::size_t i = 0; i < plan.members.size(); ++i) {
        const Status& verdict = world.member(i).verdict();
        joined += verdict.is_ok();  // `go` was on its way: the watcher will tell
        if (verdict.is_ok()) continue;
        EXPECT_EQ(verdict.failing_rank(), 0);
        EXPECT_TRUE(contains(verdict, "rank 0")) << verdict.to_string();
        EXPECT_TRUE(verdict.code() == TUTTI_PEER_LOST || verdict.code() == TUTTI_TIMEOUT) << verdict.to_string();
        ++(verdict.code() == TUTTI_PEER_LOST ? lost : never_seen);
        if (verdict.code() == TUTTI_TIMEOUT) {
          EXPECT_TRUE(contains(verdict, "rank 0 has not come")) << verdict.to_string();
        }
      }
    }
  }
  std::printf("verdicts: %ld lost, %ld never seen, %ld joined\n", lost, never_seen, joined);
  EXPECT_GT(lost, 0);
  EXPECT_GT(never_seen, 0);
}

TEST(BootstrapProtocol, late_members_are_waited_for_until_the_deadline) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldPlan plan = plan_for(seed, 5, 5);
    plan.members[2].start_ns = 59 * kSecond;
    plan.members[2].deadline_ns = 119 * kSecond;
    SCOPED_TRACE(trace(plan));
    World in_time(plan);
    ASSERT_TRUE(in_time.run());
    EXPECT_TRUE(common_verdict(in_time, plan).is_ok());
    plan.members[2].start_ns = 61 * kSecond;
    World too_late(plan);
    ASSERT_TRUE(too_late.run());
    const Status verdict = too_late.root().verdict();
    EXPECT_EQ(verdict.code(), TUTTI_TIMEOUT);
    EXPECT_TRUE(contains(verdict, "4 of 5 ranks present; missing: 3 (after 60 s)")) << verdict.to_string();
    for (const std::size_t present : {0u, 1u, 3u})
      EXPECT_EQ(too_late.member(present).verdict().to_string(), verdict.to_string());
    EXPECT_TRUE(contains(too_late.member(2).verdict(), "rank 0 has not come")) << verdict.to_string();
  }
}

TEST(BootstrapProtocol, a_member_whose_deadline_is_first_ends_the_wait_for_all) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldPlan plan = plan_for(seed, 4, 4);
    plan.members.erase(plan.members.begin());  // rank 1 never comes
    plan.members[0].deadline_ns = 10 * kSecond;
    SCOPED_TRACE(trace(plan));
    World world(plan);
    ASSERT_TRUE(world.run());
    const Status verdict = common_verdict(world, plan);
    EXPECT_EQ(verdict.code(), TUTTI_TIMEOUT);
    EXPECT_TRUE(contains(verdict, "3 of 4 ranks present; missing: 1 (after 10 s)")) << verdict.to_string();
  }
}

TEST(BootstrapProtocol, a_rank_that_comes_twice_is_named) {
  long named = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldPlan plan = plan_for(seed, 4, 4);
    plan.members.push_back(plan.members[1]);  // rank 2 again,
    plan.members.back().process = 9;          // as another process
    SCOPED_TRACE(trace(plan));
    World world(plan);
    ASSERT_TRUE(world.run());
    if (world.root().verdict().is_ok()) continue;  // the second one came when all was over
    const Status verdict = common_verdict(world, plan);
    ++named;
    EXPECT_EQ(verdict.code(), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(verdict.failing_rank(), 2);
    EXPECT_TRUE(contains(verdict, "rank 2 came twice: process ")) << verdict.to_string();
  }
  EXPECT_GT(named, static_cast<long>(kSeeds) / 2);
}

TEST(BootstrapProtocol, a_second_rank_0_among_the_members_is_refused) {
  WorldPlan plan = plan_for(1, 3, 3);
  plan.members[0].rank = 0;
  World world(plan);
  ASSERT_TRUE(world.run());
  const Status verdict = common_verdict(world, plan);
  EXPECT_TRUE(contains(verdict, "rank 0 came twice")) << verdict.to_string();
}

TEST(BootstrapProtocol, another_number_of_ranks_names_both) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldPlan plan = plan_for(seed, 4, 4);
    plan.members[1].ranks = seed % 2 == 0 ? 8 : 3;
    SCOPED_TRACE(trace(plan));
    World world(plan);
    ASSERT_TRUE(world.run());
    const Status verdict = common_verdict(world, plan);
    EXPECT_EQ(verdict.code(), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(verdict.failing_rank(), 2);
    EXPECT_TRUE(contains(verdict, "joined with " + std::string(seed % 2 == 0 ? "8" : "3") + " ranks, rank 0 with 4"))
        << verdict.to_string();
  }
}

TEST(BootstrapProtocol, a_rank_out_of_range_is_named) {
  for (const int rank : {4, 7, 70'000}) {
    WorldPlan plan = plan_for(3, 4, 4);
    plan.members[2].rank = rank;
    World world(plan);
    ASSERT_TRUE(world.run());
    const Status& verdict = world.root().verdict();
    EXPECT_EQ(verdict.code(), TUTTI_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(verdict, "rank " + std::to_string(rank))) << verdict.to_string();
    EXPECT_TRUE(contains(verdict, "is not among ranks 0 to 3")) << verdict.to_string();
  }
}

TEST(BootstrapProtocol, differing_settings_name_both_ranks_and_values) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldPlan plan = plan_for(seed, 4, 4);
    plan.members[2].agreed = "slice_bytes=1M\n";
    World world(plan);
    SCOPED_TRACE(trace(plan));
    ASSERT_TRUE(world.run());
    const Status verdict = common_verdict(world, plan);
    EXPECT_EQ(verdict.code(), TUTTI_MISMATCH);
    EXPECT_EQ(verdict.failing_rank(), 3);
    EXPECT_TRUE(contains(verdict, "setting slice_bytes is 256K on rank 0 and 1M on rank 3")) << verdict.to_string();
  }
}

TEST(BootstrapProtocol, a_wrong_version_is_refused_in_a_sentence_that_names_both) {
  WorldPlan plan = plan_for(5, 3, 3);
  plan.members[1].version = 9;
  World world(plan);
  ASSERT_TRUE(world.run());
  const Status& refused = world.member(1).verdict();
  EXPECT_EQ(refused.code(), TUTTI_UNSUPPORTED);
  EXPECT_TRUE(contains(refused, "this process speaks 9") && contains(refused, "the other 1")) << refused.to_string();
  EXPECT_LT(world.now(), 61 * kSecond);
  const Status& others = world.root().verdict();
  EXPECT_EQ(others.code(), TUTTI_TIMEOUT);
  EXPECT_TRUE(contains(others, "2 of 3 ranks present; missing: 2")) << others.to_string();
  EXPECT_TRUE(contains(others, "the other 9")) << others.to_string();
  EXPECT_EQ(world.member(0).verdict().to_string(), others.to_string());
}

TEST(BootstrapProtocol, a_wrong_secret_is_refused_on_both_sides) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldPlan plan = plan_for(seed, 3, 3);
    plan.members[1].wrong_secret = true;
    SCOPED_TRACE(trace(plan));
    World world(plan);
    ASSERT_TRUE(world.run());
    const Status& refused = world.member(1).verdict();
    EXPECT_EQ(refused.code(), TUTTI_UNAVAILABLE);
    EXPECT_TRUE(contains(refused, "rank 2") && contains(refused, "does not know the secret")) << refused.to_string();
    EXPECT_EQ(world.root().verdict().failing_rank(), 2);
    EXPECT_TRUE(contains(world.root().verdict(), "missing: 2"));
    EXPECT_TRUE(contains(world.root().verdict(), "does not know the secret"));
  }
}

TEST(BootstrapProtocol, crowds_of_strangers_do_not_keep_members_out) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    WorldPlan plan = plan_for(seed, 6, 6);
    plan.strangers = 1500;  // some six times what the root holds unproved
    SCOPED_TRACE(trace(plan));
    World world(plan);
    ASSERT_TRUE(world.run());
    EXPECT_TRUE(common_verdict(world, plan).is_ok());
    EXPECT_LT(world.now(), 10 * kSecond);
  }
}

TEST(BootstrapProtocol, the_same_seed_gives_the_same_run) {
  World first(plan_for(42, 7, 4)), second(plan_for(42, 7, 4));
  ASSERT_TRUE(first.run() && second.run());
  EXPECT_EQ(first.steps(), second.steps());
  EXPECT_EQ(first.now(), second.now());
}

TEST(BootstrapProtocol, no_descriptor_outlives_its_holders) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    WorldPlan plan = plan_for(seed, 5, 4);
    plan.victim = static_cast<int>(seed % 4);
    plan.victim_step = static_cast<long>(seed) * 17;
    plan.strangers = 3;
    auto world = std::make_unique<World>(plan);
    ASSERT_TRUE(world->run());
    EXPECT_GT(world->descriptors_held(), 0);
    world->abandon();
    EXPECT_EQ(world->descriptors_held(), 0);
  }
}

TEST(BootstrapProtocol, differences_of_settings_are_found_wherever_they_are) {
  EXPECT_EQ(first_difference("a=1\nb=2\n", "a=1\nb=2\n", 5), "");
  EXPECT_EQ(first_difference("a=1\nb=2\n", "a=1\nb=3\n", 5), "setting b is 2 on rank 0 and 3 on rank 5");
  EXPECT_EQ(first_difference("a=1\n", "a=1\nb=3\n", 5), "setting b is (not set) on rank 0 and 3 on rank 5");
  EXPECT_EQ(first_difference("ab=1\na=2\n", "ab=1\n", 5), "setting a is 2 on rank 0 and (not set) on rank 5");
  EXPECT_EQ(first_difference("a=1\nb=2", "b=2\na=1", 5),
            "the settings of rank 0 and rank 5 are listed in another order");
  EXPECT_EQ(first_difference("a=\x01\n", "a=2\n", 1), "setting a is ? on rank 0 and 2 on rank 1");
}

TEST(BootstrapProtocol, long_lists_of_ranks_stay_on_one_line) {
  EXPECT_EQ(rank_list(std::vector<int>{}), "");
  EXPECT_EQ(rank_list(std::vector<int>{2}), "2");
  EXPECT_EQ(rank_list(std::vector<int>{2, 3, 5, 6, 7, 12}), "2, 3, 5-7, 12");
  std::vector<int> odd;
  for (int rank = 1; rank < 100; rank += 2) odd.push_back(rank);
  EXPECT_EQ(rank_list(odd), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 and 34 more");
}

}  // namespace
}  // namespace tutti::core::test
