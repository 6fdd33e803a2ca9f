// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "perf/common/format.h"
#include "perf/common/worker.h"

// Not one of nccl-tests' programs. A table of one line: ranks, mean time as -a says, and p50 and p99 over iterations of
// the slowest rank's time. -c k: k rounds in which one rank comes late; nobody may leave before it has come.
namespace tutti::perf {
namespace {

constexpr double kLateSeconds = 200e-6;

tutti_code barrier_once(Worker& worker) {
  return in_group(worker.locals().size() > 1, [&] {
    for (const LocalRank& local : worker.locals()) {
      const tutti_code code = tutti_barrier(local.comm, worker.call_options(), nullptr);
      if (code != TUTTI_OK) return code;
    }
    return TUTTI_OK;
  });
}

ExitCode barrier_failed(Worker& worker, tutti_code code) {
  return worker.operation_failed(code, worker.locals()[0], "barrier of " + std::to_string(worker.ranks()) + " ranks");
}

ExitCode time_barriers(Worker& worker, Placement& placement) {
  const auto iterations = static_cast<size_t>(worker.options().iterations);
  const int calls = worker.options().aggregate;
  std::vector<double> times(iterations);
  if (const ExitCode code = worker.control().barrier(); code != ExitCode::ok) return code;
  const double start = now();
  double begin = start;
  for (double& time : times) {
    for (int call = 0; call < calls; ++call)
      if (const tutti_code code = barrier_once(worker); code != TUTTI_OK) return barrier_failed(worker, code);
    const double end = now();
    time = (end - begin) / calls;
    begin = end;
  }
  placement.seconds = (begin - start) / static_cast<double>(iterations) / calls;
  if (const ExitCode code = worker.average_time(placement.seconds); code != ExitCode::ok) return code;
  return worker.gather_iterations(times, placement);
}

/// One host, one clock: the last to enter must not be later than the first to leave.
ExitCode check_round(Worker& worker, int round, bool& wrong) {
  if (const ExitCode code = worker.control().barrier(); code != ExitCode::ok) return code;
  const int late = round % worker.ranks();
  for (const LocalRank& local : worker.locals())
    if (local.rank == late)
      for (const double start = now(); now() - start < kLateSeconds;) continue;
  std::vector<double> entered = {now()};
  if (const tutti_code code = barrier_once(worker); code != TUTTI_OK) return barrier_failed(worker, code);
  std::vector<double> left = {now()};
  if (const ExitCode code = worker.control().reduce(entered, TUTTI_MAX); code != ExitCode::ok) return code;
  if (const ExitCode code = worker.control().reduce(left, TUTTI_MIN); code != ExitCode::ok) return code;
  wrong = entered[0] > left[0];
  if (wrong && worker.prints())
    std::fprintf(stderr, "barrier_perf: round %d with rank %d late: a rank left %.1f us before the last one came\n",
                 round, late, (entered[0] - left[0]) * 1e6);
  return ExitCode::ok;
}

ExitCode run(Worker& worker) {
  char line[160];
  std::snprintf(line, sizeof line, "#\n# %10s  %10s  %10s  %10s\n# %10s  %10s  %10s  %10s\n", "ranks", "time", "p50",
                "p99", "", "(us)", "(us)", "(us)");
  worker.print(line);
  for (int call = 0; call < worker.options().warmup; ++call)
    if (const tutti_code code = barrier_once(worker); code != TUTTI_OK) return barrier_failed(worker, code);
  Footer result;
  for (int cycle = 0; worker.options().cycles <= 0 || cycle < worker.options().cycles; ++cycle) {
    Placement placement;
    if (const ExitCode code = time_barriers(worker, placement); code != ExitCode::ok) return code;
    const Statistics times = summarize(placement.iteration_seconds);
    std::snprintf(line, sizeof line, "%12d  %10s  %10s  %10s\n", worker.ranks(),
                  number_in_width(placement.seconds * 1e6, 7).c_str(), number_in_width(times.p50 * 1e6, 7).c_str(),
                  number_in_width(times.p99 * 1e6, 7).c_str());
    worker.print(line);
    if (worker.prints()) worker.process().json.barrier_row(worker.ranks(), placement);
    for (int round = 0; round < worker.options().check; ++round) {
      bool wrong = false;
      if (const ExitCode code = check_round(worker, round, wrong); code != ExitCode::ok) return code;
      if (wrong) ++result.out_of_bounds;
    }
  }
  result.has_bandwidth = false;
  result.program = worker.process().program.name;
  result.error = tutti_last_error();
  worker.print(footer(result));
  if (worker.prints()) worker.process().json.finish(result);
  return result.out_of_bounds > 0 ? ExitCode::wrong_data : ExitCode::ok;
}

}  // namespace

const Program& this_program() {
  static const Program program{
      .name = "barrier_perf",
      .operation = "barrier",
      .collective = TUTTI_BARRIER,
      .run = run,
  };
  return program;
}

}  // namespace tutti::perf
