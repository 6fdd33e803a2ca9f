// SPDX-License-Identifier: Apache-2.0
#include "src/cli/top_model.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "src/base/text.h"
#include "src/base/types.h"
#include "src/facts/reader.h"

namespace tutti::core {

namespace {

// Ranks of a healthy job wait for each other all the time, for microseconds; a wait that a person can see is news.
constexpr std::int64_t kLongWaitNs = 1'000'000'000;

std::string operation_text(const Record& record) {
  const auto what = static_cast<tutti_collective>(record.what);
  std::string text(collective_name(what));
  if (what == TUTTI_BARRIER) return text;
  text += " " + std::string(dtype_name(static_cast<tutti_dtype>(record.type))) + " x " + std::to_string(record.count);
  if (is_reduction(what)) text += " " + std::string(op_name(static_cast<tutti_op>(record.op)));
  if (is_rooted(what)) text += " root " + std::to_string(record.peer);
  if (what == TUTTI_SEND) text += " to rank " + std::to_string(record.peer);
  if (what == TUTTI_RECV) text += record.peer < 0 ? " from any rank" : " from rank " + std::to_string(record.peer);
  return text;
}

/// Clamped to what fits: the file may hold any number.
std::int64_t wall_time(const RecorderSnapshot& snapshot, std::uint64_t ticks) {
  constexpr double kMost = 4e18;  // the year 2096
  if (ticks == 0) return 0;
  const auto since_start = static_cast<std::int64_t>(ticks - snapshot.start_ticks);  // an earlier one is negative
  const double ns =
      static_cast<double>(snapshot.start_realtime_ns) + static_cast<double>(since_start) / snapshot.ticks_per_ns;
  return static_cast<std::int64_t>(std::clamp(ns, 1.0, kMost));
}

OperationView view_operation(const RecorderSnapshot& snapshot, const Record& record) {
  OperationView view;
  view.number = record.sequence.load(std::memory_order_relaxed) - 1;
  view.text = operation_text(record);
  view.row = std::string(record.row, std::find(record.row, record.row + sizeof record.row, '\0'));
  view.bytes = record.bytes;
  view.tag = record.tag;
  view.lanes = record.lanes;
  view.last_peer = record.last_peer;
  view.code = record.code;
  view.issued_ns = wall_time(snapshot, record.issued);
  view.started_ns = wall_time(snapshot, record.started);
  view.done_ns = wall_time(snapshot, record.done.load(std::memory_order_relaxed));
  return view;
}

RankView view_rank(const RecorderSnapshot& snapshot, const RecorderSlot& slot) {
  RankView view;
  view.rank = slot.rank;
  view.pid = snapshot.pid;
  view.is_alive = snapshot.alive;
  view.state = static_cast<SlotState>(slot.state);
  view.host = snapshot.host;
  view.error = slot.error;
  const Record* last = nullptr;
  const Record* current = nullptr;
  const auto number = [](const Record* record) { return record->sequence.load(std::memory_order_relaxed); };
  for (const Record& record : slot.records) {
    if (number(&record) == 0) continue;
    if (record.done.load(std::memory_order_relaxed) != 0) {
      if (last == nullptr || number(&record) > number(last)) last = &record;
    } else {
      ++view.queued;
      if (current == nullptr || number(&record) < number(current)) current = &record;
    }
  }
  // Sends and receives have numbers of their own; they are the news where no collective runs, or when they came last.
  const Record* transfer = nullptr;
  for (const Record& record : slot.transfers) {
    if (number(&record) == 0) continue;
    const std::uint64_t done = record.done.load(std::memory_order_relaxed);
    if (done != 0) {
      if (last == nullptr || done > last->done.load(std::memory_order_relaxed)) last = &record;
    } else {
      ++view.queued;
      if (transfer == nullptr || number(&record) < number(transfer)) transfer = &record;
    }
  }
  if (last != nullptr) view.last = view_operation(snapshot, *last);
  if (current == nullptr && transfer != nullptr) {
    view.current = view_operation(snapshot, *transfer);
    --view.queued;
    if (transfer->peer >= 0 && transfer->peer < slot.ranks) view.waiting_on = transfer->peer;
  }
  if (current != nullptr) {
    view.current = view_operation(snapshot, *current);
    --view.queued;  // the current one itself
    view.position = slot.position.load(std::memory_order_relaxed);
    const std::uint64_t waiting_on = slot.waiting_on.load(std::memory_order_relaxed);
    // The word is not checked by the reader of the file.
    if (waiting_on >= 1 && waiting_on <= static_cast<std::uint64_t>(slot.ranks))
      view.waiting_on = static_cast<int>(waiting_on - 1);
  }
  return view;
}

std::int64_t last_activity(const RankView& rank) {
  std::int64_t latest = 0;
  for (const auto* operation : {&rank.last, &rank.current})
    if (*operation)
      latest = std::max({latest, (*operation)->issued_ns, (*operation)->started_ns, (*operation)->done_ns});
  return latest;
}

std::int64_t begin_of(const OperationView& operation) {
  return operation.started_ns != 0 ? operation.started_ns : operation.issued_ns;
}

std::string where_it_is(const RankView& rank) {
  if (rank.current) return "in #" + std::to_string(rank.current->number) + " " + rank.current->text;
  return rank.last ? "after #" + std::to_string(rank.last->number) + " " + rank.last->text
                   : "before its first operation";
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + number_list_text(ranks);
}

void find_dead_and_failed(CommunicatorView& communicator) {
  std::map<std::string, std::vector<int>> dead;  // what they did -> who
  for (const RankView& rank : communicator.ranks) {
    // A process that has ended cleanly has removed its recorder; a destroyed communicator needs nobody any more.
    if (!rank.is_alive && rank.state != SlotState::destroyed) dead[where_it_is(rank)].push_back(rank.rank);
    if (rank.state == SlotState::failed)
      communicator.findings.push_back("rank " + std::to_string(rank.rank) +
                                      " failed: " + (rank.error.empty() ? "no text" : rank.error));
  }
  for (const auto& [where, ranks] : dead)
    communicator.findings.push_back(ranks_text(ranks) + (ranks.size() == 1 ? " died " : " died, all ") + where);
}

struct WaitGraph {
  std::map<int, const RankView*> by_rank;
  bool is_dead = true;  // nobody lives: then what they last waited for is the story, however short the wait was

