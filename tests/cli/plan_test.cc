// SPDX-License-Identifier: Apache-2.0
// `tutti plan` as a user meets it.
#include "src/cli/plan.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/types.h"
#include "src/cli/plan_check.h"
#include "src/cli/plan_pictures.h"
#include "src/plan/builder.h"
#include "src/plan/check.h"
#include "src/plan/serialize.h"

namespace tutti::core {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome plan(const std::string& arguments) {
  Outcome outcome;
  FILE* pipe = popen((TUTTI_PROGRAM " plan " + arguments).c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const std::size_t bytes = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.output.append(buffer, bytes);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

TEST(Plan, text_is_the_schedule_and_reads_back) {
  const Outcome outcome = plan("--collective all_reduce --algorithm ring --ranks 5");
  EXPECT_EQ(outcome.exit_code, 0);
  auto schedules = parse_schedules(outcome.output);
  ASSERT_TRUE(schedules.is_ok()) << schedules.status().to_string();
  EXPECT_EQ(schedules->size(), 5u);
  EXPECT_TRUE(check_schedules(*schedules, {TUTTI_ALL_REDUCE, 0, 1}).ok());
}

TEST(Plan, every_format_is_printed_for_all_ranks_or_one) {
  const std::string base = "--collective all_reduce --algorithm one_shot --ranks 3 ";
  const auto json = nlohmann::json::parse(plan(base + "--format json").output);
  EXPECT_EQ(json["schedules"].size(), 3u);
  const auto one = nlohmann::json::parse(plan(base + "--format json --rank 2 --lowered").output);
  ASSERT_EQ(one["plans"].size(), 1u);
  EXPECT_EQ(one["plans"][0]["rank"], 2);
  EXPECT_EQ(plan(base + "--format dot").output.find("digraph"), 0u);
  EXPECT_EQ(plan(base + "--format svg --lowered").output.find("<svg"), 0u);
  EXPECT_NE(plan(base + "--lowered").output.find("plan rank 2 ranks 3"), std::string::npos);
}

TEST(Plan, list_names_every_row_with_its_formula_and_source) {
  const Outcome outcome = plan("--list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const Algorithm& row : algorithms()) {
    EXPECT_NE(outcome.output.find(std::string(row.name)), std::string::npos);
    EXPECT_NE(outcome.output.find(std::string(row.source)), std::string::npos);
  }
  EXPECT_NE(outcome.output.find("2(p-1) = 14"), std::string::npos) << outcome.output;
  const auto json = nlohmann::json::parse(plan("--list --format json --ranks 4").output);
  EXPECT_EQ(json["rows"].size(), algorithms().size());
  EXPECT_EQ(json["rows"][0]["cost"]["rounds"], 6);
  EXPECT_NE(outcome.output.find("L4 balanced"), std::string::npos) << outcome.output;
  for (const auto& row : json["rows"]) {
    const Algorithm* algorithm =
        find_algorithm(*find_collective(row["collective"].get<std::string>()), row["algorithm"].get<std::string>());
    ASSERT_NE(algorithm, nullptr);
    EXPECT_EQ(row["tree"], tree_name(algorithm->tree));
    EXPECT_EQ(row["determinism"], determinism_level(*algorithm));
  }
}

TEST(Plan, check_prints_a_line_a_row_and_totals) {
  const Outcome outcome = plan("--check --ranks 1..6");
  EXPECT_EQ(outcome.exit_code, 0);
  std::size_t good = 0;
  for (std::size_t at = outcome.output.find(" ok\n"); at != std::string::npos;
       at = outcome.output.find(" ok\n", at + 1))
    ++good;
  EXPECT_EQ(good, algorithms().size() + 1) << outcome.output;
  EXPECT_NE(outcome.output.find("all proved\n"), std::string::npos);
  const Outcome one = plan("--check --algorithm dissemination --ranks 7");
  EXPECT_NE(one.output.find(" rows over 7 ranks"), std::string::npos) << one.output;
}

void expect_usage_error(const std::string& arguments, const std::string& text) {
  const Outcome outcome = plan(arguments + " 2>&1 >/dev/null");
  EXPECT_EQ(outcome.exit_code, 2) << arguments;
  EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
}

TEST(Plan, wrong_names_and_ranges_say_what_is_allowed) {
  expect_usage_error("", "which plan?");
  expect_usage_error("--collective allreduce", "--collective is \"allreduce\"; allowed: all_reduce, all_gather");
  expect_usage_error("--collective send", "--collective is \"send\"");
  expect_usage_error("--collective all_reduce", "allowed for all_reduce: ring, ");
  expect_usage_error("--collective broadcast --algorithm ring", "--algorithm is \"ring\"; allowed: chain, ");
  expect_usage_error("--check --algorithm rnig", "--algorithm is \"rnig\"; allowed: ring, ");
  expect_usage_error("--check --ranks 0..4", "--ranks is \"0..4\"; allowed: a number or a range A..B within 1..1024");
  expect_usage_error("--check --ranks 9..4", "--ranks is \"9..4\"");
  expect_usage_error("--check --ranks 1..99999999999999999999", "--ranks is");
  expect_usage_error("--collective barrier --ranks 1..4", "one number");
  expect_usage_error("--collective barrier --ranks 4 --rank 4", "--rank is \"4\"; allowed: 0..3");
  expect_usage_error("--collective broadcast --algorithm chain --ranks 4 --root 7", "--root is \"7\"; allowed: 0..3");
  expect_usage_error("--collective barrier --format png", "--format is \"png\"; allowed: text, json, dot, svg");
  expect_usage_error("--list --check", "");
}

TEST(Plan, ranges_are_read) {
  EXPECT_EQ(parse_rank_range("8").value().last, 8);
  EXPECT_EQ(parse_rank_range("3..9").value().first, 3);
  for (const char* text : {"", "..", "1..", "..4", "1.4", "1..2..3", "-1", "1..1025", "a"})
    EXPECT_FALSE(parse_rank_range(text).is_ok()) << text;
}

TEST(Plan, pictures_in_the_docs_are_what_the_tool_draws) {
  const std::filesystem::path folder = TUTTI_SOURCE_FOLDER "/docs/pictures";
  std::set<std::string> wanted;
  for (const Algorithm& row : algorithms()) {
    wanted.insert(picture_name(row));
    const Result<std::string> picture = picture_of(row);
    ASSERT_TRUE(picture.is_ok()) << picture.status().to_string();
    EXPECT_LT(picture.value().size(), 64u * 1024) << picture_name(row) << ": too large for a page";
    std::ifstream file(folder / picture_name(row), std::ios::binary);
    const std::string found{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    // Not EXPECT_EQ: nobody wants to read two pictures.
    EXPECT_TRUE(found == picture.value()) << picture_name(row) << " is missing or old: run ./dev pictures";
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".svg") continue;
    EXPECT_TRUE(wanted.count(entry.path().filename().string()) > 0)
        << entry.path().filename() << " belongs to no row: run ./dev pictures";
  }
}

TEST(Plan, pictures_are_written_or_the_file_is_named) {
  const Outcome outcome = plan("--pictures /nonexistent/folder 2>&1");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("/nonexistent/folder/" + picture_name(algorithms().front())), std::string::npos)
      << outcome.output;
}

TEST(Plan, lists_of_ranges_are_read) {
  EXPECT_EQ(parse_rank_list("8").value(), std::vector<int>{8});
  EXPECT_EQ(parse_rank_list("5..7,2,6").value(), (std::vector<int>{2, 5, 6, 7}));
  EXPECT_EQ(parse_rank_list(kCheckedRanks).value().size(), 68u);
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "1..4,0", "4,1025", "1-4"})
    EXPECT_FALSE(parse_rank_list(text).is_ok()) << text;
}

