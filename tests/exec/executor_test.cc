// SPDX-License-Identifier: Apache-2.0
// Every row, executed: against exact expectations, against its unfused self, and in many interleavings.
#include "src/exec/executor.h"

#include <cmath>
#include <cstring>
#include <map>

#include "src/base/random.h"
#include "tests/exec/collective_run.h"

namespace tutti::core {
namespace {

constexpr int kMostRanks = 9;

/// One world per number of ranks, kept over all operations: what one leaves behind meets the next.
World& world_of(int ranks) {
  static std::map<int, std::unique_ptr<World>> worlds;
  auto& world = worlds[ranks];
  if (!world) world = std::make_unique<World>(ranks);
  return *world;
}

std::string describe(const Algorithm& row, const RunOptions& options, int ranks) {
  return std::string(collective_name(row.what)) + " " + std::string(row.name) + " ranks " + std::to_string(ranks) +
         " " + std::string(dtype_name(options.type)) + " x " + std::to_string(options.count) + " " +
         std::string(op_name(options.op)) + " root " + std::to_string(options.root) + " slice " +
         std::to_string(options.slice) + " streams " + std::to_string(options.streams) + " fuse " +
         std::to_string(options.fuse) + " in_place " + std::to_string(options.in_place) + " seed " +
         std::to_string(options.seed);
}

void expect_exact(const Algorithm& row, const RunOptions& options, int ranks) {
  const std::string what = describe(row, options, ranks);
  const Outcome outcome = run_row(world_of(ranks), row, options);
  ASSERT_EQ(outcome.problem, "") << what;
  if (row.what == TUTTI_BARRIER) return;
  const std::size_t element = dtype_bytes(options.type);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<double> expected = expected_output(row, options, r, ranks);
    const Buffer& got = outcome.outputs[static_cast<std::size_t>(r)];
    ASSERT_EQ(got.size(), expected.size() * element);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(load_element(got.data() + i * element, options.type), expected[i])
          << what << ", rank " << r << " element " << i;
  }
}

template <class Body>
void for_rows_and_ranks(Body body) {
  for (const Algorithm& row : algorithms())
    for (int ranks = 1; ranks <= kMostRanks; ++ranks)
      if (admits(row, ranks)) {
        body(row, ranks);
        if (::testing::Test::HasFatalFailure()) return;
      }
}

TEST(Executor, every_row_gives_exact_integers_at_every_shape) {
  std::uint64_t seed = 1;
  for_rows_and_ranks([&](const Algorithm& row, int ranks) {
    for (const std::uint64_t count : std::initializer_list<std::uint64_t>{1, 7, 16, 100, 1000, 5000})
      for (const bool in_place : {false, true}) {
        RunOptions options;
        options.count = count;
        options.in_place = in_place;
        options.seed = ++seed % 3 == 0 ? 0 : seed;
        options.root = static_cast<int>(seed) % ranks;
        options.slice = std::uint64_t{64} << (seed % 9);  // 64 bytes to 16 KiB: line, small ring and FIFO
        options.streams = 1 + static_cast<std::uint32_t>(seed % 4);
        options.fuse = seed % 5 != 0;
        ASSERT_NO_FATAL_FAILURE(expect_exact(row, options, ranks));
      }
  });
}

TEST(Executor, fused_and_unfused_plans_give_equal_bits) {
  for_rows_and_ranks([](const Algorithm& row, int ranks) {
    for (const tutti_dtype type : {TUTTI_INT8, TUTTI_UINT64})
      for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG}) {
        if (!is_reduction(row.what) && op != TUTTI_SUM) continue;
        RunOptions options{.type = type, .op = op, .root = ranks - 1, .count = 700, .slice = 512, .streams = 2};
        const Outcome fused = run_row(world_of(ranks), row, options);
        options.fuse = false;
        const Outcome plain = run_row(world_of(ranks), row, options);
        ASSERT_EQ(fused.problem + plain.problem, "") << describe(row, options, ranks);
        ASSERT_EQ(fused.outputs, plain.outputs) << describe(row, options, ranks);
      }
  });
}

TEST(Executor, floats_are_the_same_bits_on_all_ranks_and_right) {
  for_rows_and_ranks([](const Algorithm& row, int ranks) {
    if (row.what != TUTTI_ALL_REDUCE) return;
    for (const tutti_op op : {TUTTI_SUM, TUTTI_AVG}) {
      RunOptions options{.type = TUTTI_FLOAT32, .op = op, .count = 3000, .slice = 1024, .streams = 2, .seed = 5};
      const Outcome outcome = run_row(world_of(ranks), row, options);
      ASSERT_EQ(outcome.problem, "") << describe(row, options, ranks);
      for (const Buffer& output : outcome.outputs)
        ASSERT_EQ(output, outcome.outputs.front()) << describe(row, options, ranks);
      const std::vector<double> expected = expected_output(row, options, 0, ranks);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(load_element(outcome.outputs[0].data() + i * 4, TUTTI_FLOAT32), expected[i],
                    1e-6 * ranks * (1 + expected[i]))
            << describe(row, options, ranks);
    }
  });
}

