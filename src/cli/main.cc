// SPDX-License-Identifier: Apache-2.0
// The `tutti` program. How to add a subcommand: command.h.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/config.h"
#include "src/cli/plan.h"
#include "src/cli/report.h"
#include "src/cli/run.h"
#include "src/cli/top.h"
#include "src/cli/topo.h"
#include "src/cli/version.h"

namespace tutti::core {
namespace {

// In the order of `tutti --help`.
// clang-format off
constexpr RegisterCommand kCommands[] = {
    register_run,
    register_topo,
    register_plan,
    register_top,
    register_report,
    register_config,
    register_version,
};
// clang-format on

// CLI11 would say "The following argument was not expected"; a mistyped subcommand deserves the nearest one.
bool is_known_command(const CLI::App& program, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  const std::optional<std::string_view> nearest = nearest_name(name, {names.begin(), names.end()});
  const std::string hint = nearest ? "did you mean \"" + std::string(*nearest) + "\"?" : "see tutti --help";
  std::fprintf(stderr, "tutti: no subcommand \"%s\"; %s\n", name.c_str(), hint.c_str());
  return false;
}

int run(int argc, char** argv) {
  // `run` reads its own words: those behind the program's name belong to that program, whatever they look like.
  if (argc > 1 && std::string_view(argv[1]) == "run") return run_command({argv + 2, argv + argc});

  CLI::App program("Collective communication on this machine: launch, inspect, explain.", "tutti");
  program.require_subcommand(0, 1);
  program.set_version_flag("--version", [] { return version_line(); });
  int exit_code = 0;
  for (const RegisterCommand register_command : kCommands) register_command(program, exit_code);

  if (argc < 2) {
    std::fputs(program.help().c_str(), stderr);
    return 2;
  }
  if (argv[1][0] != '-' && !is_known_command(program, argv[1])) return 2;
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

}  // namespace
}  // namespace tutti::core

int main(int argc, char** argv) { return tutti::core::run(argc, argv); }
