// SPDX-License-Identifier: Apache-2.0
#include "perf/common/launch.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

namespace tutti::perf {

bool needs_launcher(const Options& options, const Environment& environment) {
  return !environment.launched && !options.threads_given && options.processes > 1;
}

std::string become_launcher(const Options& options, char** argv) {
  const std::string processes = std::to_string(options.processes);
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return std::string("cannot find this program's own file: /proc/self/exe: ") + std::strerror(errno);
  self[length] = '\0';
  const std::string program = self;
  const std::string launcher = program.substr(0, program.rfind('/') + 1) + "tutti";
  std::vector<std::string> words = {launcher, "run", "-n", processes, "--prefix", "others", "--", program};
  for (char** argument = argv + 1; *argument != nullptr; ++argument) words.emplace_back(*argument);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(launcher.c_str(), arguments.data());
  return "cannot start " + processes + " processes with " + launcher + ": " + std::strerror(errno) +
         " (build or install the tutti command beside this program, or run threads with -t " + processes + ")";
}

}  // namespace tutti::perf
