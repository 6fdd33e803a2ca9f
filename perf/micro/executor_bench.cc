// SPDX-License-Identifier: Apache-2.0
// What the interpreter of plans costs: the executor's ring against a hand-written ring over the same mailboxes.
//
//   micro_executor           two tables: bandwidth (2 ranks on 2 cores, paired and alternating) and nanoseconds per
//   step micro_executor --gate    the same, exit code 1 if the executor is more than 3 % slower from 64 KiB up (lower
//   end of the
//                            interval) or costs more than 10 ns a step and slice
//
// Both rings move the same bytes by the same primitives (reserve, commit, borrow, release, the same reduction kernel);
// the hand-written one keeps the two phases on lanes of their own, so that each runs ahead as far as the FIFO allows.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/exec/executor.h"
#include "src/plan/algorithm.h"
#include "transports/registry.h"

namespace tutti::core {
namespace {

constexpr std::uint64_t kEpoch = std::uint64_t{1} << 48;
constexpr std::uint64_t kFingerprint = 42;
constexpr std::size_t kSlice = 128 * 1024;
constexpr std::size_t kFifo = 1024 * 1024;
constexpr std::uint32_t kStreams = 2;
constexpr double kGateRatio = 1.03;
constexpr double kGateStepNs = 10.0;

template <class T>
T must(Result<T> result) {
  if (!result.is_ok()) {
    std::fprintf(stderr, "micro_executor: %s\n", result.status().to_string().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

/// The members of a communicator in one process, without the communicator.
struct World {
  explicit World(int ranks) : endpoint(must(find_transport("shm")->make())) {
    std::vector<PeerEnd> ends;
    for (int r = 0; r < ranks; ++r) {
      const SharedBlock block = must(endpoint->allocate(ControlPage::bytes_for(ranks)));
      arena = block.pointer - block.offset;
      ends.push_back({reinterpret_cast<ControlPage*>(block.pointer), {arena, arena, UINT64_MAX}});
    }
    for (int r = 0; r < ranks; ++r) channels.push_back(std::make_unique<ChannelSet>(*endpoint, arena, r, ends));
  }
  std::unique_ptr<Endpoint> endpoint;
  std::byte* arena = nullptr;
  std::vector<std::unique_ptr<ChannelSet>> channels;
};

LoweredPlan ring_plan(int rank, int ranks) {
  const Placement placement{rank, ranks, {}};
  BuildRequest request;
  request.placement = &placement;
  return must(lower(must(find_algorithm(TUTTI_ALL_REDUCE, "ring")->build(request)), LowerOptions{}));
}

Bindings bind(const std::vector<ChunkRange>& chunks, const float* in, float* out, std::byte* scratch) {
  Bindings b;
  b.input = reinterpret_cast<const std::byte*>(in);
  b.output = reinterpret_cast<std::byte*>(out);
  b.scratch = scratch;
  b.input_chunks = b.output_chunks = chunks.data();
  b.slice = std::min<std::uint64_t>(kSlice, std::max<std::uint64_t>(64, chunks[0].bytes));
  b.slices = (chunks[0].bytes + b.slice - 1) / b.slice;
  b.streams = static_cast<std::uint32_t>(std::min<std::uint64_t>(kStreams, b.slices));
  b.element = sizeof(float);
  b.kernel = find_reduce_kernel(TUTTI_FLOAT32, TUTTI_SUM);
  b.fingerprint = kFingerprint;
  b.epoch_bits = kEpoch;
  b.fifo_bytes = kFifo;
  return b;
}

/// Both rings wait alike: a neighbour on this core must not cost whole time slices.
class Patience {
 public:
  void tick(bool moved) {
    polls_ = moved ? 0 : polls_ + 1;
    if (polls_ > 2000) sched_yield();
  }

 private:
  int polls_ = 0;
};

/// The hand-written ring of two ranks. Lanes 14 and 15 are not used by the executor's streams.
void hand_ring(ChannelSet& channels, const Bindings& b) {
  const int peer = 1 - channels.rank();
  const auto own = static_cast<std::size_t>(channels.rank()), other = static_cast<std::size_t>(peer);
  SendChannel& to_reduce = *channels.send(peer, 14);
  SendChannel& to_gather = *channels.send(peer, 15);
  ReceiveChannel *partial = nullptr, *complete = nullptr;
  const auto piece = [&](std::size_t chunk, std::uint64_t slice) {
    const std::uint64_t length = b.input_chunks[chunk].bytes, at = slice * b.slice;
    return at >= length ? std::size_t{0} : static_cast<std::size_t>(std::min(length - at, b.slice));
  };
  std::uint64_t sent = 0, reduced = 0, gathered = 0;
  Patience patience;
  while (gathered < b.slices) {
    const std::uint64_t before = sent + reduced + gathered;
    if (sent < b.slices) {
      const std::size_t n = piece(other, sent);
      if (std::byte* place = to_reduce.reserve(n, kFifo)) {
        std::memcpy(place, b.input + b.input_chunks[other].offset + sent * b.slice, n);
        to_reduce.commit(n, kFingerprint, kEpoch);
        ++sent;
      }
    }
    if (!partial) partial = channels.receive(peer, 14);
    if (!complete) complete = channels.receive(peer, 15);
    if (partial && reduced < b.slices && partial->ready(kEpoch)) {
      const std::size_t n = piece(own, reduced);
      if (std::byte* place = to_gather.reserve(n, kFifo)) {
        const std::byte* data = partial->data(n);
        const std::uint64_t at = b.input_chunks[own].offset + reduced * b.slice;
        for (std::size_t k = 0; k < n; k += 8192) {
          const std::size_t m = std::min<std::size_t>(8192, n - k);
          const void* const sources[] = {b.input + at + k, data + k};
          b.kernel({b.output + at + k, sources, 2, m / sizeof(float), -1, 1.0, 0, true});
          std::memcpy(place + k, b.output + at + k, m);
        }
        partial->release(n);
        to_gather.commit(n, kFingerprint, kEpoch);
        ++reduced;
      }
    }
    if (complete && gathered < b.slices && complete->ready(kEpoch)) {
      const std::size_t n = piece(other, gathered);
      std::memcpy(b.output + b.input_chunks[other].offset + gathered * b.slice, complete->data(n), n);
      complete->release(n);
      ++gathered;
    }
    patience.tick(sent + reduced + gathered != before);
  }
}

void executor_ring(ChannelSet& channels, CpuExecution& execution, const LoweredPlan& plan, const Bindings& bindings) {
  execution.start(plan, bindings);
  Patience patience;
  for (;;) {
    const Progress progress = execution.advance(channels);
    if (progress == Progress::done) return;
    patience.tick(execution.moved());
    if (progress == Progress::failed) {
      std::fprintf(stderr, "micro_executor: %s\n", execution.status().to_string().c_str());
      std::exit(1);
    }
  }
}

struct Summary {
  double median, low, high;  // with a 95 % interval of the median by order statistics
};
Summary summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const auto at = [&](double rank) { return values[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))]; };
  const double half = 0.98 * std::sqrt(n);
  return {at(n / 2), at(n / 2 - half), at(n / 2 + half)};
}

class Pair {
 public:
  explicit Pair(std::uint64_t bytes) : chunks_(even_chunks(bytes / sizeof(float), sizeof(float), 2)) {
    for (int r = 0; r < 2; ++r) {
      plans_.push_back(ring_plan(r, 2));
      in_.emplace_back(bytes / sizeof(float), 1.0F);
      out_.emplace_back(bytes / sizeof(float), 0.0F);
      scratch_.emplace_back(kStreams * kSlice);
    }
  }
  /// Rounds of both rings in turn; nanoseconds of each, by the slower rank.
  void run(int rounds, std::vector<double>& hand, std::vector<double>& executor) {
    std::vector<std::vector<double>> times(4, std::vector<double>(static_cast<std::size_t>(rounds)));
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        cpu_set_t core;
        CPU_ZERO(&core);
        CPU_SET(static_cast<unsigned>(r), &core);
        pthread_setaffinity_np(pthread_self(), sizeof core, &core);
        const auto rank = static_cast<std::size_t>(r);
        ChannelSet& channels = *world_.channels[rank];
        Bindings bindings = bind(chunks_, in_[rank].data(), out_[rank].data(), scratch_[rank].data());
        EdgeTable edges;
        bindings.edges = &edges;
        CpuExecution execution;
        for (int round = 0; round < rounds; ++round)
          for (const bool by_hand : {round % 2 == 0, round % 2 != 0}) {
            meet();
            const std::int64_t start = monotonic_ns();
            if (by_hand)
              hand_ring(channels, bindings);
            else
              executor_ring(channels, execution, plans_[rank], bindings);
            times[rank * 2 + (by_hand ? 0 : 1)][static_cast<std::size_t>(round)] =
                static_cast<double>(monotonic_ns() - start);
          }
      });
    for (std::thread& thread : threads) thread.join();
    for (int round = rounds / 5; round < rounds; ++round) {  // the first fifth warms up
      const auto i = static_cast<std::size_t>(round);
      hand.push_back(std::max(times[0][i], times[2][i]));
      executor.push_back(std::max(times[1][i], times[3][i]));
    }
    for (const auto& out : out_)
      for (const float value : out)
        if (value != 2.0F) {
          std::fprintf(stderr, "micro_executor: wrong result\n");
          std::exit(1);
        }
  }

