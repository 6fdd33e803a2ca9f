// SPDX-License-Identifier: Apache-2.0
#include "src/plan/serialize.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "src/plan/check.h"

namespace tutti::core {
namespace {

/// Field by field: Step has no operator==.
void expect_equal(const Schedule& left, const Schedule& right) {
  EXPECT_EQ(left.rank, right.rank);
  EXPECT_EQ(left.ranks, right.ranks);
  EXPECT_EQ(left.chunks, right.chunks);
  EXPECT_EQ(left.scratch_chunks, right.scratch_chunks);
  ASSERT_EQ(left.steps.size(), right.steps.size());
  for (std::size_t i = 0; i < left.steps.size(); ++i) {
    const Step &a = left.steps[i], &b = right.steps[i];
    EXPECT_TRUE(a.op == b.op && a.lane == b.lane && a.site == b.site && a.peer == b.peer && a.src == b.src &&
                a.dst == b.dst)
        << "step " << i;
  }
}

TEST(Serialize, every_row_survives_the_round_trip) {
  for (const Algorithm& row : algorithms()) {
    for (const int ranks : {1, 2, 5}) {
      if (!admits(row, ranks)) continue;
      auto schedules = build_all(row, ranks, 0);
      ASSERT_TRUE(schedules.is_ok());
      auto parsed = parse_schedules(to_text(std::span<const Schedule>(*schedules)));
      ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
      ASSERT_EQ(parsed->size(), schedules->size());
      for (std::size_t rank = 0; rank < parsed->size(); ++rank) expect_equal((*parsed)[rank], (*schedules)[rank]);
    }
  }
}

TEST(Serialize, waits_comments_and_blank_lines_are_read) {
  auto parsed = parse_schedules(
      "# two lanes\n\nschedule rank 0 ranks 1 chunks 1 scratch 1\r\n"
      "lane 0 copy input 0 to scratch 0 line 7 # first\n"
      "  lane 1\twait for lane 0 step 0 line 8\n"
      "lane 1 copy scratch 0 to output 0 line 9");
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
  ASSERT_EQ(parsed->size(), 1u);
  ASSERT_EQ(parsed->front().steps.size(), 3u);
  EXPECT_EQ(parsed->front().steps[1].op, StepOp::wait);
  EXPECT_TRUE(check_schedules(*parsed, {}).ok());
  auto again = parse_schedules(to_text(std::span<const Schedule>(*parsed)));
  ASSERT_TRUE(again.is_ok());
  expect_equal(again->front(), parsed->front());
}

void expect_refused(const std::string& text, const std::string& reason) {
  auto parsed = parse_schedules(text);
  ASSERT_FALSE(parsed.is_ok()) << text;
  EXPECT_NE(parsed.status().message().find(reason), std::string::npos) << parsed.status().message();
}

TEST(Serialize, errors_name_the_line_and_what_was_expected) {
  const std::string head = "schedule rank 0 ranks 2 chunks 1 scratch 0\n";
  expect_refused("lane 0 copy input 0 to output 0 line 1", "line 1: a step stands before");
  expect_refused("plan rank 0", "line 1: expected 'schedule' or 'lane'");
  expect_refused(head + "lane 0 move input 0 to output 0 line 1", "line 2: expected send, recv, copy, reduce or wait");
  expect_refused(head + "lane 0 copy input 0 into output 0 line 1", "expected 'to', found 'into'");
  expect_refused(head + "lane 0 copy user 0 to output 0 line 1", "expected input, output or scratch, found 'user'");
  expect_refused(head + "lane 256 copy input 0 to output 0 line 1", "a lane must be a number 0..255");
  expect_refused(head + "lane 0 copy input 0 to output 0 line 65536", "a source line must be a number 0..65535");
  expect_refused(head + "lane 0 copy input 0 to output 0 line 1 now", "expected the end of the line, found 'now'");
  expect_refused(head + "lane 0 copy input", "a chunk must be a number");
  expect_refused(head + "lane 0 send input 0 to rank 2 as output 0 line 1", "peers are 0..1");
  expect_refused(head + "lane 0 copy input 1 to output 0 line 1", "outside the 1 chunks");
}

TEST(Serialize, huge_and_odd_numbers_are_refused) {
  for (const char* number : {"18446744073709551616", "99999999999999999999999", "-1", "+1", "0x1", "1.0", "1e3",
                             "4294967296", "1073741824", ""})
    expect_refused("schedule rank 0 ranks 1 chunks " + std::string(number) + " scratch 0", "line 1");
  expect_refused("schedule rank 4294967295 ranks 4294967295 chunks 1 scratch 0", "rank must be a number");
  expect_refused("schedule rank 0 ranks 0 chunks 1 scratch 0", "rank must be 0..ranks-1");
  expect_refused("schedule rank 0 ranks 1 chunks 0 scratch 0", "at least 1 chunk");
  expect_refused(std::string("sched\0ule\xff", 10), "expected 'schedule' or 'lane', found 'sched?ule?'");
}

TEST(Serialize, json_holds_what_the_schedules_hold) {
  auto schedules = build_all(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), 3, 0);
  ASSERT_TRUE(schedules.is_ok());
  const auto json = nlohmann::json::parse(to_json(std::span<const Schedule>(*schedules), {"all_reduce", "ring", 0}));
  EXPECT_EQ(json["collective"], "all_reduce");
  ASSERT_EQ(json["schedules"].size(), 3u);
  const auto& steps = json["schedules"][1]["steps"];
  ASSERT_EQ(steps.size(), (*schedules)[1].steps.size());
  EXPECT_EQ(steps[0]["op"], "send");
  EXPECT_EQ(steps[0]["peer"], 2);
  EXPECT_EQ(steps[0]["src"], "input 0");
  EXPECT_EQ(steps[0]["line"], (*schedules)[1].steps[0].site);
}

TEST(Serialize, lowered_plans_are_described) {
  auto schedules = build_all(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), 3, 0);
  ASSERT_TRUE(schedules.is_ok());
  auto plans = lower_all(*schedules, {.reducing = true, .fuse = true, .credits = 1});
  ASSERT_TRUE(plans.is_ok());
  const std::string text = to_text(std::span<const LoweredPlan>(*plans));
  EXPECT_NE(text.find("reduce message of rank 2, input 1, forward to rank 1, scale line"), std::string::npos) << text;
  EXPECT_NE(text.find(", scale, final line"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(to_json(std::span<const LoweredPlan>(*plans), {"all_reduce", "ring", 0}));
  const auto& actions = json["plans"][0]["lanes"][0];
  ASSERT_EQ(actions.size(), (*plans)[0].lanes[0].size());
  EXPECT_EQ(actions[1]["operands"][0], "message of rank 2");
  EXPECT_EQ(actions[1]["forward"], "rank 1");
  EXPECT_EQ(actions[1]["final"], false);
}

}  // namespace
}  // namespace tutti::core
