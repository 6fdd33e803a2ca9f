// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_reaper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/cli/run_environment.h"
#include "src/cli/run_output.h"
#include "src/facts/reader.h"

namespace tutti::core {

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kNever = INT64_MAX;
// A killed process that has not gone by then hangs in the kernel (a dead file server): say so instead of hanging too.
constexpr std::int64_t kKillTimeout = 5000 * kMillisecond;
// On a terminal an unfinished line (a prompt, a progress bar) is shown after this rest: below what a person notices,
// above the gap between two writes of one line.
constexpr std::int64_t kPartialRest = 100 * kMillisecond;
constexpr int kReportedFailures = 8;  // the first ones tell the story; a thousand equal lines bury it

struct Rank {
  pid_t pid = -1;
  bool is_running = false;
  std::int64_t started_ns = 0;
  std::vector<std::unique_ptr<RankStream>> streams;  // stdout, stderr
};

/// The life of a job. Each phase has at most one deadline, after which the next one begins.
enum class Phase {
  running,
  grace,        // a rank has failed: the others may report
  terminating,  // they got TERM
  leftovers,    // no rank runs any more; what they left behind got TERM
  flushing,     // no process is left; the last output is on its way
};

bool is_same_file(int a, int b) {
  struct stat one {};
  struct stat two {};
  return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/// "rank 3", "ranks 0-2,5".
std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + number_list_text(ranks);
}

/// 128 + signal, or the exit code.
int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

class Reaper {
 public:
  explicit Reaper(ReaperSetup setup) : setup_(std::move(setup)), options_(setup_.options) {
    sinks_.push_back(std::make_unique<OutputSink>(1));
    // stdout and stderr on one terminal or pipe: one sink, or a line of one could land inside a line of the other.
    if (!is_same_file(1, 2)) sinks_.push_back(std::make_unique<OutputSink>(2));
  }

  int run();

 private:
  bool start_ranks();
  Status start_rank(int rank, int null_fd, int cpu);
  Status start_failure(int rank, int cpu, const SpawnResult& result);

  bool is_launcher_gone() const;
  void wait_for_events();
  std::int64_t next_deadline() const;
  void show_old_partial_lines();
  void close_streams_of_broken_sinks();
  void read_control();
  void read_signals();
  void forward(int number, bool already_delivered);

  void reap();
  void child_ended(pid_t pid, int status);
  void report_failure(int rank, int status);
  void begin_grace();
  void terminate_leftovers();
  void deadline_passed();
  void kill_all();
  void finish();

  std::vector<int> running() const;
  void say(const std::string& text) { sinks_.back()->put(nullptr, {}, "tutti run: " + text + "\n"); }

  ReaperSetup setup_;
  const RunOptions& options_;
  UniqueFd signals_;
  std::vector<std::unique_ptr<OutputSink>> sinks_;  // stdout, stderr; or both
  std::vector<Rank> ranks_;
  std::vector<pollfd> polls_;
  std::vector<RankStream*> polled_streams_;
  Phase phase_ = Phase::running;
  std::int64_t deadline_ns_ = kNever;
  std::vector<pid_t> terminated_leftovers_;
  std::optional<int> first_failure_;
  int failures_ = 0;
  int interrupts_ = 0;
  bool is_starting_ = false;
  bool is_killing_ = false;  // deaths are ours from now on
  bool is_asked_to_end_ = false;
  bool is_hurried_ = false;  // do not wait for a slow reader of the last output
};

int Reaper::run() {
  prctl(PR_SET_NAME, "tutti-reaper");
  // A group of its own: a signal to the launcher's group, KILL included, must not take the reaper along.
  setpgid(0, 0);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    say(std::string("cannot become the subreaper of the job: ") + std::strerror(errno));
    sinks_.back()->flush();
    return 1;
  }
  const sigset_t set = signal_set(setup_.forwarded);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  fcntl(setup_.control.get(), F_SETFL, O_NONBLOCK);
  rlimit files = setup_.state.files;  // two pipes a rank; the ranks get the old limit back
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  if (!start_ranks()) kill_all();
  while (true) {
    for (const auto& sink : sinks_) sink->flush();
    const bool has_pending = std::any_of(sinks_.begin(), sinks_.end(), [](const auto& s) { return s->has_pending(); });
    if (phase_ == Phase::flushing && (is_hurried_ || !has_pending)) return first_failure_.value_or(0);
    wait_for_events();
  }
}

