// SPDX-License-Identifier: Apache-2.0
#include "tests/api/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <thread>

namespace api_test {

namespace {

std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }

/// Set before main, so that no test can be first.
const std::string& kRunFolder = run_folder();

/// Ranks as threads: who is done, and the communicators to abort when the deadline passes.
struct ThreadJob {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done;
  std::vector<tutti_comm*> communicators;
  int running = 0;
};

std::string unfinished(const ThreadJob& job) {
  std::string names;
  for (std::size_t rank = 0; rank < job.done.size(); ++rank)
    if (!job.done[rank]) names += (names.empty() ? "" : ", ") + std::to_string(rank);
  return names;
}

void wait_for(ThreadJob& job, seconds deadline) {
  std::unique_lock lock(job.mutex);
  const auto all_done = [&] { return job.running == 0; };
  if (job.changed.wait_for(lock, deadline, all_done)) return;
  ADD_FAILURE() << "deadline of " << deadline.count() << " s passed; still running: rank " << unfinished(job);
  for (tutti_comm* comm : job.communicators)
    if (comm != nullptr) tutti_comm_abort(comm, "the test's deadline has passed");
  if (job.changed.wait_for(lock, seconds(20), all_done)) return;
  std::fprintf(stderr, "rank %s did not react to abort either: giving up the whole program\n", unfinished(job).c_str());
  std::abort();  // threads cannot be stopped
}

void run_threads(ThreadJob& job, const JobOptions& options, const std::function<void(int)>& body) {
  job.done.assign(index_of(options.ranks), false);
  job.communicators.assign(index_of(options.ranks), nullptr);
  job.running = options.ranks;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank)
    threads.emplace_back([&job, &body, rank] {
      body(rank);
      const std::lock_guard lock(job.mutex);
      job.done[index_of(rank)] = true;
      --job.running;
      job.changed.notify_all();
    });
  wait_for(job, options.deadline);
  for (std::thread& thread : threads) thread.join();
}

[[noreturn]] void run_child(const Child& child, const std::function<void(Child&)>& body, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(99);
  Child own = child;
  body(own);
  std::fflush(nullptr);
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

std::string to_string(const tutti::Status& status) {
  return status.is_ok() ? "ok" : std::string(tutti::name(status.code())) + ": " + status.text();
}

const std::string& run_folder() {
  struct Folder {
    std::string path = "/dev/shm/tutti-test-" + std::to_string(getpid());
    pid_t owner = getpid();
    Folder() {
      std::filesystem::create_directories(path);
      chmod_private();
      setenv("TUTTI_RUN_DIR", path.c_str(), 1);
    }
    void chmod_private() const { std::filesystem::permissions(path, std::filesystem::perms::owner_all); }
    ~Folder() {
      std::error_code ignored;
      if (getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

tutti::Config test_config(const std::string& settings, const std::string& name) {
  return {.name = name, .settings = "init_timeout=30s;timeout=30s" + (settings.empty() ? "" : ";" + settings)};
}

void spawn_ranks(const JobOptions& options, const std::function<void(int rank)>& body) {
  ThreadJob job;
  run_threads(job, options, body);
}

void spawn(const JobOptions& options, const std::function<void(tutti::Communicator&)>& body) {
  const auto id = tutti::UniqueId::create();
  ASSERT_STATUS_OK(id.status());
  ThreadJob job;
  run_threads(job, options, [&](int rank) {
    auto comm = tutti::Communicator::create(*id, rank, options.ranks, test_config(options.settings));
    ASSERT_STATUS_OK(comm.status());
    const auto publish = [&](tutti_comm* handle) {
      const std::lock_guard lock(job.mutex);
      job.communicators[index_of(rank)] = handle;
    };
    publish(comm->handle());
    body(*comm);
    publish(nullptr);
  });
}

bool eventually(const std::function<bool()>& condition, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // between two looks
  }
  return true;
}

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

tutti::UniqueId Child::id(int index) const {
  std::atomic<std::uint32_t>& ready = board_.id_ready[index];
  if (rank_ == 0 && ready.load() == 0) {
    const auto made = tutti::UniqueId::create();
    EXPECT_STATUS_OK(made.status());
    if (made.is_ok()) board_.ids[index] = *made;
    ready.store(1);
  }
  EXPECT_TRUE(eventually([&] { return ready.load() != 0; })) << "rank 0 made no id";
  return board_.ids[index];
}

tutti::Result<tutti::Communicator> Child::create(const std::string& settings, int index) const {
  return tutti::Communicator::create(id(index), rank_, ranks_, test_config(settings));
}

void Child::report(const std::string& text) const {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t moved = write(pipe_, text.data() + sent, text.size() - sent);
    if (moved < 0 && errno == EINTR) continue;
    ASSERT_GT(moved, 0) << "report: " << std::strerror(errno);
    sent += static_cast<std::size_t>(moved);
  }
}

Job::Job(const JobOptions& options, const std::function<void(Child&)>& body)
    : options_(options), deadline_(std::chrono::steady_clock::now() + options.deadline) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  board_ = new (memory) Board{};
  results_.resize(index_of(options.ranks));
  running_.assign(index_of(options.ranks), true);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  for (int rank = 0; rank < options.ranks; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const pid_t pid = fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      close(ends[0]);
      for (int other : pipes_) close(other);
      run_child(Child(rank, options.ranks, *board_, ends[1]), body, parent);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pids_.push_back(pid);
    pipes_.push_back(ends[0]);
  }
}

Job::~Job() {
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (running_[rank]) {
      kill(pids_[rank], SIGKILL);
      waitpid(pids_[rank], nullptr, 0);
    }
    close(pipes_[rank]);
  }
  munmap(board_, sizeof(Board));
}

void Job::signal(int rank, int number) const {
  if (running_[index_of(rank)]) kill(pids_[index_of(rank)], number);
}

void Job::read_reports() {
  char piece[4096];
  for (std::size_t rank = 0; rank < pipes_.size(); ++rank)
    for (ssize_t got; (got = read(pipes_[rank], piece, sizeof piece)) > 0;)
      results_[rank].report.append(piece, static_cast<std::size_t>(got));
}

/// True once nobody runs.
bool Job::reap() {
  bool any = false;
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (!running_[rank]) continue;
    int status = 0;
    if (waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) {
      any = true;
      continue;
    }
    running_[rank] = false;
    if (WIFEXITED(status)) results_[rank].exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) results_[rank].signal = WTERMSIG(status);
  }
  return !any;
}

std::vector<ChildResult> Job::wait() {
  const auto left = [&] {
    return std::chrono::duration_cast<milliseconds>(deadline_ - std::chrono::steady_clock::now());
  };
  const bool ended = eventually(
      [&] {
        read_reports();
        return reap();
      },
      left());
  if (!ended) {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      if (!running_[rank]) continue;
      ADD_FAILURE() << "rank " << rank << " (pid " << pids_[rank] << ") is still running at the deadline: killed";
      results_[rank].stuck = true;
      kill(pids_[rank], SIGKILL);
    }
    eventually([&] { return reap(); });
  }
  read_reports();
  return results_;
}

std::vector<ChildResult> spawn_processes(const JobOptions& options, const std::function<void(Child&)>& body) {
  Job job(options, body);
  auto results = job.wait();
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    EXPECT_EQ(results[rank].exit_code, 0) << "rank " << rank << " ended by signal " << results[rank].signal;
  return results;
}

}  // namespace api_test
