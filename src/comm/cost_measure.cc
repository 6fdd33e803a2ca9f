// SPDX-License-Identifier: Apache-2.0
// Two threads, pinned to two cores, play sender and receiver over shared memory of the transport's kind:
//
//   sender    | line >        |        8 lines > |        copy 64 KiB in > |              ...
//   receiver  |      < line   |          < line  |                         copy out, or reduce >
//             |  alpha        |  overhead        |  beta (sender), delta and gamma (receiver)
//
// and two more on one core take turns (turn). Each figure is the lower quartile of many short samples: being preempted
// only ever makes a sample longer, so a quarter of undisturbed ones is enough.
#include "src/comm/cost_measure.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "src/base/clock.h"
#include "src/base/text.h"
#include "src/exec/control.h"
#include "src/reduce/reduce.h"

namespace tutti::core {

namespace {

/// Half of the smallest slice that streams well (performance figures in cost_model.cc), and inside any L2.
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;
constexpr int kLines = 8;  // messages of one volley
constexpr int kBatches = 64, kRoundTrips = 16, kVolleys = 8, kBlocks = 48, kTurns = 4, kTurnBatches = 40;
/// Work of a step at both ends of a message besides the lines: the executor's standing limit is 10 ns a step.
constexpr double kStepsNs = 20.0;
/// Fewer samples than this say nothing.
constexpr std::size_t kLeastSamples = 8;
/// A median this much above the lower quartile: somebody else was running.
constexpr double kQuietSpread = 3.0;

struct alignas(kLineStride) Word {
  std::atomic<std::uint64_t> value{0};
};

/// The memory both threads see.
struct Board {
  Word lines[kLines];  ///< written by the sender
  Word reply;          ///< written by the receiver
  Word stop;           ///< either has run out of time
  alignas(4096) std::byte block[kBlockBytes];
};

using Samples = std::vector<double>;

/// What either thread found; written before it ends, read after it was joined.
struct Findings {
  Samples alpha, volley, beta, gamma, delta, turn;
};

class Player {
 public:
  Player(Board& board, std::int64_t deadline_ns, bool shares_core)
      : board_(board), deadline_ns_(deadline_ns), shares_core_(shares_core) {}

  /// False once time is up, for both players.
  bool wait(const Word& word, std::uint64_t at_least) {
    // pairs with the release in put()
    for (std::uint32_t polls = 1; word.value.load(std::memory_order_acquire) < at_least; ++polls) {
      if (shares_core_) sched_yield();
      if (polls % 64 != 0) continue;
      if (monotonic_ns() > deadline_ns_) board_.stop.value.store(1, std::memory_order_relaxed);
      if (board_.stop.value.load(std::memory_order_relaxed) != 0) return false;
    }
    return true;
  }
  static void put(Word& word, std::uint64_t value) { word.value.store(value, std::memory_order_release); }

  Board& board() { return board_; }
  Findings& findings() { return findings_; }

 private:
  Board& board_;
  std::int64_t deadline_ns_;
  bool shares_core_;
  Findings findings_;
};

/// `rounds` volleys of `lines` lines, each answered by one. `number` rises by `rounds` on both sides.
bool send_volleys(Player& player, int lines, int rounds, std::uint64_t& number) {
  Board& board = player.board();
  for (int i = 0; i < rounds; ++i) {
    ++number;
    for (int line = 0; line < lines; ++line) Player::put(board.lines[line], number);
    if (!player.wait(board.reply, number)) return false;
  }
  return true;
}

bool answer_volleys(Player& player, int lines, int rounds, std::uint64_t& number) {
  Board& board = player.board();
  for (int i = 0; i < rounds; ++i) {
    ++number;
    for (int line = 0; line < lines; ++line)
      if (!player.wait(board.lines[line], number)) return false;
    Player::put(board.reply, number);
  }
  return true;
}

/// Samples of one volley and its answer, in nanoseconds.
bool time_volleys(Player& player, int lines, int rounds, Samples& samples, std::uint64_t& number) {
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::int64_t start = monotonic_ns();
    if (!send_volleys(player, lines, rounds, number)) return false;
    samples.push_back(static_cast<double>(monotonic_ns() - start) / rounds);
  }
  return true;
}

double per_byte(std::int64_t start_ns) { return static_cast<double>(monotonic_ns() - start_ns) / kBlockBytes; }

void run_sender(Player& player) {
  const auto data = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[kBlockBytes]());
  if (!data) return player.board().stop.value.store(1, std::memory_order_relaxed);
  std::uint64_t number = 0;
  if (!send_volleys(player, 1, kRoundTrips, number)) return;  // warm up
  Findings& found = player.findings();
  if (!time_volleys(player, 1, kRoundTrips, found.alpha, number)) return;
  if (!time_volleys(player, kLines, kVolleys, found.volley, number)) return;
  for (int i = 0; i < 2 * kBlocks; ++i) {
    const std::int64_t start = monotonic_ns();
    std::memcpy(player.board().block, data.get(), kBlockBytes);
    if (i >= 2) found.beta.push_back(per_byte(start));  // from then on the peer has read the lines
    if (!send_volleys(player, 1, 1, number)) return;
  }
}

