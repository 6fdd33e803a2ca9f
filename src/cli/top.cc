// SPDX-License-Identifier: Apache-2.0
#include "src/cli/top.h"

#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/text.h"
#include "src/exec/recorder_file.h"
#include "src/facts/reader.h"

namespace tutti::core {

namespace {

constexpr std::size_t kShownDeadJobs = 3;  // who asks after a crash means the last one

std::string clock_text(std::int64_t wall) {
  const time_t seconds = static_cast<time_t>(wall / 1'000'000'000);
  tm parts{};
  localtime_r(&seconds, &parts);
  char text[32] = {};
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

const char* state_text(const RankView& rank) {
  if (rank.state == SlotState::destroyed) return "destroyed";
  if (!rank.is_alive) return "dead";
  return rank.state == SlotState::failed ? "failed" : "live";
}

std::string finished_text(const RankView& rank) {
  if (!rank.last) return "-";
  const OperationView& last = *rank.last;
  std::string text = "#" + std::to_string(last.number) + " " + last.text;
  if (!last.row.empty()) text += " " + last.row;
  if (last.code != TUTTI_OK) {
    text += std::string(" failed: ") + code_name(static_cast<tutti_code>(last.code));
  } else if (last.started_ns != 0) {
    text += " in " + elapsed_text(last.done_ns - last.started_ns);
  }
  return text;
}

std::string current_text(const RankView& rank) {
  if (!rank.current) return "-";
  std::string text = "#" + std::to_string(rank.current->number) + " " + rank.current->text;
  if (!rank.current->row.empty()) text += " " + rank.current->row;
  text += " step " + std::to_string(rank.position);
  if (rank.queued > 0) text += " (+" + std::to_string(rank.queued) + " queued)";
  return text;
}

/// Since when the current operation runs: how long for a living process, at what time for a dead one.
std::string since_text(const RankView& rank, std::int64_t now_ns) {
  if (!rank.current) return "-";
  const std::int64_t begin = rank.current->started_ns != 0 ? rank.current->started_ns : rank.current->issued_ns;
  return rank.is_alive ? elapsed_text(now_ns - begin) : clock_text(begin);
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line = "   ";
    for (std::size_t i = 0; i < row.size(); ++i) line += " " + row[i] + std::string(widths[i] - row[i].size() + 1, ' ');
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string communicator_text(const CommunicatorView& communicator, std::int64_t now_ns) {
  std::string text = text_format("  communicator \"%s\" (%016llx), %d rank%s\n", communicator.name.c_str(),
                                 static_cast<unsigned long long>(communicator.id), communicator.rank_count,
                                 communicator.rank_count == 1 ? "" : "s");
  std::vector<std::vector<std::string>> rows{
      {"rank", "pid", "state", "last finished", "current", "since", "waits for"}};
  for (const RankView& rank : communicator.ranks)
    rows.push_back({std::to_string(rank.rank), std::to_string(rank.pid), state_text(rank), finished_text(rank),
                    current_text(rank), since_text(rank, now_ns),
                    rank.waiting_on >= 0 ? "rank " + std::to_string(rank.waiting_on) : "-"});
  text += table_text(rows);
  if (!communicator.missing.empty())
    text += "    no recorder here of rank" + std::string(communicator.missing.size() == 1 ? " " : "s ") +
            number_list_text(communicator.missing) + ": ended cleanly, never came, or on another machine\n";
  for (const std::string& finding : communicator.findings) text += "    ! " + finding + "\n";
  return text;
}

using Json = nlohmann::ordered_json;

Json time_json(std::int64_t ns) { return ns != 0 ? Json(ns) : Json(nullptr); }
Json rank_or_null(int rank) { return rank >= 0 ? Json(rank) : Json(nullptr); }

Json operation_json(const std::optional<OperationView>& operation) {
  if (!operation) return nullptr;
  return {{"number", operation->number},
          {"text", operation->text},
          {"row", operation->row},
          {"bytes", operation->bytes},
          {"tag", operation->tag},
          {"lanes", operation->lanes},
          {"last_peer", rank_or_null(operation->last_peer)},
          {"code", operation->done_ns != 0 ? Json(code_name(static_cast<tutti_code>(operation->code))) : Json(nullptr)},
          {"issued_ns", time_json(operation->issued_ns)},
          {"started_ns", time_json(operation->started_ns)},
          {"done_ns", time_json(operation->done_ns)}};
}

Json rank_json(const RankView& rank) {
  return {{"rank", rank.rank},
          {"pid", rank.pid},
          {"host", rank.host},
          {"is_alive", rank.is_alive},
          {"state", rank.state == SlotState::live     ? "live"
                    : rank.state == SlotState::failed ? "failed"
                                                      : "destroyed"},
          {"error", rank.error},
          {"last_finished", operation_json(rank.last)},
          {"current", operation_json(rank.current)},
          {"queued", rank.queued},
          {"waits_for", rank_or_null(rank.waiting_on)},
          {"step", rank.current ? Json(rank.position) : Json(nullptr)}};
}

Json communicator_json(const CommunicatorView& communicator) {
  Json ranks = Json::array();
  for (const RankView& rank : communicator.ranks) ranks.push_back(rank_json(rank));
  return {{"name", communicator.name},
          {"id", text_format("%016llx", static_cast<unsigned long long>(communicator.id))},
          {"ranks", communicator.rank_count},
          {"epoch", communicator.epoch},
          {"members", std::move(ranks)},
          {"missing", communicator.missing},
          {"findings", communicator.findings}};
}

struct Options {
  TopRequest request;
  bool json = false;
  double watch_seconds = 0;
};

int print_top(const Options& options) {
  while (true) {
    const TopPage page = read_top(options.request);
    const std::string text = options.json ? top_json(page) : top_text(page);
    // Home and clear below: no flicker, and the scroll-back stays.
    if (options.watch_seconds > 0) std::fputs("\x1b[H\x1b[J", stdout);
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0 || options.watch_seconds <= 0) break;
    timespec rest{};
    rest.tv_sec = static_cast<time_t>(options.watch_seconds);
    rest.tv_nsec = static_cast<long>((options.watch_seconds - static_cast<double>(rest.tv_sec)) * 1e9);
    nanosleep(&rest, nullptr);
  }
  return 0;
}

}  // namespace

TopPage read_top(const TopRequest& request) {
  TopPage page;
  std::string run_dir = request.run_dir;
  if (run_dir.empty()) {
    const Result<Config> config = Config::from_environment();
    if (config.is_ok()) run_dir = config.value().run_dir();
  }
  page.folders = recorder_folders(run_dir);
  std::vector<RecorderSnapshot> snapshots;
  for (const std::string& path : list_recorders(run_dir)) {
    Result<RecorderSnapshot> snapshot = read_recorder(path);
    if (!snapshot.is_ok()) {
      if (access(path.c_str(), F_OK) != 0) continue;  // its process has just ended cleanly
      page.problems.push_back(snapshot.status().to_string());
    } else if (snapshot.value().job.starts_with(request.job_prefix)) {
      snapshots.push_back(std::move(snapshot).value());
    }
  }
  page.now_ns = wall_ns();
  page.jobs = view_jobs(snapshots, page.now_ns);
  if (request.is_complete) return page;
  const auto alive =
      std::count_if(page.jobs.begin(), page.jobs.end(), [](const JobView& job) { return job.alive > 0; });
  const std::size_t shown = static_cast<std::size_t>(alive) + kShownDeadJobs;
  if (request.job_prefix.empty() && page.jobs.size() > shown) {
    page.hidden_jobs = page.jobs.size() - shown;
    page.jobs.erase(page.jobs.begin() + static_cast<std::ptrdiff_t>(shown), page.jobs.end());
  }
  for (JobView& job : page.jobs)
    std::erase_if(job.communicators, [](const CommunicatorView& communicator) {
      return std::all_of(communicator.ranks.begin(), communicator.ranks.end(),
                         [](const RankView& rank) { return rank.state == SlotState::destroyed; });
    });
  return page;
}

std::string top_text(const TopPage& page) {
  std::string text;
  for (const JobView& job : page.jobs) {
    text += "job " + (job.id.empty() ? "without id" : job.id) + ": " + std::to_string(job.processes) +
            (job.processes == 1 ? " process, " : " processes, ") + std::to_string(job.alive) +
            " alive, last activity " + clock_text(job.last_activity_ns) + "\n";
    for (const CommunicatorView& communicator : job.communicators) text += communicator_text(communicator, page.now_ns);
    if (job.communicators.empty()) text += "  no communicators\n";
  }
  if (page.hidden_jobs > 0) text += std::to_string(page.hidden_jobs) + " older dead jobs are not shown (--all)\n";
  if (page.jobs.empty()) {
    text += "no flight recorders in";
    for (const std::string& folder : page.folders) text += " " + folder;
    text += "\n";
  }
  for (const std::string& problem : page.problems) text += "not read: " + problem + "\n";
  return text;
}

std::string top_json(const TopPage& page) {
  Json jobs = Json::array();
  for (const JobView& job : page.jobs) {
    Json communicators = Json::array();
    for (const CommunicatorView& communicator : job.communicators)
      communicators.push_back(communicator_json(communicator));
    jobs.push_back({{"id", job.id},
                    {"processes", job.processes},
                    {"alive", job.alive},
                    {"last_activity_ns", time_json(job.last_activity_ns)},
                    {"recorders", job.paths},
                    {"communicators", std::move(communicators)}});
  }
  Json root;
  root["now_ns"] = page.now_ns;
  root["jobs"] = std::move(jobs);
  root["hidden_jobs"] = page.hidden_jobs;
  root["not_read"] = page.problems;
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void register_top(CLI::App& program, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("top", "Prints what every communicator on this machine does, or did before it died");
  command->add_option("--job", options->request.job_prefix, "Only jobs whose id begins with this");
  command->add_option("--run-dir", options->request.run_dir, "Look for recorders here too [TUTTI_RUN_DIR]");
  command->add_flag("--all", options->request.is_complete, "All dead jobs and destroyed communicators, too");
  CLI::Option* json = command->add_flag("--json", options->json, "JSON");
  command->add_option("--watch", options->watch_seconds, "Again every so many seconds, until interrupted")
      ->check(CLI::PositiveNumber)
      ->excludes(json);
  command->callback([options, &exit_code] { exit_code = print_top(*options); });
}

}  // namespace tutti::core
