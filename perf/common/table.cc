// SPDX-License-Identifier: Apache-2.0
#include "perf/common/table.h"

#include <cstdarg>
#include <cstdio>

#include "perf/common/format.h"
#include "tutti/tutti.h"

namespace tutti::perf {
namespace {

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char line[4096];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

std::string microseconds(double seconds) { return number_in_width(seconds * 1e6, 7); }

constexpr int kHeadersVersion = TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH;

struct HeaderWords {
  const char* fixed[5];
  const char* placement[4];
  const char* iteration[4];
  const char* timestamp;
  const char* explain[5];
};

std::string header_line(const TableStyle& style, const HeaderWords& words) {
  const auto& fixed = words.fixed;
  std::string line = text("# %10s  %12s  %8s  %6s  %6s", fixed[0], fixed[1], fixed[2], fixed[3], fixed[4]);
  for (int placement = 0; placement < 2; ++placement) {
    const auto& columns = words.placement;
    line += text("  %7s  %6s  %6s  %6s", columns[0], columns[1], columns[2], columns[3]);
    if (!style.per_iteration) continue;
    for (const char* word : words.iteration) line += text("  %7s", word);
  }
  line += text(" %*s", style.timestamps ? 19 : 0, style.timestamps ? words.timestamp : "");
  if (style.explain) {
    const auto& columns = words.explain;
    line += text("  %19s  %5s  %7s  %7s  %7s", columns[0], columns[1], columns[2], columns[3], columns[4]);
  }
  return line + "\n";
}

}  // namespace

std::string preamble(const std::string& program, const Options& options, int library_version) {
  const int library = library_version;
  std::string lines = text("# tutti version %d.%d.%d tutti-headers=%d tutti-library=%d\n", library / 10000,
                           library / 100 % 100, library % 100, kHeadersVersion, library);
  lines += "# Collective test starting: " + program + "\n";
  const bool factor = options.step_factor > 1;
  lines += text(
      "# nThread %d nGpus %d minBytes %lld maxBytes %lld step: %lld(%s) warmup iters: %d iters: %d "
      "agg iters: %d validation: %d graph: %d unalign: %d\n",
      options.threads, options.ranks_per_thread, static_cast<long long>(options.min_bytes),
      static_cast<long long>(options.max_bytes),
      static_cast<long long>(factor ? options.step_factor : options.step_bytes), factor ? "factor" : "bytes",
      options.warmup, options.iterations, options.aggregate, options.check, options.graph, options.unalign);
  if (options.blocking == 1) lines += "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
  if (options.blocking == 2) lines += "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n";
  if (options.blocking == 3)
    lines += "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n";
  if (options.per_iteration) {
    lines += "# Per-Iteration Report: host clock timing; i_* uses max over process rows";
    if (options.per_iteration_skip > 0)
      lines += text("; summary skips first %d iterations", options.per_iteration_skip);
    lines += " \n";
  }
  if (options.parallel_init) lines += "# Parallel Init Enabled: threads call into tutti_comm_create concurrently \n";
  if (!options.without_effect.empty()) {
    lines += "#";
    for (const std::string& letter : options.without_effect) lines += " " + letter;
    lines += ": no effect without CUDA\n";
  }
  return lines + "#\n";
}

std::string device_line(const Device& device) {
  // No bus address: a rank's device is the processor.
  return text("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", device.rank, device.group,
              device.pid, device.host.c_str(), device.index, 0u, 0u, 0u, device.name.c_str());
}

std::string header(const TableStyle& style) {
  std::string lines = "#\n" + text("# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
  lines += style.per_iteration ? "              out-of-place (+ per-iteration)                                "
                                 "in-place (+ per-iteration)\n"
                               : "           out-of-place                       in-place          \n";
  lines += header_line(style, {{"size", "count", "type", "redop", "root"},
                               {"time", "algbw", "busbw", "#wrong"},
                               {"i_min", "i_max", "i_p99", "i_cv%"},
                               "timestamp",
                               {"algorithm", "lanes", "p10", "p50", "p99"}});
  lines += header_line(style, {{"(B)", "(elements)", "", "", ""},
                               {"(us)", "(GB/s)", "(GB/s)", ""},
                               {"(us)", "(us)", "(us)", "(%)"},
                               "%Y-%m-%d %H:%M:%S",
                               {"", "", "(us)", "(us)", "(us)"}});
  return lines;
}

std::string row_head(const RowHead& head) {
  return text("%12lld  %12lld  %8s  %6s  %6i", static_cast<long long>(head.bytes), static_cast<long long>(head.count),
              head.type.c_str(), head.op.c_str(), head.root);
}

std::string placement_columns(const Placement& placement, bool per_iteration, int skip) {
  std::string columns =
      text("  %7s  %6s  %6s", microseconds(placement.seconds).c_str(),
           number_in_width(placement.algorithm_gbps, 6).c_str(), number_in_width(placement.bus_gbps, 6).c_str());
  columns += placement.wrong ? text("  %6g", static_cast<double>(*placement.wrong)) : std::string("    N/A");
  if (per_iteration) {
    const auto first = placement.iteration_seconds.begin() + skip;
    const Statistics times = summarize({first, placement.iteration_seconds.end()});
    columns += text("  %7s  %7s  %7s  %7s", microseconds(times.minimum).c_str(), microseconds(times.maximum).c_str(),
                    microseconds(times.p99).c_str(), number_in_width(times.cv_percent(), 7).c_str());
  }
  return columns;
}

std::string timestamp_column(const std::string& time) { return text("%21s", time.c_str()); }

std::string explain_columns(const Explanation& explanation, const std::vector<double>& iteration_seconds) {
  const Statistics times = summarize(iteration_seconds);
  return text("   %19s  %5s  %7s  %7s  %7s", explanation.algorithm.c_str(), explanation.lanes.c_str(),
              microseconds(times.p10).c_str(), microseconds(times.p50).c_str(), microseconds(times.p99).c_str());
}

std::string footer(const Footer& footer) {
  std::string lines =
      text("# %-20s : %llu %s\n", "Out of bounds values", static_cast<unsigned long long>(footer.out_of_bounds),
           footer.out_of_bounds == 0 ? "OK" : "FAILED");
  const char* verdict = !footer.minimum_gbps ? "" : (footer.average_okay() ? "OK" : "FAILED");
  if (footer.has_bandwidth) lines += text("# %-20s : %g %s\n", "Avg bus bandwidth", footer.average_gbps, verdict);
  lines += "#\n# Collective test concluded: " + footer.program + "\n";
  if (!footer.memory.empty()) lines += text("# %-20s : %s\n", "Host memory usage", footer.memory.c_str());
  lines += "#\n";
  lines += footer.error.empty() ? "\n" : "# error: " + footer.error + "\n";
  return lines;
}

}  // namespace tutti::perf