/// Sends nothing and reduces nothing: right for one rank only.
Result<Schedule> build_lonely(const BuildRequest& request) {
  ScheduleBuilder steps(request, {.chunks = 1, .scratch_chunks = 0});
  return steps.copy(input(0), output(0)).finish();
}

TEST(Plan, check_names_the_smallest_count_at_which_a_row_fails) {
  Algorithm lonely = *find_algorithm(TUTTI_ALL_REDUCE, "ring");
  lonely.name = "lonely";
  lonely.build = build_lonely;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(check_plans({&lonely, find_algorithm(TUTTI_BARRIER, "dissemination")}, {1, 2, 3, 400}, "1..3,400"), 1);
  const std::string output = testing::internal::GetCapturedStdout();
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_NE(errors.find("all_reduce/lonely over 2 ranks"), std::string::npos) << errors;
  EXPECT_NE(errors.find("misses rank"), std::string::npos) << errors;
  EXPECT_NE(output.find("all_reduce / lonely                   1 rank counts"), std::string::npos) << output;
  EXPECT_NE(output.find("2 rows over 1..3,400 ranks"), std::string::npos) << output;
  EXPECT_NE(output.find("2 FAILED\n"), std::string::npos) << "the row, and mixes with it: " << output;
}

}  // namespace
}  // namespace tutti::core