void run_receiver(Player& player) {
  const auto sum = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[kBlockBytes]());
  const ReduceKernel kernel = find_reduce_kernel(TUTTI_FLOAT32, TUTTI_SUM);
  if (!sum || !kernel) return player.board().stop.value.store(1, std::memory_order_relaxed);
  std::uint64_t number = 0;
  if (!answer_volleys(player, 1, kRoundTrips + kBatches * kRoundTrips, number)) return;
  if (!answer_volleys(player, kLines, kBatches * kVolleys, number)) return;
  Findings& found = player.findings();
  Board& board = player.board();
  for (int i = 0; i < 2 * kBlocks; ++i) {
    if (!player.wait(board.lines[0], ++number)) return;
    const std::int64_t start = monotonic_ns();
    if (i % 2 == 0) {
      std::memcpy(sum.get(), board.block, kBlockBytes);
    } else {
      const void* sources[] = {sum.get(), board.block};
      ReduceArgs args{};
      args.destination = sum.get();
      args.sources = sources;
      args.source_count = 2;
      args.count = kBlockBytes / sizeof(float);
      args.raw_source = -1;
      args.scale = 1.0;
      kernel(args);
    }
    if (i >= 2) (i % 2 == 0 ? found.delta : found.gamma).push_back(per_byte(start));
    Player::put(board.reply, number);
  }
}

void run_first_turn(Player& player) {
  std::uint64_t number = 0;
  for (int batch = 0; batch < kTurnBatches; ++batch) {
    const std::int64_t start = monotonic_ns();
    if (!send_volleys(player, 1, kTurns, number)) return;
    player.findings().turn.push_back(static_cast<double>(monotonic_ns() - start) / (2 * kTurns));
  }
}

void run_second_turn(Player& player) {
  std::uint64_t number = 0;
  answer_volleys(player, 1, kTurnBatches * kTurns, number);
}

/// One thread on one core. Its stack is small and no signal of the application is handled there.
class PinnedThread {
 public:
  PinnedThread(int cpu, Player& player, void (*run)(Player&)) : player_(player), run_(run) {
    constexpr std::size_t kStackBytes = std::size_t{128} << 10;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<std::size_t>(cpu), &only);
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
        pthread_attr_setaffinity_np(&attributes, sizeof only, &only) == 0 &&
        pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
      started_ = pthread_create(&thread_, &attributes, &PinnedThread::start, this) == 0;
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    pthread_attr_destroy(&attributes);
    if (started_)
      pthread_setname_np(thread_, "tutti-probe");
    else
      player_.board().stop.value.store(1, std::memory_order_relaxed);
  }
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;
  ~PinnedThread() {
    if (started_) pthread_join(thread_, nullptr);
  }

 private:
  static void* start(void* self) {
    auto* thread = static_cast<PinnedThread*>(self);
    thread->run_(thread->player_);
    return nullptr;
  }

  Player& player_;
  void (*run_)(Player&);
  pthread_t thread_{};
  bool started_ = false;
};

struct Game {
  int first_cpu, second_cpu;
  void (*first)(Player&);
  void (*second)(Player&);
  std::int64_t deadline_ns;
};

