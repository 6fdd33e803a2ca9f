// SPDX-License-Identifier: Apache-2.0
#include "src/cli/plan_why.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/base/config.h"
#include "src/base/text.h"
#include "src/base/types.h"
#include "src/cli/command.h"
#include "src/cli/plan.h"
#include "src/comm/cost_cache.h"
#include "src/comm/selector.h"

namespace tutti::core {

namespace {

Status wrong(const std::string& option, const std::string& value, const std::string& allowed) {
  return Status::error(TUTTI_INVALID_ARGUMENT, option + " is \"" + value + "\"; allowed: " + allowed);
}

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

Result<tutti_collective> parse_collective(const std::string& text) {
  std::string names;
  for (int i = 0; i < TUTTI_COLLECTIVE_COUNT; ++i) {
    const auto what = static_cast<tutti_collective>(i);
    if (is_point_to_point(what)) continue;
    if (collective_name(what) == text) return what;
    names += (names.empty() ? "" : ", ") + std::string(collective_name(what));
  }
  return wrong("--collective", text, names);
}

Result<std::size_t> parse_element(const std::string& text) {
  std::string names;
  for (int i = 0; i < TUTTI_DTYPE_COUNT; ++i) {
    const auto type = static_cast<tutti_dtype>(i);
    if (dtype_name(type) == text) return dtype_bytes(type);
    names += (names.empty() ? "" : ", ") + std::string(dtype_name(type));
  }
  return wrong("--dtype", text, names);
}

/// A table of the rows: name, prediction, and the prediction's terms in the same unit.
std::string rows_text(const std::vector<Candidate>& rows, const Algorithm* winner) {
  std::string text = text_format("  %-20s %12s = %10s %10s %10s %10s %10s\n", "algorithm", "predicted us", "rounds",
                                 "messages", "sent", "reduced", "copied");
  for (const Candidate& candidate : rows) {
    const std::string name(candidate.row->name);
    const char* mark = candidate.row == winner ? "*" : " ";
    if (!candidate.excluded.empty()) {
      text += text_format("%s %-20s %12s   %s\n", mark, name.c_str(), "excluded", candidate.excluded.c_str());
      continue;
    }
    const Prediction& part = candidate.predicted;
    text += text_format("%s %-20s %12.2f = %10.2f %10.2f %10.2f %10.2f %10.2f\n", mark, name.c_str(),
                        candidate.predicted_ns / 1e3, part.rounds_ns / 1e3, part.messages_ns / 1e3, part.sent_ns / 1e3,
                        part.reduced_ns / 1e3, part.copied_ns / 1e3);
  }
  return text;
}

}  // namespace

void add_plan_why_options(CLI::App& command, PlanWhyOptions& options) {
  CLI::Option* why = command.add_flag("--why", options.wanted, "What each algorithm would cost, and which is chosen");
  command.add_option("--bytes", options.bytes, "With --why: larger buffer of a rank, such as 4K")
      ->capture_default_str()
      ->needs(why);
  command.add_option("--dtype", options.dtype, "With --why: type of the elements")->capture_default_str()->needs(why);
  command.add_option("--reproducible", options.reproducible, "With --why: none, l2 or l4 (TUTTI_REPRODUCIBLE)")
      ->needs(why);
  command.add_option("--cores", options.cores, "With --why: cores that the ranks share (0: those of this process)")
      ->needs(why);
}

Result<std::string> plan_why_text(const std::string& collective, int ranks, const PlanWhyOptions& options) {
  TUTTI_TRY(what, parse_collective(collective));
  const auto bytes = parse_bytes(options.bytes);
  if (!bytes || *bytes < 0) return wrong("--bytes", options.bytes, "a number of bytes, such as 8, 64K or 1M");
  TUTTI_TRY(element, parse_element(options.dtype));
  const auto count = static_cast<std::uint64_t>(*bytes) / element;
  if (count * element != static_cast<std::uint64_t>(*bytes))
    return wrong("--bytes", options.bytes,
                 "multiples of " + std::to_string(element) + ", the size of " + options.dtype);
  if (options.cores < 0) return wrong("--cores", std::to_string(options.cores), "0 or more");
  TUTTI_TRY(config, Config::from_environment());
  if (!options.reproducible.empty()) TUTTI_TRY(config.overlay_text("reproducible=" + options.reproducible));
  TUTTI_TRY(table, find_cost_table(config));

  const int cores = options.cores > 0 ? options.cores : usable_cores();
  const Selector selector(ranks, shared_memory_cost(table, ranks, cores),
                          static_cast<Reproducible>(config.reproducible_index()));
  const std::string_view forced = forced_row(config, what);
  const auto chosen = selector.choose(what, static_cast<std::uint64_t>(*bytes), forced);
  const LinkCost& link = selector.cost();
  std::string text =
      text_format("%s of %s bytes (%llu x %s) over %d ranks on %d cores: ", collective.c_str(), options.bytes.c_str(),
                  static_cast<unsigned long long>(count), options.dtype.c_str(), ranks, cores);
  text += chosen.is_ok() ? std::string((*chosen)->name) + (forced.empty() ? "" : ", as TUTTI_ALGORITHM asks")
                         : chosen.status().to_string();
  text += text_format(
      "\nlink %s: alpha %.0f ns a round, overhead %.1f ns a message; a byte sent (beta) %.4f, reduced (gamma) %.4f, "
      "copied (delta) %.4f ns\nconstants: %s\n",
      std::string(link.kind).c_str(), link.alpha_ns, link.overhead_ns, link.beta_ns, link.gamma_ns, link.delta_ns,
      link.origin.c_str());
  return text +
         rows_text(selector.consider(what, static_cast<std::uint64_t>(*bytes)), chosen.is_ok() ? *chosen : nullptr);
}

int run_plan_why(const std::string& collective, const std::string& ranks, const PlanWhyOptions& options) {
  const Result<RankRange> range = parse_rank_range(ranks.empty() ? "4" : ranks);
  if (!range.is_ok()) return report_error(range.status());
  if (range.value().first != range.value().last)
    return report_error(wrong("--ranks", ranks, "one number (a range goes with --check)"));
  const Result<std::string> text = plan_why_text(collective, range.value().first, options);
  if (!text.is_ok()) return report_error(text.status());
  std::fputs(text.value().c_str(), stdout);
  return 0;
}

}  // namespace tutti::core
