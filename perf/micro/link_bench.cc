// SPDX-License-Identifier: Apache-2.0
// What a message over a mapped link costs: a mailbox of the shm transport, alone (one thread plays both ends, nothing
// waits) and between two threads on two cores (half a round trip is the hand-over).
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "src/exec/channels.h"
#include "transports/registry.h"

namespace tutti::core {
namespace {

constexpr std::uint64_t kEpoch = std::uint64_t{1} << 48;
constexpr std::size_t kFifo = std::size_t{1} << 20;

struct Pair {
  Pair() {
    auto made = find_transport("shm")->make();
    if (!made.is_ok()) std::abort();
    endpoint = std::move(*made);
    link = *endpoint->connect(endpoint->address());
    std::vector<PeerEnd> ends;
    for (int r = 0; r < 2; ++r)
      ends.push_back(
          {reinterpret_cast<ControlPage*>(endpoint->allocate(ControlPage::bytes_for(2))->pointer), *link->mapped()});
    for (int r = 0; r < 2; ++r)
      ranks.push_back(std::make_unique<ChannelSet>(*endpoint, link->mapped()->local, r, ends));
  }
  void send(int rank, const std::vector<std::byte>& data) {
    SendChannel* channel = ranks[static_cast<std::size_t>(rank)]->send(1 - rank, 0);
    std::byte* place = nullptr;
    for (int polls = 0; !(place = channel->reserve(data.size(), kFifo)); ++polls)
      if (polls > 1000) sched_yield();
    std::memcpy(place, data.data(), data.size());
    channel->commit(data.size(), 1, kEpoch);
  }
  /// False once `stop` is set.
  bool receive(int rank, std::vector<std::byte>& data, const std::atomic<bool>& stop) {
    ReceiveChannel* channel = nullptr;
    for (int polls = 0;
         !(channel = ranks[static_cast<std::size_t>(rank)]->receive(1 - rank, 0)) || !channel->ready(kEpoch); ++polls) {
      if (stop.load(std::memory_order_relaxed)) return false;
      if (polls > 1000) sched_yield();
    }
    std::memcpy(data.data(), channel->data(data.size()), data.size());
    channel->release(data.size());
    return true;
  }
  std::unique_ptr<Endpoint> endpoint;
  std::shared_ptr<Link> link;
  std::vector<std::unique_ptr<ChannelSet>> ranks;
};

void pin(unsigned core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // where there is one core only, both share it
}

void alone(benchmark::State& state) {
  Pair pair;
  const std::atomic<bool> never{false};
  std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    pair.send(0, data);
    pair.receive(1, data, never);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void round_trip(benchmark::State& state) {
  Pair pair;
  std::atomic<bool> stop{false};
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::thread echo([&] {
    pin(1);
    std::vector<std::byte> data(bytes);
    while (pair.receive(1, data, stop)) pair.send(1, data);
  });
  pin(0);
  std::vector<std::byte> data(bytes);
  for (auto _ : state) {
    pair.send(0, data);
    pair.receive(0, data, stop);
  }
  stop.store(true);
  echo.join();
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2);
}

BENCHMARK(alone)->Arg(8)->Arg(48)->Arg(1024)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK(round_trip)->Arg(8)->Arg(48)->Arg(1024)->Arg(4096)->Arg(65536)->Arg(131072)->UseRealTime();

}  // namespace
}  // namespace tutti::core

BENCHMARK_MAIN();
