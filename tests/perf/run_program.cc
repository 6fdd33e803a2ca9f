// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/run_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tutti::perf {

std::string program_path(const std::string& name) { return std::string(TUTTI_PERF_BIN) + "/" + name; }

ProgramRun run_command(const std::string& command, int limit) {
  char error_file[] = "/tmp/tutti_perf_XXXXXX";
  const int descriptor = mkstemp(error_file);
  if (descriptor < 0) return {};
  close(descriptor);
  ProgramRun result;
  std::FILE* pipe = popen(("timeout " + std::to_string(limit) + " " + command + " 2>" + error_file).c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (size_t bytes = 0; (bytes = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.output.append(buffer, bytes);
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream file(error_file);
  std::stringstream text;
  text << file.rdbuf();
  result.error = text.str();
  unlink(error_file);
  return result;
}

ProgramRun run_benchmark(const std::string& name, const std::string& arguments, int limit) {
  return run_command("env -u RANK -u WORLD_SIZE -u TUTTI_UNIQUE_ID " + program_path(name) + " " + arguments, limit);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Words> table_rows(const std::string& output) {
  std::vector<Words> rows;
  for (const std::string& line : lines_of(output)) {
    std::istringstream stream(line);
    Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (!words.empty() && std::isdigit(static_cast<unsigned char>(words[0][0])) != 0) rows.push_back(words);
  }
  return rows;
}

}  // namespace tutti::perf