  /// Where the chain of who-waits-for-whom ends; nullopt for a circle.
  std::optional<int> end_of_chain(int from) const {
    int end = from;
    for (std::size_t hops = 0; hops <= by_rank.size(); ++hops) {
      const auto found = by_rank.find(end);
      if (found == by_rank.end() || found->second->waiting_on < 0) return end;
      if (!found->second->is_alive && !is_dead) return end;
      end = found->second->waiting_on;
    }
    return std::nullopt;
  }
};

/// Follows who-waits-for-whom from every waiting rank to its end, and tells how many come to the same end.
void find_waits(CommunicatorView& communicator, std::int64_t now_ns) {
  WaitGraph graph;
  for (const RankView& rank : communicator.ranks) {
    graph.by_rank[rank.rank] = &rank;
    graph.is_dead = graph.is_dead && !rank.is_alive;
  }
  std::map<int, std::vector<int>> waiters;  // end of the chain, -1: a circle -> who waits for it in the end
  for (const RankView& rank : communicator.ranks) {
    if (rank.waiting_on < 0 || rank.state == SlotState::destroyed) continue;
    const bool is_long = rank.is_alive && now_ns - begin_of(*rank.current) >= kLongWaitNs;
    if (is_long || graph.is_dead) waiters[graph.end_of_chain(rank.waiting_on).value_or(-1)].push_back(rank.rank);
  }
  const std::string tense = graph.is_dead ? " waited" : " wait";
  for (const auto& [end, ranks] : waiters) {
    const std::string who = ranks_text(ranks) + tense + (ranks.size() == 1 && !graph.is_dead ? "s" : "");
    if (end < 0) {
      communicator.findings.push_back(who + " in a circle: all are in the operation, nobody is late");
      continue;
    }
    const auto found = graph.by_rank.find(end);
    communicator.findings.push_back(who + ", in the end, for rank " + std::to_string(end) + ", which " +
                                    (found == graph.by_rank.end() ? "has no recorder on this machine"
                                     : graph.is_dead              ? "was " + where_it_is(*found->second)
                                     : found->second->is_alive    ? "is " + where_it_is(*found->second)
                                                                  : "is dead"));
  }
}

void find_missing(CommunicatorView& communicator) {
  constexpr int kShownRanks = 65536;  // a file's word is not to be trusted with our memory
  const int ranks = std::min(communicator.rank_count, kShownRanks);
  std::size_t next = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    while (next < communicator.ranks.size() && communicator.ranks[next].rank < rank) ++next;
    if (next == communicator.ranks.size() || communicator.ranks[next].rank != rank)
      communicator.missing.push_back(rank);
  }
}

CommunicatorView& communicator_of(JobView& job, const RecorderSlot& slot) {
  for (CommunicatorView& communicator : job.communicators)
    if (communicator.id == slot.communicator_id) return communicator;
  CommunicatorView communicator;
  communicator.id = slot.communicator_id;
  communicator.name = slot.name;
  communicator.rank_count = slot.ranks;
  communicator.epoch = slot.epoch;
  job.communicators.push_back(std::move(communicator));
  return job.communicators.back();
}

void finish_job(JobView& job, std::int64_t now_ns) {
  for (CommunicatorView& communicator : job.communicators) {
    std::stable_sort(communicator.ranks.begin(), communicator.ranks.end(),
                     [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
    find_missing(communicator);
    find_dead_and_failed(communicator);
    find_waits(communicator, now_ns);
  }
  std::stable_sort(job.communicators.begin(), job.communicators.end(),
                   [](const CommunicatorView& a, const CommunicatorView& b) { return a.name < b.name; });
}

}  // namespace

std::vector<JobView> view_jobs(const std::vector<RecorderSnapshot>& snapshots, std::int64_t now_ns) {
  std::map<std::string, JobView> jobs;
  for (const RecorderSnapshot& snapshot : snapshots) {
    JobView& job = jobs[snapshot.job];
    job.id = snapshot.job;
    ++job.processes;
    if (snapshot.alive) ++job.alive;
    job.paths.push_back(snapshot.path);
    job.last_activity_ns = std::max(job.last_activity_ns, wall_time(snapshot, snapshot.start_ticks));
    for (const auto& slot : snapshot.slots) {
      RankView rank = view_rank(snapshot, *slot);
      job.last_activity_ns = std::max(job.last_activity_ns, last_activity(rank));
      communicator_of(job, *slot).ranks.push_back(std::move(rank));
    }
  }
  std::vector<JobView> result;
  for (auto& [id, job] : jobs) {
    finish_job(job, now_ns);
    result.push_back(std::move(job));
  }
  std::stable_sort(result.begin(), result.end(), [](const JobView& a, const JobView& b) {
    if ((a.alive > 0) != (b.alive > 0)) return a.alive > 0;
    return a.last_activity_ns > b.last_activity_ns;
  });
  return result;
}

std::string elapsed_text(std::int64_t ns) {
  const double seconds = static_cast<double>(std::max<std::int64_t>(ns, 0)) * 1e-9;
  if (seconds < 1e-3) return text_format("%.0f us", seconds * 1e6);
  if (seconds < 1) return text_format("%.1f ms", seconds * 1e3);
  if (seconds < 120) return text_format("%.1f s", seconds);
  const auto minutes = static_cast<long>(seconds / 60);
  if (minutes < 120) return text_format("%ld min %02ld s", minutes, static_cast<long>(seconds) % 60);
  return text_format("%ld h %02ld min", minutes / 60, minutes % 60);
}

}  // namespace tutti::core
