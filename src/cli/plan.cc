// SPDX-License-Identifier: Apache-2.0
// `tutti plan`: prints, draws and proves the schedules that collectives run.
#include "src/cli/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "src/base/types.h"
#include "src/cli/plan_check.h"
#include "src/cli/plan_pictures.h"
#include "src/cli/plan_why.h"
#include "src/plan/check.h"
#include "src/plan/render.h"
#include "src/plan/serialize.h"

namespace tutti::core {

namespace {

/// Most ranks that a command takes: the checker holds all ranks' schedules at once, the longest about p^2 steps.
constexpr int kMostRanks = 1024;

struct Options {
  bool list = false;
  bool check = false;
  std::string pictures;
  bool lowered = false;
  std::string collective;
  std::string algorithm;
  std::string ranks;
  int rank = -1;
  int root = 0;
  std::string format = "text";
  PlanWhyOptions why;
};

Status wrong(const std::string& option, const std::string& value, const std::string& allowed) {
  return Status::error(TUTTI_INVALID_ARGUMENT, option + " is \"" + value + "\"; allowed: " + allowed);
}

/// Forms with a count per rank run the rows of their equal form.
bool has_rows(tutti_collective what) { return !is_point_to_point(what) && !is_variable(what); }

std::string collective_names() {
  std::string names;
  for (int number = 0; number < TUTTI_COLLECTIVE_COUNT; ++number) {
    const auto what = static_cast<tutti_collective>(number);
    if (has_rows(what)) names += (names.empty() ? "" : ", ") + std::string(collective_name(what));
  }
  return names;
}

/// The rows that --collective and --algorithm leave: all of them if neither is given.
Result<std::vector<const Algorithm*>> chosen_rows(const Options& options) {
  std::optional<tutti_collective> what;
  if (!options.collective.empty()) {
    what = find_collective(options.collective);
    if (!what || !has_rows(*what)) return wrong("--collective", options.collective, collective_names());
  }
  std::vector<const Algorithm*> rows;
  std::string names;
  for (const Algorithm& row : algorithms()) {
    if (what && row.what != *what) continue;
    if (names.find(std::string(row.name)) == std::string::npos)
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (options.algorithm.empty() || row.name == options.algorithm) rows.push_back(&row);
  }
  if (rows.empty())
    return wrong("--algorithm", options.algorithm, names + (what ? " (for " + options.collective + ")" : ""));
  return rows;
}

// ---- one plan
// --------------------------------------------------------------------------------------------------------

struct PlanChoice {
  const Algorithm* row = nullptr;
  int ranks = 0;
};

Result<PlanChoice> chosen_plan(const Options& options) {
  if (options.collective.empty())
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "which plan? name one with --collective NAME --algorithm NAME --ranks P")
        .with_remedy("tutti plan --list shows all rows, tutti plan --check proves them");
  TUTTI_TRY(rows, chosen_rows(options));
  if (rows.size() > 1) {
    std::string names;
    for (const Algorithm* row : rows) names += (names.empty() ? "" : ", ") + std::string(row->name);
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "--algorithm is missing; allowed for " + options.collective + ": " + names);
  }
  TUTTI_TRY(range, parse_rank_range(options.ranks.empty() ? "4" : options.ranks));
  if (range.first != range.last) return wrong("--ranks", options.ranks, "one number (a range goes with --check)");
  const int ranks = range.first;
  if (!admits(*rows.front(), ranks))
    return wrong("--ranks", std::to_string(ranks),
                 "for " + std::string(rows.front()->name) + ": " + restrictions_text(rows.front()->needs));
  if (options.rank < -1 || options.rank >= ranks)
    return wrong("--rank", std::to_string(options.rank), "0.." + std::to_string(ranks - 1));
  if (options.root < 0 || options.root >= ranks)
    return wrong("--root", std::to_string(options.root), "0.." + std::to_string(ranks - 1));
  return PlanChoice{rows.front(), ranks};
}

std::string heading(const Algorithm& row, int ranks, bool lowered) {
  const RowCost cost = row.cost(ranks);
  return text_format(
      "# %s / %s over %d ranks%s: %.0f rounds, the busiest rank sends %.3g n bytes in %.0f messages\n# %s\n",
      std::string(collective_name(row.what)).c_str(), std::string(row.name).c_str(), ranks, lowered ? ", lowered" : "",
      cost.rounds, cost.sent, cost.messages, std::string(row.source).c_str());
}