 private:
  void meet() {
    const int turn = turn_.load();
    if (arrived_.fetch_add(1) == 1) {
      arrived_.store(0);
      turn_.store(turn + 1);
    }
    Patience patience;
    while (turn_.load() == turn) patience.tick(false);
  }
  World world_{2};
  std::vector<ChunkRange> chunks_;
  std::vector<LoweredPlan> plans_;
  std::vector<std::vector<float>> in_, out_;
  std::vector<std::vector<std::byte>> scratch_;
  std::atomic<int> arrived_{0}, turn_{0};
};

bool compare_bandwidth() {
  bool good = true;
  std::printf("# ring all_reduce float32 sum, 2 ranks on 2 cores, us per operation, paired\n");
  std::printf("#   bytes        hand    executor   executor/hand [95 %% interval of the median]\n");
  for (const std::uint64_t bytes : {65536U, 262144U, 1048576U, 4194304U, 16777216U}) {
    Pair pair(bytes);
    std::vector<double> hand, executor, ratios;
    const int rounds = bytes >= 4194304 ? 100 : 1000;
    pair.run(rounds, hand, executor);
    for (std::size_t i = 0; i < hand.size(); ++i) ratios.push_back(executor[i] / hand[i]);
    const Summary ratio = summarize(ratios);
    const bool ok = ratio.low <= kGateRatio;
    good = good && ok;
    std::printf("%9llu  %10.2f  %10.2f   %.3f [%.3f, %.3f]%s\n", static_cast<unsigned long long>(bytes),
                summarize(hand).median / 1e3, summarize(executor).median / 1e3, ratio.median, ratio.low, ratio.high,
                ok ? "" : "  MISSED (1.03)");
  }
  return good;
}

