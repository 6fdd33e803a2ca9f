// SPDX-License-Identifier: Apache-2.0
#include "src/cli/plan_check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "src/base/types.h"
#include "src/cli/plan.h"
#include "src/plan/check.h"

namespace tutti::core {

namespace {

/// Random mixes of rows per rank count, and the most ranks that they are tried for.
constexpr int kMixes = 8;
constexpr int kMostMixedRanks = 64;
constexpr std::uint64_t kMixSeed = 1;
/// Proofs over more ranks run one at a time: over 1000 ranks one may take 1.5 GB.
constexpr int kMostSharedRanks = 300;
constexpr int kThreads = 2;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One line of the output: a row, or the mixes of all rows.
struct Line {
  const Algorithm* row = nullptr;  ///< null: mixes
  std::string label;
  std::size_t jobs_left = 0;
  int counts = 0;
  std::uint64_t proofs = 0, steps = 0;
  double seconds = 0;  ///< of all jobs, whichever thread they ran on
  int failed_ranks = 0;
  std::string error;
};

/// One proof: a line's part for one rank count.
struct Job {
  std::size_t line;
  int ranks;
};

struct Proof {
  std::uint64_t proofs = 0, steps = 0;
};

class Runner {
 public:
  Runner(const std::vector<const Algorithm*>& rows, const std::vector<int>& rank_counts) {
    for (const Algorithm* row : rows) {
      rows_.push_back(*row);
      begin_line(
          {.row = row, .label = std::string(collective_name(row->what)) + " / " + std::string(row->name), .error = ""});
      for (const int ranks : rank_counts)
        if (admits(*row, ranks)) jobs_.push_back({lines_.size() - 1, ranks});
      lines_.back().jobs_left = jobs_.size() - jobs_before_;
    }
    begin_line({.row = nullptr, .label = "random mixes of these rows", .error = ""});
    for (const int ranks : rank_counts)
      if (ranks <= kMostMixedRanks) jobs_.push_back({lines_.size() - 1, ranks});
    lines_.back().jobs_left = jobs_.size() - jobs_before_;
    if (lines_.back().jobs_left == 0) lines_.pop_back();
  }

  void run() {
    print_finished();
    std::vector<std::thread> threads;
    for (int k = 1; k < kThreads; ++k) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
  }

  const std::vector<Line>& lines() const { return lines_; }

 private:
  void begin_line(Line line) {
    jobs_before_ = jobs_.size();
    lines_.push_back(std::move(line));
  }

  void work() {
    for (std::size_t k = next_++; k < jobs_.size(); k = next_++) {
      const Job& job = jobs_[k];
      const bool is_large = job.ranks > kMostSharedRanks;
      std::unique_lock<std::mutex> alone(large_, std::defer_lock);
      if (is_large) alone.lock();
      const auto start = Clock::now();
      const Result<Proof> proof = prove(lines_[job.line], job.ranks);
      const double seconds = seconds_since(start);
      if (is_large) alone.unlock();
      const std::lock_guard<std::mutex> lock(mutex_);
      note(lines_[job.line], job.ranks, seconds, proof);
      print_finished();
    }
  }

  Result<Proof> prove(const Line& line, int ranks) const {
    if (line.row == nullptr) {
      TUTTI_TRY(mixes, check_mixes(rows_, ranks, kMixes, kMixSeed));
      return Proof{static_cast<std::uint64_t>(mixes.mixes), mixes.steps};
    }
    TUTTI_TRY(row, check_row(*line.row, ranks));
    return Proof{static_cast<std::uint64_t>(row.proofs), row.steps};
  }

  static void note(Line& line, int ranks, double seconds, const Result<Proof>& proof) {
    --line.jobs_left;
    line.seconds += seconds;
    if (!proof.is_ok()) {
      // The smallest failing count tells most.
      if (line.failed_ranks != 0 && line.failed_ranks < ranks) return;
      line.failed_ranks = ranks;
      line.error = proof.status().message();
      return;
    }
    ++line.counts;
    line.proofs += proof.value().proofs;
    line.steps += proof.value().steps;
  }

  /// Lines appear in order, as soon as they and all before them are complete.
  void print_finished() {
    for (; printed_ < lines_.size() && lines_[printed_].jobs_left == 0; ++printed_) {
      const Line& line = lines_[printed_];
      if (!line.error.empty()) std::fprintf(stderr, "tutti: %s\n", line.error.c_str());
      std::printf("%-34s %4d rank counts %7llu proofs %12llu steps %7.2f s  %s\n", line.label.c_str(), line.counts,
                  static_cast<unsigned long long>(line.proofs), static_cast<unsigned long long>(line.steps),
                  line.seconds, line.error.empty() ? "ok" : "FAILED");
      std::fflush(stdout);
    }
  }

  std::vector<Algorithm> rows_;
  std::vector<Line> lines_;
  std::vector<Job> jobs_;
  std::size_t jobs_before_ = 0;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // lines_ and what is printed
  std::mutex large_;
  std::size_t printed_ = 0;
};

}  // namespace

Result<std::vector<int>> parse_rank_list(const std::string& text) {
  std::vector<int> counts;
  std::size_t begin = 0;
  do {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    TUTTI_TRY(range, parse_rank_range(text.substr(begin, end - begin)));
    for (int ranks = range.first; ranks <= range.last; ++ranks) counts.push_back(ranks);
    begin = end + 1;
  } while (begin <= text.size());
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

int check_plans(const std::vector<const Algorithm*>& rows, const std::vector<int>& rank_counts,
                const std::string& text) {
  const auto start = Clock::now();
  std::printf(
      "# each proof: every contribution exactly once, identical bits on all ranks, no deadlock, no slot hazard; in "
      "place and out\n"
      "# of place; as schedules, lowered with and without fusion, three back to back, in a window of slots, as "
      "slices\n"
      "# (over more than 300 ranks as schedules and lowered); rooted rows for every root up to 16 ranks, above for "
      "3\n");
  Runner runner(rows, rank_counts);
  runner.run();
  std::uint64_t proofs = 0, steps = 0;
  std::size_t failed = 0;
  for (const Line& line : runner.lines()) {
    proofs += line.proofs;
    steps += line.steps;
    failed += line.error.empty() ? 0 : 1;
  }
  std::printf("%zu rows over %s ranks: %llu proofs, %llu steps, %.1f s, %s\n", rows.size(), text.c_str(),
              static_cast<unsigned long long>(proofs), static_cast<unsigned long long>(steps), seconds_since(start),
              failed == 0 ? "all proved" : (std::to_string(failed) + " FAILED").c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace tutti::core