bool Reaper::start_ranks() {
  ranks_.resize(static_cast<std::size_t>(options_.ranks));
  const UniqueFd null_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<int> cpus;
  if (options_.bind == RunBind::core) cpus = allowed_cpus();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const int cpu = cpus.empty() ? -1 : cpus[static_cast<std::size_t>(rank) % cpus.size()];
    if (const Status started = start_rank(rank, null_fd.get(), cpu); !started.is_ok()) {
      say(started.message() + (started.remedy().empty() ? "" : " (" + started.remedy() + ")"));
      return false;
    }
    if (is_launcher_gone()) break;
  }
  // Signals that came meanwhile, for ranks that did not run yet, too. (Or the launcher's end.)
  is_starting_ = true;
  read_control();
  is_starting_ = false;
  return true;
}

bool Reaper::is_launcher_gone() const {
  pollfd control{setup_.control.get(), 0, 0};
  return poll(&control, 1, 0) == 1 && (control.revents & POLLHUP) != 0;
}

Status Reaper::start_rank(int rank, int null_fd, int cpu) {
  Rank& entry = ranks_[static_cast<std::size_t>(rank)];
  const bool has_prefix = options_.prefix == RunPrefix::rank || (options_.prefix == RunPrefix::others && rank != 0);
  const std::string prefix = has_prefix ? "[" + std::to_string(rank) + "] " : "";
  std::array<UniqueFd, 2> write_ends;
  for (std::size_t i = 0; i < 2; ++i) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      first_failure_ = 1;
      return Status::from_errno(errno, "cannot make the output pipes of rank " + std::to_string(rank))
          .with_remedy("start fewer ranks, or raise the limit of open files (ulimit -Hn)");
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    OutputSink* sink = i == 0 ? sinks_.front().get() : sinks_.back().get();
    entry.streams.push_back(std::make_unique<RankStream>(UniqueFd(ends[0]), sink, prefix));
    write_ends[i].reset(ends[1]);
  }
  const SpawnResult result =
      spawn_rank({.command = options_.command,
                  .environment = rank_environment(setup_.environment, options_, setup_.unique_id, rank),
                  .cpu = cpu,
                  .group = setup_.group,
                  .input_fd = rank == 0 ? 0 : null_fd,
                  .output_fd = write_ends[0].get(),
                  .error_fd = write_ends[1].get(),
                  .abandon_fd = setup_.control.get(),
                  .state = setup_.state});
  if (result.pid < 0) return start_failure(rank, cpu, result);
  entry.pid = result.pid;
  entry.is_running = true;
  entry.started_ns = monotonic_ns();
  return Status::ok();
}

Status Reaper::start_failure(int rank, int cpu, const SpawnResult& result) {
  const std::string& program = options_.command[0];
  first_failure_ = 1;
  if (result.step == SpawnStep::start)
    return Status::from_errno(result.error, "cannot start rank " + std::to_string(rank))
        .with_remedy("start fewer ranks, or raise the limit of processes (ulimit -u, pids.max of the cgroup)");
  if (result.step == SpawnStep::bind)
    return Status::from_errno(result.error,
                              "cannot bind rank " + std::to_string(rank) + " to CPU " + std::to_string(cpu))
        .with_remedy("use --bind none");
  // 127 and 126 as the shell has them.
  first_failure_ = result.error == ENOENT ? 127 : 126;
  Status status = Status::from_errno(result.error, "cannot run '" + program + "'");
  if (result.error == ENOENT && program.find('/') == std::string::npos)
    return std::move(status).with_remedy("not found in PATH; give its folder, like ./" + program);
  if (result.error == ENOENT && access(program.c_str(), F_OK) == 0)
    return std::move(status).with_remedy("the file is there: the interpreter that its first line names is not");
  if (result.error == EACCES) return std::move(status).with_remedy("is it a program, and marked as one (chmod +x)?");
  return status;
}

