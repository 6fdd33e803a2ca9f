// SPDX-License-Identifier: Apache-2.0
// main of every benchmark program: options, launcher, threads.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "perf/common/element.h"
#include "perf/common/launch.h"
#include "perf/common/worker.h"

namespace {

using namespace tutti::perf;

constexpr int kBadArguments = 255;

/// Ranks that take part in one measurement: those of this process's group.
int ranks_of_group(const Process& process) {
  const Environment& environment = process.environment;
  const auto own = group_of(environment.split, environment.process);
  int processes = 0;
  for (int other = 0; other < environment.processes; ++other)
    if (group_of(environment.split, other) == own) ++processes;
  return processes * process.local_ranks();
}

ExitCode prepare_id(Process& process) {
  const bool launched = process.environment.launched;
  const tutti_code code =
      launched ? tutti_unique_id_from_environment(&process.id) : tutti_unique_id_create(&process.id);
  return checked(code, launched ? "reading TUTTI_UNIQUE_ID" : "making a unique id");
}

ExitCode run_threads(Process& process) {
  if (const ExitCode code = prepare_id(process); code != ExitCode::ok) return code;
  process.worlds.assign(static_cast<size_t>(process.local_ranks()), nullptr);
  if (!process.options.parallel_init)
    if (const ExitCode code = create_ranks(process, 0, process.local_ranks()); code != ExitCode::ok) return code;
  std::vector<ExitCode> codes(static_cast<size_t>(process.options.threads), ExitCode::ok);
  std::vector<std::thread> threads;
  for (int thread = 1; thread < process.options.threads; ++thread)
    threads.emplace_back([&process, &codes, thread] {
      Worker worker(process, thread);
      codes[static_cast<size_t>(thread)] = worker.run();
    });
  {
    Worker worker(process, 0);
    codes[0] = worker.run();
  }
  for (std::thread& thread : threads) thread.join();
  for (tutti_comm* comm : process.worlds) tutti_comm_destroy(comm);
  for (const ExitCode code : codes)
    if (code != ExitCode::ok) return code;
  return ExitCode::ok;
}

int refused(const Process& process, const std::string& text, int status) {
  std::fprintf(stderr, "%s: %s\n", process.program.name, text.c_str());
  return status;
}
int bad_arguments(const Process& process, const std::string& text) { return refused(process, text, kBadArguments); }

/// Whether a single pair of -d and -o means something.
bool any_reducible(const Options& options) {
  for (const NamedType& type : options.types)
    for (const NamedOp& op : options.ops)
      if (is_reducible(type.type, op.op, op.premultiplied)) return true;
  return false;
}

/// What depends on the number of ranks of the measurement. A status to leave with, and why, unless all is fine.
std::optional<int> check_for_ranks(const Process& process, int ranks) {
  const Program& program = process.program;
  if (program.has_root && process.options.root >= ranks)
    return bad_arguments(process, "invalid value '" + std::to_string(process.options.root) +
                                      "' for 'root': there are ranks 0 to " + std::to_string(ranks - 1));
  if (program.has_op && !any_reducible(process.options))
    return bad_arguments(process, "op " + process.options.ops[0].name + " means nothing for type " +
                                      process.options.types[0].name +
                                      ": band, bor and bxor are for integers and bool; bool has no avg and mulsum");
  if (program.configure == nullptr) return std::nullopt;
  const std::string error = program.configure(process.options, process.environment, ranks);
  if (error.empty()) return std::nullopt;
  return refused(process, error, static_cast<int>(ExitCode::internal));
}

}  // namespace

int main(int argc, char** argv) {
  ParsedOptions parsed = parse_options(argc, argv);
  Process process{this_program(), parsed.options, read_environment(), {}, {}, {}};
  const bool launch = !parsed.exit && needs_launcher(process.options, process.environment);
  // Under a launcher every process parses the same line: one of them says what is wrong with it.
  const bool speaks = !launch && process.environment.process == 0;
  if (speaks) {
    std::fputs(parsed.output.c_str(), stdout);
    std::fputs(parsed.error.c_str(), stderr);
  }
  if (parsed.exit) return *parsed.exit;
  if (!process.environment.error.empty()) return bad_arguments(process, process.environment.error);
  if (launch) {
    // Said once, here, where every process would say it too.
    process.environment.processes = process.options.processes;
    if (const auto status = check_for_ranks(process, ranks_of_group(process))) return *status;
    return bad_arguments(process, become_launcher(process.options, argv));
  }
  if (const auto status = check_for_ranks(process, ranks_of_group(process))) return *status;
  if (process.environment.process == 0) {
    std::string note;
    process.json.open(process.options.json_file, &note);
    process.json.start(tutti_version(), {argv, argv + argc}, environ);
    std::fputs((note + preamble(process.program.name, process.options, tutti_version())).c_str(), stdout);
    std::fflush(stdout);
  }
  const ExitCode code = run_threads(process);
  if (code != ExitCode::ok && code != ExitCode::wrong_data) process.json.abandon(tutti_last_error());
  if (code == ExitCode::wrong_data && process.environment.process == 0) passed_on(code);
  return static_cast<int>(code);
}
