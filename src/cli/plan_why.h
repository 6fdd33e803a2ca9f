// SPDX-License-Identifier: Apache-2.0
// `tutti plan --why`: what each algorithm would cost, and which one a communicator would choose.
#pragma once

#include <string>

#include "src/base/status.h"

namespace CLI {
class App;
}

namespace tutti::core {

struct PlanWhyOptions {
  bool wanted = false;
  std::string bytes = "1M";
  std::string dtype = "float32";
  std::string reproducible;  ///< empty: as TUTTI_REPRODUCIBLE says
  int cores = 0;             ///< 0: those this process may run on
};

/// --why and the options that go with it only.
void add_plan_why_options(CLI::App& command, PlanWhyOptions& options);

/// The page. Measures this machine unless that was done before or the knobs say otherwise. Errors: invalid_argument.
Result<std::string> plan_why_text(const std::string& collective, int ranks, const PlanWhyOptions& options);

/// Prints it; `ranks` as given to --ranks. Returns the exit code.
int run_plan_why(const std::string& collective, const std::string& ranks, const PlanWhyOptions& options);

}  // namespace tutti::core
