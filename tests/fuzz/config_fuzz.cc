// SPDX-License-Identifier: Apache-2.0
// The configuration text of the C ABI, an environment, and the agreed text of another rank, from arbitrary bytes.
// Beyond "does not crash": what was accepted must read back from its own text, and equal configurations must agree.
#include <cstdint>
#include <string_view>

#include "src/base/config.h"
#include "src/base/text.h"

namespace tutti::core {
namespace {

void check_round_trip(const Config& config) {
  std::string text;
  for (const KnobRow& row : knob_table())
    if (row.kind != KnobKind::secret) text += std::string(row.name) + "=" + config.text(row.knob) + ";";
  Config again;
  // A string value may itself hold a separator, as environment variables do; only then may reading back differ.
  for (const KnobRow& row : knob_table())
    if (config.text(row.knob).find(';') != std::string::npos) return;
  TUTTI_CHECK(again.overlay_text(text).is_ok());
  for (const KnobRow& row : knob_table())
    TUTTI_CHECK(row.kind == KnobKind::secret || again.text(row.knob) == config.text(row.knob));
  TUTTI_CHECK(again.compare_agreed(0, config.agreed_text(), 1).is_ok());
}

// Lines "NAME=value"; a line without '=' goes to the configuration text.
void run(std::string_view input) {
  Config::Environment environment;
  std::string settings;
  for (const std::string_view line : split(input, '\n')) {
    const std::size_t equals = line.find('=');
    const bool variable = equals != std::string_view::npos && line.find(';') == std::string_view::npos;
    if (variable)
      environment.emplace_back(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
    else
      settings += std::string(line) + ";";
  }
  const Result<Config> config = Config::from_text_and_environment(settings, environment);
  if (!config.is_ok()) {
    TUTTI_CHECK(config.status().code() == TUTTI_INVALID_ARGUMENT && !config.status().message().empty());
    return;
  }
  check_round_trip(config.value());
  for (int what = 0; what < TUTTI_COLLECTIVE_COUNT; ++what)
    (void)config.value().forced_algorithm(static_cast<tutti_collective>(what));
  (void)config.value().launch_info();
  (void)Config().compare_agreed(0, input, 1);
}

}  // namespace
}  // namespace tutti::core

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tutti::core::run(std::string_view(reinterpret_cast<const char*>(data), bytes));
  return 0;
}