void Reaper::wait_for_events() {
  polls_.clear();
  polls_.push_back({signals_.get(), POLLIN, 0});
  polls_.push_back({setup_.control.get(), POLLIN, 0});
  // A descriptor of -1 is skipped: a sink without text to write would report its errors for ever.
  for (const auto& sink : sinks_) polls_.push_back({sink->has_pending() ? sink->poll_fd() : -1, POLLOUT, 0});
  polled_streams_.clear();
  for (const Rank& rank : ranks_) {
    for (const auto& stream : rank.streams) {
      if (!stream->is_open() || stream->sink().is_full()) continue;
      polls_.push_back({stream->fd(), POLLIN, 0});
      polled_streams_.push_back(stream.get());
    }
  }
  const std::int64_t deadline = next_deadline();
  const std::int64_t rest_ms = (std::max<std::int64_t>(deadline - monotonic_ns(), 0) + kMillisecond - 1) / kMillisecond;
  const int timeout_ms = deadline == kNever ? -1 : static_cast<int>(std::min<std::int64_t>(rest_ms, 3'600'000));
  if (poll(polls_.data(), polls_.size(), timeout_ms) < 0) return;  // EINTR: the caller comes back

  for (std::size_t i = 0; i < polled_streams_.size(); ++i)
    if (polls_[polls_.size() - polled_streams_.size() + i].revents != 0) polled_streams_[i]->read_once();
  close_streams_of_broken_sinks();
  show_old_partial_lines();
  if (polls_[1].revents != 0) read_control();
  if (polls_[0].revents != 0) read_signals();
  if (monotonic_ns() >= deadline_ns_) deadline_passed();
}

std::int64_t Reaper::next_deadline() const {
  std::int64_t deadline = deadline_ns_;
  for (const Rank& rank : ranks_)
    for (const auto& stream : rank.streams)
      if (stream->sink().is_terminal() && stream->partial_since_ns() != 0)
        deadline = std::min(deadline, stream->partial_since_ns() + kPartialRest);
  return deadline;
}

void Reaper::show_old_partial_lines() {
  const std::int64_t now = monotonic_ns();
  for (const Rank& rank : ranks_)
    for (const auto& stream : rank.streams)
      if (stream->sink().is_terminal() && stream->partial_since_ns() != 0 &&
          now >= stream->partial_since_ns() + kPartialRest)
        stream->flush_partial();
}

/// The reader of our output has gone (`| head`): the ranks shall see that as they would without a launcher.
void Reaper::close_streams_of_broken_sinks() {
  for (const Rank& rank : ranks_)
    for (const auto& stream : rank.streams)
      if (stream->is_open() && stream->sink().is_broken()) stream->close();
}

void Reaper::read_control() {
  std::array<unsigned char, 64> bytes{};
  ssize_t got = 0;
  while ((got = read(setup_.control.get(), bytes.data(), bytes.size())) > 0)
    for (ssize_t i = 0; i < got; ++i) {
      const unsigned char byte = bytes[static_cast<std::size_t>(i)];
      forward(byte & ~kAlreadyDelivered, (byte & kAlreadyDelivered) != 0);
    }
  if (got == 0) {
    say("the launcher has died; killing the job");
    is_hurried_ = true;
    kill_all();
  }
}

void Reaper::read_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) forward(static_cast<int>(info.ssi_signo), false);
  }
  reap();
}

void Reaper::forward(int number, bool already_delivered) {
  const bool ends = number != SIGUSR1 && number != SIGUSR2;
  is_asked_to_end_ = is_asked_to_end_ || ends;
  if (phase_ == Phase::flushing) {
    is_hurried_ = is_hurried_ || ends;
    return;
  }
  if (number == SIGINT) ++interrupts_;
  if (interrupts_ >= 3 || (phase_ == Phase::leftovers && ends)) {
    say("killing the job (" + signal_name(number) + (interrupts_ >= 3 ? " for the third time)" : ")"));
    kill_all();
    return;
  }
  if (already_delivered && !is_starting_) return;
  for (const int rank : running()) kill(ranks_[static_cast<std::size_t>(rank)].pid, number);
}

void Reaper::reap() {
  if (phase_ == Phase::flushing) return;
  struct Ended {
    pid_t pid;
    int status;
  };
  std::vector<Ended> ended;
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) ended.push_back({pid, status});
  // waitpid knows no order in time. Among those found together, a signal is the cause and an exit code the consequence:
  // survivors report a killed rank within a millisecond.
  std::stable_partition(ended.begin(), ended.end(), [](const Ended& entry) { return WIFSIGNALED(entry.status); });
  for (const Ended& entry : ended) child_ended(entry.pid, entry.status);
  // Every orphan of the job becomes our child, so without children nothing of the job is left.
  if (pid < 0 && errno == ECHILD) {
    finish();
  } else if (running().empty()) {
    terminate_leftovers();
  } else if (first_failure_ && phase_ == Phase::running && options_.on_failure == RunOnFailure::kill) {
    begin_grace();
  }
}

