// SPDX-License-Identifier: Apache-2.0
#include "src/cli/version.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/base/text.h"
#include "tutti/tutti.h"

namespace tutti::core {

std::string version_line() {
#if defined(__clang__)
  const char* compiler = "clang++ " __clang_version__;
#else
  const char* compiler = "g++ " __VERSION__;
#endif
  return text_format("tutti %d.%d.%d (%s, %s)", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH, compiler,
                     TUTTI_BUILD_TYPE);
}

void register_version(CLI::App& program, int&) {
  program.add_subcommand("version", "Prints the version, the compiler and the kind of build")->callback([] {
    std::puts(version_line().c_str());
  });
}

}  // namespace tutti::core
