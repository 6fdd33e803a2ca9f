// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "perf/common/environment.h"
#include "perf/common/options.h"

namespace tutti::perf {

/// Whether this process must start the ranks first: no launcher did, no -t or -g asks for threads, several processes.
bool needs_launcher(const Options& options, const Environment& environment);

/// Replaces this process by `tutti run -n N --prefix others -- PROGRAM ARGS`, with the `tutti` beside this
/// binary. Returns only if that fails: the reason, for stderr.
std::string become_launcher(const Options& options, char** argv);

}  // namespace tutti::perf
