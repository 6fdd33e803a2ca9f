// SPDX-License-Identifier: Apache-2.0
// Schedules with several lanes and `wait`, written by hand: no row of the registry has them yet.
#include <cstring>
#include <functional>

#include "src/plan/builder.h"
#include "tests/exec/collective_run.h"

namespace tutti::core {
namespace {

constexpr std::uint64_t kCount = 1024;  // halves are whole lines

/// Ranks with int32 buffers of `kCount` elements and a schedule each.
class Lanes : public ::testing::Test {
 protected:
  using Write = std::function<void(ScheduleBuilder&, int rank)>;

  void run(int ranks, ScheduleBuilder::Shape shape, bool reducing, const Write& write) {
    World world(ranks);
    const auto size = static_cast<std::size_t>(ranks);
    std::vector<LoweredPlan> plans;
    std::vector<std::vector<std::int32_t>> scratch(size);
    inputs.assign(size, {});
    outputs.assign(size, std::vector<std::int32_t>(kCount, -1));
    const auto chunks = even_chunks(kCount, 4, shape.chunks);
    std::vector<CpuExecution> executions(size);
    for (int r = 0; r < ranks; ++r) {
      const Placement placement{r, ranks, {}};
      BuildRequest request;
      request.placement = &placement;
      ScheduleBuilder steps(request, shape);
      write(steps, r);
      auto schedule = steps.finish();
      ASSERT_TRUE(schedule.is_ok()) << schedule.status().to_string();
      plans.push_back(std::move(lower(*schedule, {.reducing = reducing, .fuse = fuse})).value());
      for (std::uint64_t i = 0; i < kCount; ++i)
        inputs[static_cast<std::size_t>(r)].push_back(static_cast<std::int32_t>(input_value(r, i)));
    }
    for (std::size_t r = 0; r < size; ++r) {
      Bindings bindings;
      bindings.input_chunks = bindings.output_chunks = chunks.data();
      bindings.slice = 256;
      bindings.slices = (longest_chunk(chunks) + 255) / 256;
      bindings.streams = streams;
      bindings.element = 4;
      bindings.kernel = reducing ? find_reduce_kernel(TUTTI_INT32, TUTTI_SUM) : nullptr;
      bindings.fingerprint = 1;
      bindings.epoch_bits = kTestEpoch;
      bindings.fifo_bytes = 4096;
      bindings.input = reinterpret_cast<std::byte*>(inputs[r].data());
      bindings.output = reinterpret_cast<std::byte*>(outputs[r].data());
      scratch[r].assign(streams * shape.scratch_chunks * 64, -7);
      bindings.scratch = reinterpret_cast<std::byte*>(scratch[r].data());
      executions[r].start(plans[r], bindings);
    }
    ASSERT_EQ(drive_all(world, executions, seed), "");
  }

  std::uint32_t streams = 1;
  std::uint64_t seed = 0;
  bool fuse = true;
  std::vector<std::vector<std::int32_t>> inputs, outputs;
};

// Lane 1 hands on what lane 0 received. In the next slice it must wait again.
TEST_F(Lanes, a_wait_holds_in_every_slice) {
  for (streams = 1; streams <= 3; ++streams)
    for (seed = 0; seed <= 20; ++seed) {
      run(2, {.chunks = 1, .scratch_chunks = 1}, false, [](ScheduleBuilder& steps, int rank) {
        steps.send(1 - rank, input(0), scratch(0)).recv(1 - rank, input(0), scratch(0));
        steps.on_lane(1).wait(0, 1).copy(scratch(0), output(0));
      });
      if (HasFatalFailure()) return;
      ASSERT_EQ(outputs[0], inputs[1]) << "streams " << streams << " seed " << seed;
      ASSERT_EQ(outputs[1], inputs[0]) << "streams " << streams << " seed " << seed;
    }
}

// Every lane receives from one peer; the last one adds them up when all have come.
TEST_F(Lanes, lanes_that_fan_in) {
  constexpr int kRanks = 4;
  for (streams = 1; streams <= 2; ++streams)
    for (seed = 0; seed <= 20; ++seed) {
      run(kRanks, {.chunks = 1, .scratch_chunks = kRanks}, true, [](ScheduleBuilder& steps, int rank) {
        for (int hop = 1; hop < kRanks; ++hop) {
          const int to = (rank + hop) % kRanks, from = (rank + kRanks - hop) % kRanks;
          steps.on_lane(static_cast<std::uint8_t>(hop - 1));
          steps.send(to, input(0), scratch(static_cast<std::uint32_t>(rank)));
          steps.recv(from, input(0), scratch(static_cast<std::uint32_t>(from)));
        }
        steps.on_lane(kRanks - 1);
        for (std::uint8_t lane = 0; lane < kRanks - 1; ++lane) steps.wait(lane, 1);
        steps.copy(input(0), output(0));
        for (int r = 0; r < kRanks; ++r)
          if (r != rank) steps.reduce(scratch(static_cast<std::uint32_t>(r)), output(0));
      });
      if (HasFatalFailure()) return;
      for (std::uint64_t i = 0; i < kCount; ++i) {
        std::int32_t sum = 0;
        for (const auto& in : inputs) sum += in[i];
        for (const auto& out : outputs) ASSERT_EQ(out[i], sum) << "element " << i << " seed " << seed;
      }
    }
}

// Two messages of one edge in one reduction are two operands, not one message read twice.
TEST_F(Lanes, two_messages_of_one_edge_are_both_added) {
  for (const bool fused : {false, true}) {
    fuse = fused;
    run(2, {.chunks = 2, .scratch_chunks = 1}, true, [](ScheduleBuilder& steps, int rank) {
      if (rank == 0) {
        steps.send(1, input(0), output(0)).send(1, input(1), scratch(0));
      } else {
        steps.recv(0, input(0), output(0)).recv(0, input(1), scratch(0)).reduce(scratch(0), output(0));
      }
    });
    if (HasFatalFailure()) return;
    const std::uint64_t half = even_chunks(kCount, 4, 2)[1].offset / 4;
    for (std::uint64_t i = 0; i + half < kCount; ++i)
      ASSERT_EQ(outputs[1][i], inputs[0][i] + inputs[0][half + i]) << "element " << i << " fuse " << fused;
  }
}

}  // namespace
}  // namespace tutti::core
