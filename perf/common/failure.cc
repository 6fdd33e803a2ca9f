// SPDX-License-Identifier: Apache-2.0
#include "perf/common/failure.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace tutti::perf {
namespace {

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Any thread may be the one that fails.
std::atomic<bool> line_open{false};

void end_line() {
  if (line_open.exchange(false)) std::putchar('\n');
}

}  // namespace

void set_line_open(bool open) { line_open = open; }

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

ExitCode checked(tutti_code code, const std::string& what, const char* file, int line) {
  return checked_within(code, 0, what, file, line);
}

ExitCode checked_within(tutti_code code, int timeout_s, const std::string& what, const char* file, int line) {
  if (code == TUTTI_OK) return ExitCode::ok;
  end_line();
  const bool timeout = code == TUTTI_TIMEOUT && timeout_s > 0;
  const std::string host = host_name();
  if (timeout) std::printf("%s: Test timeout (%ds) %s:%d\n", host.c_str(), timeout_s, base_name(file), line);
  std::printf("%s: Test Tutti failure %s:%d '%s: %s / %s'\n", host.c_str(), base_name(file), line, what.c_str(),
              tutti_code_name(code), tutti_last_error());
  std::fflush(stdout);
  return timeout ? ExitCode::timeout : ExitCode::library;
}

ExitCode failed(ExitCode code, const std::string& what, const char* file, int line) {
  end_line();
  std::printf("%s: Test failure %s:%d '%s'\n", host_name().c_str(), base_name(file), line, what.c_str());
  std::fflush(stdout);
  return code;
}

ExitCode passed_on(ExitCode code, const char* file, int line) {
  std::printf(" .. %s pid %d: Test failure %s:%d\n", host_name().c_str(), getpid(), base_name(file), line);
  std::fflush(stdout);
  return code;
}

}  // namespace tutti::perf