/// Both players' findings after the game; empty ones if the threads cannot be had.
std::pair<Findings, Findings> play(const Game& game) {
  if (monotonic_ns() >= game.deadline_ns) return {};
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  auto* board = new (memory) Board;
  const bool shared = game.first_cpu == game.second_cpu;
  Player first(*board, game.deadline_ns, shared), second(*board, game.deadline_ns, shared);
  {
    const PinnedThread one(game.first_cpu, first, game.first);
    const PinnedThread two(game.second_cpu, second, game.second);
  }
  ::munmap(memory, sizeof(Board));
  return {std::move(first.findings()), std::move(second.findings())};
}

/// Processor numbers that share a core with `cpu`, itself included, as far as the kernel tells.
std::string siblings_text(int cpu) {
  std::ifstream file(text_format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu));
  std::string text;
  std::getline(file, text);
  return text.empty() ? std::to_string(cpu) : text;
}

/// The core where the caller runs and a core of the middle among the others: neither the nearest nor the farthest. The
/// second is -1 if this process is bound to one core.
std::pair<int, int> choose_cores() {
  // A thread that was bound to one core may use those of its process, which are the first thread's.
  cpu_set_t allowed, own, process;
  CPU_ZERO(&own);
  CPU_ZERO(&process);
  if (sched_getaffinity(0, sizeof own, &own) != 0) return {-1, -1};
  if (sched_getaffinity(::getpid(), sizeof process, &process) != 0) CPU_ZERO(&process);
  CPU_OR(&allowed, &own, &process);
  int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || !CPU_ISSET(static_cast<std::size_t>(here), &allowed)) here = -1;
  std::vector<int> others;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) continue;
    if (here < 0) here = cpu;
    if (cpu != here) others.push_back(cpu);
  }
  if (here < 0 || others.empty()) return {here, -1};
  // Enough of a search: the second thread of this core is one of few.
  const std::string siblings = siblings_text(here);
  std::size_t chosen = others.size() / 2;
  for (std::size_t tries = 0; tries < others.size(); ++tries, chosen = (chosen + 1) % others.size())
    if (siblings_text(others[chosen]) != siblings) return {here, others[chosen]};
  return {here, -1};
}

/// The lower quartile, where it means something. Names the term in `note` otherwise.
bool settle(Samples& samples, std::string_view name, double& value, std::string& note) {
  const auto complain = [&](const char* why) {
    note += (note.empty() ? "" : ", ") + std::string(name) + " " + why;
    return false;
  };
  if (samples.size() < kLeastSamples) return complain("not measured");
  std::sort(samples.begin(), samples.end());
  value = samples[samples.size() / 4];
  return samples[samples.size() / 2] <= kQuietSpread * value || complain("disturbed");
}

}  // namespace

CostProbe measure_costs(const CostProbeLimits& limits) {
  CostProbe probe;
  probe.constants = documented_constants();
  const std::int64_t start = monotonic_ns();
  const auto [here, there] = choose_cores();
  bool good = true;
  if (there >= 0) {
    const Game game{here, there, run_sender, run_receiver, start + limits.budget_ns / 4 * 3};
    auto [sender, receiver] = play(game);
    double round_trip = 0, volley = 0;
    good = settle(sender.alpha, "alpha", round_trip, probe.note);
    if (round_trip > 0) probe.constants.alpha_ns = round_trip / 2;
    good = settle(sender.volley, "overhead", volley, probe.note) && good;
    if (volley > 0 && round_trip > 0)
      probe.constants.overhead_ns = kStepsNs + std::max(0.0, volley - round_trip) / (kLines - 1);
    good = settle(sender.beta, "beta", probe.constants.beta_ns, probe.note) && good;
    good = settle(receiver.gamma, "gamma", probe.constants.gamma_ns, probe.note) && good;
    good = settle(receiver.delta, "delta", probe.constants.delta_ns, probe.note) && good;
  } else {
    good = false;
    probe.note = "bound to one core: alpha, overhead, beta, gamma and delta not measured";
  }
  if (here >= 0) {
    const Game game{here, here, run_first_turn, run_second_turn, start + limits.budget_ns};
    auto [first, second] = play(game);
    good = settle(first.turn, "turn", probe.constants.turn_ns, probe.note) && good;
  }
  make_plausible(probe.constants);
  probe.complete = good;
  probe.took_ms = static_cast<double>(monotonic_ns() - start) / 1e6;
  return probe;
}

}  // namespace tutti::core