template <class Plan>
std::string rendered(std::span<const Plan> plans, const Options& options, const Algorithm& row, int ranks) {
  const PlanTitle title{std::string(collective_name(row.what)), std::string(row.name), options.root};
  if (options.format == "json") return to_json(plans, title);
  if (options.format == "dot") return to_dot(draw(plans, title));
  if (options.format == "svg") return to_svg(draw(plans, title));
  return heading(row, ranks, options.lowered) + to_text(plans);
}

int print_plan(const Options& options) {
  const Result<PlanChoice> choice = chosen_plan(options);
  if (!choice.is_ok()) return report_error(choice.status());
  const Algorithm& row = *choice.value().row;
  const int ranks = choice.value().ranks;
  Result<std::vector<Schedule>> built = build_all(row, ranks, options.root);
  if (!built.is_ok()) return report_error(built.status());
  std::span<const Schedule> schedules = *built;
  if (options.rank >= 0) schedules = schedules.subspan(static_cast<std::size_t>(options.rank), 1);
  std::string text;
  if (options.lowered) {
    const Result<std::vector<LoweredPlan>> plans = lower_all(schedules, lower_options(row.what, row.needs.credits));
    if (!plans.is_ok()) return report_error(plans.status());
    text = rendered(std::span<const LoweredPlan>(plans.value()), options, row, ranks);
  } else {
    text = rendered(schedules, options, row, ranks);
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

// ---- the registry
// ----------------------------------------------------------------------------------------------------

int print_list(const Options& options) {
  const Result<RankRange> range = parse_rank_range(options.ranks.empty() ? "8" : options.ranks);
  if (!range.is_ok()) return report_error(range.status());
  if (options.format != "text" && options.format != "json")
    return report_error(wrong("--format", options.format, "text, json (with --list)"));
  const int ranks = range.value().last;
  std::fputs((options.format == "json" ? plan_list_json(ranks) : plan_list_text(ranks)).c_str(), stdout);
  return 0;
}

int prove_plans(const Options& options) {
  const Result<std::vector<const Algorithm*>> rows = chosen_rows(options);
  if (!rows.is_ok()) return report_error(rows.status());
  const std::string text = options.ranks.empty() ? kCheckedRanks : options.ranks;
  const Result<std::vector<int>> counts = parse_rank_list(text);
  if (!counts.is_ok()) return report_error(counts.status());
  return check_plans(rows.value(), counts.value(), text);
}

int run_plan(const Options& options) {
  constexpr std::string_view kFormats[] = {"text", "json", "dot", "svg"};
  if (std::find(std::begin(kFormats), std::end(kFormats), options.format) == std::end(kFormats))
    return report_error(wrong("--format", options.format, "text, json, dot, svg"));
  if (options.why.wanted) return run_plan_why(options.collective, options.ranks, options.why);
  if (options.list) return print_list(options);
  if (options.check) return prove_plans(options);
  if (!options.pictures.empty()) {
    const Status written = write_pictures(options.pictures);
    return written.is_ok() ? 0 : report_error(written);
  }
  return print_plan(options);
}

}  // namespace

Result<RankRange> parse_rank_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto first = parse_int(text.substr(0, dots));
  const auto last = dots == std::string::npos ? first : parse_int(text.substr(dots + 2));
  if (!first || !last || *first < 1 || *last < *first || *last > kMostRanks)
    return wrong("--ranks", text, "a number or a range A..B within 1.." + std::to_string(kMostRanks));
  return RankRange{static_cast<int>(*first), static_cast<int>(*last)};
}

std::string restrictions_text(const Needs& needs) {
  std::string text = needs.credits == 0
                         ? "rendezvous suffices"
                         : text_format("%d credit%s per edge", needs.credits, needs.credits == 1 ? "" : "s");
  if (needs.power_of_two) text += ", ranks a power of two";
  if (needs.max_ranks > 0) text += ", at most " + std::to_string(needs.max_ranks) + " ranks";
  if (needs.forwards) text += ", forwards";
  if (needs.lanes > 1) text += text_format(", %d lanes", needs.lanes);
  return text;
}