void Reaper::child_ended(pid_t pid, int status) {
  const auto found =
      std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.is_running && rank.pid == pid; });
  if (found == ranks_.end()) return;  // an orphan of a rank
  found->is_running = false;
  for (const auto& stream : found->streams) stream->drain();  // what it said comes before what we say about it
  const int code = exit_code_of(status);
  if (code == 0) return;
  const bool was_ended_by_us = phase_ == Phase::terminating && (code == 128 + SIGTERM || code == 128 + SIGKILL);
  if (!was_ended_by_us && !is_killing_) report_failure(static_cast<int>(found - ranks_.begin()), status);
  if (!first_failure_) first_failure_ = code;
}

void Reaper::report_failure(int rank, int status) {
  if (++failures_ > kReportedFailures) return;
  const Rank& entry = ranks_[static_cast<std::size_t>(rank)];
  std::string text = "rank " + std::to_string(rank) + " (pid " + std::to_string(entry.pid) + ") ";
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    text += "killed by signal " + std::to_string(number) + " (" + signal_name(number) + ")";
  } else {
    text += "exited with code " + std::to_string(WEXITSTATUS(status));
  }
  text += text_format(" after %.1f s", static_cast<double>(monotonic_ns() - entry.started_ns) * 1e-9);
  if (WIFSIGNALED(status) && WCOREDUMP(status)) text += ", core dumped";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) text += "; if nobody sent it: out of memory? (dmesg)";
  say(text);
}

void Reaper::begin_grace() {
  phase_ = Phase::grace;
  deadline_ns_ = monotonic_ns() + options_.grace_ns;
  say(ranks_text(running()) + (running().size() == 1 ? " has " : " have ") + duration_text(options_.grace_ns) +
      " to report before TERM and KILL (--grace)");
}

void Reaper::terminate_leftovers() {
  if (phase_ != Phase::leftovers) {
    phase_ = Phase::leftovers;
    deadline_ns_ = monotonic_ns() + options_.grace_ns;
  }
  // Again at each death: the children of what has just gone are ours now.
  const std::vector<pid_t> reached = signal_children(SIGTERM, terminated_leftovers_);
  terminated_leftovers_.insert(terminated_leftovers_.end(), reached.begin(), reached.end());
}

void Reaper::deadline_passed() {
  if (phase_ == Phase::grace) {
    phase_ = Phase::terminating;
    deadline_ns_ = monotonic_ns() + options_.grace_ns;
    say(ranks_text(running()) + " still running: TERM");
    for (const int rank : running()) kill(ranks_[static_cast<std::size_t>(rank)].pid, SIGTERM);
  } else if (phase_ == Phase::terminating) {
    say(ranks_text(running()) + " still running: KILL");
    kill_all();
  } else if (phase_ == Phase::leftovers) {
    say("killing what the ranks left behind");
    kill_all();
  } else if (phase_ == Phase::flushing) {
    is_hurried_ = true;
  }
}

void Reaper::kill_all() {
  is_killing_ = true;
  const std::vector<pid_t> survivors =
      kill_descendants(kKillTimeout, [this](pid_t pid, int status) { child_ended(pid, status); });
  for (const pid_t pid : survivors)
    say("process " + std::to_string(pid) + " does not die of KILL; look at its state (ps)");
  finish();
}

void Reaper::finish() {
  phase_ = Phase::flushing;
  // A reader of our output may be as slow as it likes, unless somebody wants us to end.
  deadline_ns_ = is_asked_to_end_ ? monotonic_ns() + options_.grace_ns : kNever;
  for (const Rank& rank : ranks_) {
    for (const auto& stream : rank.streams) {
      stream->drain();
      stream->close();
    }
  }
  if (failures_ > kReportedFailures) say(std::to_string(failures_ - kReportedFailures) + " more ranks failed");
}

std::vector<int> Reaper::running() const {
  std::vector<int> result;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].is_running) result.push_back(static_cast<int>(i));
  return result;
}

}  // namespace

int run_reaper(ReaperSetup setup) { return Reaper(std::move(setup)).run(); }

}  // namespace tutti::core
