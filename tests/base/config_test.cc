// SPDX-License-Identifier: Apache-2.0
#include "src/base/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace tutti::core {
namespace {

Config with(const Config::Environment& environment) {
  const Result<Config> config = Config::from_environment(environment);
  EXPECT_TRUE(config.is_ok()) << config.status().to_string();
  return config.is_ok() ? config.value() : Config();
}

std::string error_of(const Config::Environment& environment) {
  const Result<Config> config = Config::from_environment(environment);
  EXPECT_FALSE(config.is_ok());
  EXPECT_EQ(config.status().code(), TUTTI_INVALID_ARGUMENT);
  return config.status().to_string();
}

bool contains(const std::string& text, const std::string& piece) { return text.find(piece) != std::string::npos; }

TEST(Config, defaults_are_those_of_the_table) {
  const Config config;
  EXPECT_EQ(config.timeout_ns(), 300'000'000'000);
  EXPECT_EQ(config.slice_bytes(), 131072U);
  EXPECT_EQ(config.lanes(), 2);
  EXPECT_EQ(config.log_level(), LogLevel::warn);
  EXPECT_TRUE(config.recorder());
  EXPECT_EQ(config.rank(), -1);
  EXPECT_EQ(config.run_dir(), "");
  for (const KnobRow& row : knob_table()) {
    EXPECT_EQ(config.origin_text(row.knob), "default");
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_EQ(row.variable.substr(0, 6), "TUTTI_");
    EXPECT_EQ(row.knob, knob_row(row.knob).knob);
  }
}

TEST(Config, names_and_variables_are_unique) {
  std::set<std::string_view> names, variables;
  for (const KnobRow& row : knob_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(variables.insert(row.variable).second) << row.variable;
    if (row.alias.empty()) continue;
    EXPECT_TRUE(variables.insert(row.alias).second) << row.alias;
  }
}

TEST(Config, the_later_of_alias_environment_and_program_wins) {
  EXPECT_EQ(with({{"NCCL_DEBUG", "INFO"}}).origin_text(Knob::log_level), "alias NCCL_DEBUG");
  EXPECT_EQ(with({{"NCCL_DEBUG", "INFO"}, {"TUTTI_DEBUG", "error"}}).log_level(), LogLevel::error);
  const Result<Config> config =
      Config::from_text_and_environment("lanes=4;timeout=30s", {{"TUTTI_LANES", "3"}, {"TUTTI_SPIN_US", "50"}});
  ASSERT_TRUE(config.is_ok());
  EXPECT_EQ(config.value().lanes(), 4);
  EXPECT_EQ(config.value().origin_text(Knob::lanes), "api");
  EXPECT_EQ(config.value().timeout_ns(), 30'000'000'000);
  EXPECT_EQ(config.value().origin_text(Knob::timeout), "api");
  EXPECT_EQ(config.value().origin_text(Knob::spin_us), "environment TUTTI_SPIN_US");
  EXPECT_EQ(config.value().warnings(), std::vector<std::string>{"TUTTI_LANES has no effect: the program sets lanes"});
  Config later = config.value();
  EXPECT_TRUE(later.overlay_environment({{"TUTTI_LANES", "5"}}).is_ok());
  EXPECT_EQ(later.lanes(), 4);
}

TEST(Config, nccl_level_names_are_mapped) {
  EXPECT_EQ(with({{"NCCL_DEBUG", "VERSION"}}).log_level(), LogLevel::error);
  EXPECT_EQ(with({{"NCCL_DEBUG", "WARN"}}).log_level(), LogLevel::warn);
  EXPECT_EQ(with({{"NCCL_DEBUG", "Trace"}}).log_level(), LogLevel::trace);
  const Config config = with({{"NCCL_DEBUG", "LOUD"}});
  EXPECT_EQ(config.log_level(), LogLevel::warn);
  ASSERT_EQ(config.warnings().size(), 1U);
  EXPECT_TRUE(contains(config.warnings()[0], "NCCL_DEBUG")) << config.warnings()[0];
  EXPECT_TRUE(contains(config.warnings()[0], "ignored")) << config.warnings()[0];
}

TEST(Config, a_bad_value_names_variable_value_and_what_is_allowed) {
  EXPECT_TRUE(contains(error_of({{"TUTTI_LANES", "9"}}), "TUTTI_LANES is \"9\"; allowed: a whole number in 1..8"));
  EXPECT_TRUE(contains(error_of({{"TUTTI_SLICE_BYTES", "lots"}}), "bytes in 4K..64M, such as 64K or 1M"));
  EXPECT_TRUE(contains(error_of({{"TUTTI_TIMEOUT", "-3s"}}), "a time in 1ms..30d"));
  EXPECT_TRUE(contains(error_of({{"TUTTI_DEBUG", "loud"}}), "one of none|error|warn|info|debug|trace"));
  EXPECT_TRUE(contains(error_of({{"TUTTI_RECORDER", "maybe"}}), "0 or 1"));
  EXPECT_TRUE(contains(error_of({{"RANK", "two"}}), "RANK is \"two\""));
  EXPECT_TRUE(contains(error_of({{"TUTTI_LANES", ""}}), "TUTTI_LANES is \"\""));
}

TEST(Config, configuration_text_is_all_or_nothing) {
  Config config;
  const Status status = config.overlay_text("lanes=4;lnes=3");
  EXPECT_EQ(status.code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(status.to_string(), "unknown configuration key \"lnes\" (did you mean lanes?)"));
  EXPECT_EQ(config.lanes(), 2);
  EXPECT_FALSE(config.overlay_text("lanes").is_ok());
  EXPECT_TRUE(config.overlay_text(" lanes = 4 ; ").is_ok());
  EXPECT_EQ(config.lanes(), 4);
  EXPECT_TRUE(config.overlay_text("").is_ok());
}

TEST(Config, unknown_variables_are_reported_with_the_nearest_name) {
  const Config config = with({{"TUTTI_LANE", "4"},
                              {"TUTTI_TRAIN_LR", "1"},
                              {"TUTTI_TEST_X", "1"},
                              {"TUTTI_FAULT", "drop"},
                              {"TUTTI_QQQQQQQQQQQQQ", "1"},
                              {"HOME", "/"}});
  ASSERT_EQ(config.warnings().size(), 2U);
  EXPECT_EQ(config.warnings()[0], "unknown variable TUTTI_LANE; did you mean TUTTI_LANES?");
  EXPECT_EQ(config.warnings()[1], "unknown variable TUTTI_QQQQQQQQQQQQQ; `tutti config` lists all");
}

TEST(Config, nccl_variables_without_effect_are_collected) {
  EXPECT_EQ(with({{"NCCL_DEBUG", "INFO"}, {"NCCL_TREE_THRESHOLD", "0"}}).ignored(),
            std::vector<std::string>{"NCCL_TREE_THRESHOLD"});
}

TEST(Config, secrets_are_never_printed) {
  const Config config = with({{"TUTTI_UNIQUE_ID", "hunter2"}});
  EXPECT_EQ(config.unique_id(), "hunter2");
  EXPECT_EQ(config.text(Knob::unique_id), "(set)");
  for (const KnobRow& row : knob_table())
    EXPECT_FALSE(contains(config.text(row.knob) + config.origin_text(row.knob), "hunter2")) << row.name;
}

TEST(Config, algorithm_is_a_name_or_a_list_by_collective) {
  EXPECT_EQ(Config().forced_algorithm(TUTTI_ALL_REDUCE), "");
  EXPECT_EQ(with({{"TUTTI_ALGORITHM", "ring"}}).forced_algorithm(TUTTI_BROADCAST), "ring");
  const Config config = with({{"TUTTI_ALGORITHM", "all_reduce:ring,broadcast:chain"}});
  EXPECT_EQ(config.forced_algorithm(TUTTI_ALL_REDUCE), "ring");
  EXPECT_EQ(config.forced_algorithm(TUTTI_BROADCAST), "chain");
  EXPECT_EQ(config.forced_algorithm(TUTTI_ALL_GATHER), "");
  EXPECT_TRUE(contains(error_of({{"TUTTI_ALGORITHM", "allreduce:ring"}}), "\"allreduce:ring\" is not COLLECTIVE:ALGO"));
  EXPECT_TRUE(contains(error_of({{"TUTTI_ALGORITHM", "ring,chain"}}), "collectives: all_reduce, all_gather"));
  EXPECT_FALSE(Config::from_environment({{"TUTTI_ALGORITHM", "all_reduce:"}}).is_ok());
}

TEST(Config, agreed_values_are_compared_between_ranks) {
  const Config mine = with({{"TUTTI_SLICE_BYTES", "64K"}});
  const Config same = with({{"TUTTI_SLICE_BYTES", "65536"}, {"TUTTI_TIMEOUT", "1s"}});
  EXPECT_TRUE(mine.compare_agreed(0, same.agreed_text(), 3).is_ok());
  const Status status = mine.compare_agreed(0, Config().agreed_text(), 3);
  EXPECT_EQ(status.code(), TUTTI_MISMATCH);
  EXPECT_EQ(status.failing_rank(), 3);
  EXPECT_EQ(status.to_string(),
            "mismatch: slice_bytes differs: rank 0 has \"64K\" (environment TUTTI_SLICE_BYTES), rank 3 has \"128K\" "
            "(set TUTTI_SLICE_BYTES alike on all ranks)");
  EXPECT_TRUE(contains(mine.compare_agreed(0, "lanes=2", 1).to_string(), "missing"));
}

TEST(Config, launcher_variables_are_checked_against_each_other) {
  const auto info = [](const Config::Environment& environment) { return with(environment).launch_info(); };
  const auto none = info({});
  ASSERT_TRUE(none.is_ok());
  EXPECT_FALSE(none.value().has_value());
  const auto full =
      info({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}).value().value();
  EXPECT_EQ(full.rank, 3);
  EXPECT_EQ(full.world_size, 8);
  EXPECT_EQ(full.local_rank, 1);
  EXPECT_EQ(full.local_world_size, 2);
  EXPECT_EQ(info({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).value().value().local_rank, -1);
  const std::vector<Config::Environment> contradictions = {
      {{"RANK", "3"}},
      {{"WORLD_SIZE", "3"}},
      {{"RANK", "8"}, {"WORLD_SIZE", "8"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "4"}}};
  for (const Config::Environment& environment : contradictions) {
    const auto result = info(environment);
    ASSERT_FALSE(result.is_ok()) << environment[0].first << "=" << environment[0].second;
    EXPECT_TRUE(contains(result.status().message(), "contradict")) << result.status().message();
  }
  EXPECT_TRUE(contains(info({{"RANK", "8"}, {"WORLD_SIZE", "8"}}).status().message(), "RANK=8 and WORLD_SIZE=8"));
}

TEST(Config, process_environment_is_read) {
  ASSERT_EQ(setenv("TUTTI_TEST_MARK", "a=b", 1), 0);
  EXPECT_EQ(environment_value("TUTTI_TEST_MARK"), "a=b");
  EXPECT_EQ(environment_value("TUTTI_TEST_ABSENT"), std::nullopt);
}

TEST(Config, committed_knobs_page_is_current) {
  std::ifstream file(TUTTI_SOURCE_FOLDER "/docs/knobs.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), knobs_markdown()) << "run: build/bin/tutti config --markdown > docs/knobs.md";
}

}  // namespace
}  // namespace tutti::core