std::string determinism_text(const Algorithm& row) {
  if (!is_reduction(row.what)) return "-";
  const std::string level = "L" + std::to_string(determinism_level(row));
  return row.tree == Tree::any ? level : level + " " + std::string(tree_name(row.tree));
}

std::string plan_list_text(int ranks) {
  std::string out = text_format("%-15s %-19s %-24s %-34s %-14s %s\n", "collective", "algorithm", "steps",
                                "bytes sent by the busiest rank", "determinism", "needs; source");
  for (const Algorithm& row : algorithms()) {
    std::string steps(row.steps), bytes(row.bytes);
    if (admits(row, ranks)) {
      const RowCost cost = row.cost(ranks);
      // A constant needs no value beside it.
      const std::string rounds = text_format("%.4g", cost.rounds), sent = text_format("%.4g n", cost.sent);
      if (rounds != steps) steps += " = " + rounds;
      if (sent != bytes && cost.sent > 0) bytes += " = " + sent;
    }
    out += text_format("%-15s %-19s %-24s %-34s %-14s %s; %s\n", std::string(collective_name(row.what)).c_str(),
                       std::string(row.name).c_str(), steps.c_str(), bytes.c_str(), determinism_text(row).c_str(),
                       restrictions_text(row.needs).c_str(), std::string(row.source).c_str());
  }
  return out +
         text_format(
             "p ranks, n bytes of the larger user buffer of a rank; values at p = %d; steps are messages on the "
             "longest dependent chain\ndeterminism of the bits of a reduction: L1 from run to run; L3 also of size, "
             "chunking, lanes, transport and placement; L4 also of the number of ranks (powers of two)\n",
             ranks);
}

std::string plan_list_json(int ranks) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Algorithm& row : algorithms()) {
    nlohmann::ordered_json entry = {{"collective", collective_name(row.what)},
                                    {"algorithm", row.name},
                                    {"steps", row.steps},
                                    {"bytes", row.bytes},
                                    {"source", row.source},
                                    {"tree", tree_name(row.tree)},
                                    {"determinism", determinism_level(row)},
                                    {"needs",
                                     {{"credits", row.needs.credits},
                                      {"power_of_two", row.needs.power_of_two},
                                      {"max_ranks", row.needs.max_ranks},
                                      {"forwards", row.needs.forwards},
                                      {"lanes", row.needs.lanes}}}};
    if (admits(row, ranks)) {
      const RowCost cost = row.cost(ranks);
      entry["cost"] = {
          {"rounds", cost.rounds}, {"sent", cost.sent}, {"reduced", cost.reduced}, {"messages", cost.messages}};
    }
    rows.push_back(std::move(entry));
  }
  return nlohmann::ordered_json{{"ranks", ranks}, {"rows", rows}}.dump(2) + "\n";
}

void register_plan(CLI::App& program, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("plan", "Prints, draws and proves the schedules that collectives run");
  CLI::Option* list =
      command->add_flag("--list", options->list, "All algorithms: steps, bytes on the wire, needs, sources");
  command->add_flag("--check", options->check, "Prove all algorithms, or those named, over a range of ranks")
      ->excludes(list);
  command->add_option("--pictures", options->pictures, "Draw all algorithms over 8 ranks into this folder")
      ->excludes(list);
  command->add_option("--collective", options->collective, collective_names());
  command->add_option("--algorithm", options->algorithm, "A name of --list");
  command->add_option("--ranks", options->ranks,
                      "Number of ranks (4), or with --check a list of ranges (1..64,96,128,257,1000)");
  command->add_option("--rank", options->rank, "Only this rank's schedule");
  command->add_option("--root", options->root, "Root of a rooted collective")->capture_default_str();
  command->add_option("--format", options->format, "text, json, dot (Graphviz), svg")->capture_default_str();
  command->add_flag("--lowered", options->lowered, "The actions that the executor runs, instead of the portable steps");
  add_plan_why_options(*command, options->why);
  command->callback([options, &exit_code] { exit_code = run_plan(*options); });
}

}  // namespace tutti::core