// Scaled twice or never, divided twice or never: both would show, for in place and out of place alike.
TEST(Executor, averages_scale_and_divide_once) {
  std::uint64_t seed = 1;
  for_rows_and_ranks([&](const Algorithm& row, int ranks) {
    if (!is_reduction(row.what)) return;
    for (const bool fuse : {true, false})
      for (const bool in_place : {true, false}) {
        RunOptions options{.op = TUTTI_AVG, .count = 333, .slice = 256, .streams = 3, .fuse = fuse};
        options.in_place = in_place;
        options.seed = ++seed;
        ASSERT_NO_FATAL_FAILURE(expect_exact(row, options, ranks));
        if ((ranks & (ranks - 1)) != 0) continue;
        options.type = TUTTI_FLOAT64;  // a power of two scales without rounding
        ASSERT_NO_FATAL_FAILURE(expect_exact(row, options, ranks));
      }
  });
}

TEST(Executor, random_interleavings_give_equal_results) {
  for_rows_and_ranks([](const Algorithm& row, int ranks) {
    if (ranks != 3 && ranks != 5 && ranks != 8) return;
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
      RunOptions options{.root = static_cast<int>(seed) % ranks, .count = 1500, .slice = 512, .streams = 3};
      options.in_place = seed % 2 == 0;
      options.seed = seed;
      ASSERT_NO_FATAL_FAILURE(expect_exact(row, options, ranks));
    }
  });
}

// Slices of growing and shrinking size over the same mailboxes: forwarding ranks hold one message and need room for
// another, whatever FIFO an earlier operation left.
TEST(Executor, operations_of_changing_slice_size_do_not_get_stuck) {
  for_rows_and_ranks([](const Algorithm& row, int ranks) {
    if (ranks != 4 && ranks != 5) return;
    for (const std::uint64_t slice : std::initializer_list<std::uint64_t>{6144, 20480, 4096, 64, 65536, 6144, 131072}) {
      RunOptions options{.count = 60000, .slice = slice};
      ASSERT_NO_FATAL_FAILURE(expect_exact(row, options, ranks));
    }
  });
}

TEST(Executor, another_operation_s_message_is_a_mismatch_that_names_its_sender) {
  World world(2);
  Schedule schedule;
  schedule.ranks = 2;
  schedule.steps = {{StepOp::recv, 0, 0, 1, Slot::of(Space::input, 0), Slot::of(Space::output, 0)}};
  const LoweredPlan receive = std::move(lower(schedule, {.reducing = false})).value();
  schedule.rank = 1;
  schedule.steps = {{StepOp::send, 0, 0, 0, Slot::of(Space::input, 0), Slot::of(Space::output, 0)}};
  const LoweredPlan send = std::move(lower(schedule, {.reducing = false})).value();
  std::int32_t in = 5, out = 0;
  const ChunkRange chunk{0, 4};
  Bindings bindings;
  bindings.input = reinterpret_cast<std::byte*>(&in);
  bindings.output = reinterpret_cast<std::byte*>(&out);
  bindings.input_chunks = bindings.output_chunks = &chunk;
  bindings.slice = 64;
  bindings.epoch_bits = kTestEpoch;
  bindings.fingerprint = 1;
  CpuExecution sender, receiver;
  sender.start(send, bindings);
  EXPECT_EQ(sender.advance(world.channels(1)), Progress::done);
  bindings.fingerprint = 2;
  receiver.start(receive, bindings);
  EXPECT_EQ(receiver.waiting_on(), -1);
  EXPECT_EQ(receiver.advance(world.channels(0)), Progress::failed);
  EXPECT_EQ(receiver.status().code(), TUTTI_MISMATCH);
  EXPECT_EQ(receiver.status().failing_rank(), 1);
  EXPECT_EQ(receiver.mismatching_peer(), 1);
  EXPECT_EQ(out, 0);
}

TEST(Chunks, are_cut_at_lines_and_cover_everything) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto chunks = static_cast<std::uint32_t>(1 + random.below(70));
    const auto element = static_cast<std::uint32_t>(std::uint64_t{1} << random.below(4));
    const std::uint64_t count = random.below(std::uint64_t{1} << random.below(59));
    const auto ranges = even_chunks(count, element, chunks);
    ASSERT_EQ(ranges.size(), chunks);
    const std::uint64_t share = count * element / chunks;
    std::uint64_t end = 0;
    for (const ChunkRange& range : ranges) {
      ASSERT_EQ(range.offset, end);
      if (range.offset != count * element) {
        ASSERT_EQ(range.offset % 64, 0u);
      }
      ASSERT_LE(range.bytes, share + 128) << "even but for the rounding to lines";
      end += range.bytes;
    }
    EXPECT_EQ(end, count * element);
    const std::uint64_t block = count / chunks * element;
    const auto blocks = block_chunks(count / chunks, element, chunks);
    for (std::uint32_t c = 0; c < chunks; ++c) ASSERT_EQ(blocks[c], (ChunkRange{c * block, block}));
    for (const ChunkRange& range : one_of(blocks)) ASSERT_EQ(range, (ChunkRange{0, block}));
    EXPECT_EQ(longest_chunk(blocks), block);
  }
}

}  // namespace
}  // namespace tutti::core