/// Nanoseconds per step that the executor takes above the hand-written loops. Blocks alternate.
template <class Hand, class Executor>
Summary extra_per_step(std::size_t steps, Hand by_hand, Executor by_executor) {
  constexpr int kBlocks = 60;
  constexpr int kPerBlock = 200;
  by_executor();  // lanes and channels come into being here
  by_hand();
  std::vector<double> extra;
  for (int block = 0; block < kBlocks; ++block) {
    double ns[2];
    for (const int kind : {block % 2, 1 - block % 2}) {
      const std::int64_t start = monotonic_ns();
      for (int i = 0; i < kPerBlock; ++i) kind == 0 ? by_hand() : by_executor();
      ns[kind] = static_cast<double>(monotonic_ns() - start) / kPerBlock;
    }
    extra.push_back((ns[1] - ns[0]) / static_cast<double>(steps));
  }
  return summarize(extra);
}

/// One thread plays both ranks, so nothing ever waits: eight slices of one line go from rank 0 to rank 1 (as many as
/// the line ring holds), a step each at either end. What is left is instructions.
bool compare_steps() {
  constexpr std::uint32_t kSlices = 8;
  World world(2);
  const ChunkRange chunk{0, kSlices * 64};
  std::vector<std::byte> in(kSlices * 64, std::byte{1}), out(kSlices * 64);
  std::vector<LoweredPlan> plans;
  std::vector<CpuExecution> executions(2);
  std::vector<EdgeTable> edges(2);
  for (int r = 0; r < 2; ++r) {
    const Placement placement{r, 2, {}};
    BuildRequest request;
    request.placement = &placement;
    LowerOptions options;
    options.reducing = false;
    plans.push_back(must(lower(must(find_algorithm(TUTTI_BROADCAST, "chain")->build(request)), options)));
  }
  std::size_t steps = 0;
  for (const LoweredPlan& plan : plans) steps += plan.lanes[0].size() * kSlices;
  const auto by_executor = [&] {
    for (std::size_t r = 0; r < 2; ++r) {
      Bindings b;
      b.input = in.data();
      b.output = out.data();
      b.input_chunks = b.output_chunks = &chunk;
      b.slice = 64;
      b.slices = kSlices;
      b.fingerprint = kFingerprint;
      b.epoch_bits = kEpoch;
      b.fifo_bytes = kFifo;
      b.edges = &edges[r];
      executions[r].start(plans[r], b);
      if (executions[r].advance(*world.channels[r]) != Progress::done) std::abort();
    }
  };
  const auto by_hand = [&] {
    if (in.data() != out.data()) std::memcpy(out.data(), in.data(), in.size());  // rank 0 copies its input, too
    SendChannel* channel = world.channels[0]->send(1, 15);
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      std::memcpy(channel->reserve(64, kFifo), in.data() + slice * 64, 64);
      channel->commit(64, kFingerprint, kEpoch);
    }
    ReceiveChannel* source = world.channels[1]->receive(0, 15);
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      if (!source->ready(kEpoch) || source->fingerprint() != kFingerprint) std::abort();
      std::memcpy(out.data() + slice * 64, source->data(64), 64);
      source->release(64);
    }
  };
  const Summary summary = extra_per_step(steps, by_hand, by_executor);
  const bool ok = summary.low <= kGateStepNs;
  std::printf(
      "# executor over hand-written loops: %.1f ns per step and slice [%.1f, %.1f], starting the operation "
      "included%s\n",
      summary.median, summary.low, summary.high, ok ? "" : "  MISSED (10 ns)");
  return ok;
}

}  // namespace
}  // namespace tutti::core

int main(int argc, char** argv) {
  const bool gate = argc == 2 && std::string(argv[1]) == "--gate";
  if (argc > 1 && !gate) {
    std::fprintf(stderr, "usage: micro_executor [--gate]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool steps = tutti::core::compare_steps();
  const bool bandwidth = tutti::core::compare_bandwidth();
  return gate && !(steps && bandwidth) ? 1 : 0;
}
