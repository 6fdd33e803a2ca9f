// SPDX-License-Identifier: Apache-2.0
#include "src/cli/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/base/text.h"

namespace tutti::core {

namespace {

struct Options {
  std::string settings;
  bool json = false;
  bool markdown = false;
};

int print_config(const Options& options) {
  if (options.markdown) {
    std::fputs(knobs_markdown().c_str(), stdout);
    return 0;
  }
  const Result<Config> config = Config::from_text_and_environment(options.settings, process_environment());
  if (!config.is_ok()) return report_error(config.status());
  std::fputs((options.json ? config_json(config.value()) : config_text(config.value())).c_str(), stdout);
  for (const std::string& warning : config.value().warnings()) std::fprintf(stderr, "tutti: %s\n", warning.c_str());
  return 0;
}

}  // namespace

std::string config_text(const Config& config) {
  std::size_t name_width = 0, value_width = 0;
  for (const KnobRow& row : knob_table()) {
    name_width = std::max(name_width, row.variable.size());
    value_width = std::max(value_width, config.text(row.knob).size());
  }
  std::string page;
  for (const KnobRow& row : knob_table()) {
    const std::string value = config.text(row.knob);
    page += text_format("%-*s  %-*s  %s\n", static_cast<int>(name_width), std::string(row.variable).c_str(),
                        static_cast<int>(value_width), value.empty() ? "-" : value.c_str(),
                        config.origin_text(row.knob).c_str());
  }
  return page;
}

std::string config_json(const Config& config) {
  nlohmann::ordered_json knobs = nlohmann::ordered_json::array();
  for (const KnobRow& row : knob_table()) {
    nlohmann::ordered_json knob;
    knob["name"] = row.name;
    knob["variable"] = row.variable;
    knob["value"] = config.text(row.knob);
    knob["origin"] = config.origin_text(row.knob);
    knob["default"] = row.default_text;
    knob["scope"] = row.scope == KnobScope::agreed ? "agreed" : "local";
    knob["meaning"] = row.meaning;
    knobs.push_back(std::move(knob));
  }
  nlohmann::ordered_json page;
  page["knobs"] = std::move(knobs);
  page["warnings"] = config.warnings();
  return page.dump(2) + "\n";
}

void register_config(CLI::App& program, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("config", "Prints every setting in force and where it comes from");
  command->add_option("--settings", options->settings,
                      "Settings of a program laid over, such as \"lanes=4;timeout=30s\"");
  CLI::Option* json = command->add_flag("--json", options->json, "JSON, with the meaning of each knob");
  command->add_flag("--markdown", options->markdown, "The page docs/knobs.md")->excludes(json);
  command->callback([options, &exit_code] { exit_code = print_config(*options); });
}

}  // namespace tutti::core
