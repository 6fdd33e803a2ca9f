// SPDX-License-Identifier: Apache-2.0
#include "src/cli/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tutti::core {
namespace {

Config sample() {
  const Result<Config> config = Config::from_text_and_environment(
      "timeout=30s", {{"TUTTI_LANES", "4"}, {"TUTTI_UNIQUE_ID", "hunter2"}, {"TUTTI_LANE", "3"}});
  EXPECT_TRUE(config.is_ok());
  return config.value();
}

TEST(ConfigCommand, text_has_one_line_a_knob_with_its_origin) {
  const std::string page = config_text(sample());
  EXPECT_EQ(static_cast<std::size_t>(std::count(page.begin(), page.end(), '\n')), kKnobCount);
  std::istringstream lines(page);
  int seen = 0;
  for (std::string variable, value, rest; lines >> variable >> value && std::getline(lines >> std::ws, rest);) {
    if (variable == "TUTTI_LANES") seen += value == "4" && rest == "environment TUTTI_LANES";
    if (variable == "TUTTI_TIMEOUT") seen += value == "30s" && rest == "api";
    if (variable == "TUTTI_UNIQUE_ID") seen += value == "(set)";
    if (variable == "TUTTI_RUN_DIR") seen += value == "-" && rest == "default";
  }
  EXPECT_EQ(seen, 4) << page;
}

TEST(ConfigCommand, json_says_the_same) {
  const nlohmann::json page = nlohmann::json::parse(config_json(sample()));
  ASSERT_EQ(page["knobs"].size(), kKnobCount);
  for (const nlohmann::json& knob : page["knobs"]) {
    if (knob["name"] != "lanes") continue;
    EXPECT_EQ(knob["value"], "4");
    EXPECT_EQ(knob["origin"], "environment TUTTI_LANES");
    EXPECT_EQ(knob["default"], "2");
    EXPECT_EQ(knob["scope"], "agreed");
  }
  ASSERT_EQ(page["warnings"].size(), 1U);
  EXPECT_EQ(page.dump().find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace tutti::core
