// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/collective_run.h"

#include <algorithm>
#include <cstring>

#include "src/base/random.h"
#include "src/base/types.h"
#include "src/plan/contract.h"

namespace tutti::core {

namespace {

std::uint64_t next_fingerprint() {
  static std::uint64_t last = 0;
  return ++last;
}

template <class T>
void store_as(std::byte* place, double value) {
  const T element = static_cast<T>(value);
  std::memcpy(place, &element, sizeof element);
}

template <class T>
double load_as(const std::byte* place) {
  T element;
  std::memcpy(&element, place, sizeof element);
  return static_cast<double>(element);
}

/// What a rank gives and gets, in elements of the collective's whole extent.
struct Extent {
  std::uint64_t begin = 0, count = 0;
};

std::uint64_t whole_count(const Algorithm& row, const RunOptions& options, int ranks) {
  return has_blocks(row.what) ? options.count * static_cast<std::uint64_t>(ranks) : options.count;
}

/// One block or all; nothing where the collective gives this rank no such buffer.
template <class Has>
Extent extent_of(const Algorithm& row, const RunOptions& options, int rank, int ranks, Has has) {
  const auto own = static_cast<std::uint32_t>(rank), other = static_cast<std::uint32_t>((rank + 1) % ranks);
  if (!has_blocks(row.what)) return {0, has(0u) ? options.count : 0};
  if (has(own) && has(other)) return {0, whole_count(row, options, ranks)};
  return has(own) ? Extent{options.count * own, options.count} : Extent{};
}

Extent input_extent(const Algorithm& row, const RunOptions& options, int rank, int ranks) {
  const Contract contract(row.what, ranks, options.root, static_cast<std::uint32_t>(ranks));
  return extent_of(row, options, rank, ranks, [&](std::uint32_t chunk) { return contract.has_input(rank, chunk); });
}

Extent output_extent(const Algorithm& row, const RunOptions& options, int rank, int ranks) {
  const Contract contract(row.what, ranks, options.root, static_cast<std::uint32_t>(ranks));
  return extent_of(row, options, rank, ranks, [&](std::uint32_t chunk) { return contract.has_output(rank, chunk); });
}

/// Buffers of one rank.
struct Memory {
  Buffer first, second, scratch;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
};

Memory make_memory(const Algorithm& row, const RunOptions& options, int rank, int ranks) {
  const std::size_t element = dtype_bytes(options.type);
  const Extent in = input_extent(row, options, rank, ranks), out = output_extent(row, options, rank, ranks);
  const std::size_t in_bytes = in.count * element, out_bytes = out.count * element;
  Memory memory;
  memory.first.resize(std::max({in_bytes, out_bytes, std::size_t{1}}));
  memory.input = memory.first.data();
  // There is no in-place all_to_all: it runs out of place whatever the options say.
  if (options.in_place && row.what != TUTTI_ALL_TO_ALL) {
    memory.output = memory.first.data();
    if (in_bytes > 0 && out_bytes > in_bytes) memory.input += in.begin * element;
    if (out_bytes > 0 && in_bytes > out_bytes) memory.output += out.begin * element;
  } else {
    memory.second.assign(std::max(out_bytes, std::size_t{1}), std::byte{0xee});
    memory.output = memory.second.data();
  }
  for (std::uint64_t i = 0; i < in.count; ++i)
    store_element(memory.input + i * element, options.type, static_cast<double>(input_value(rank, i)));
  return memory;
}

/// The tables of one rank's buffers.
struct Tables {
  std::vector<ChunkRange> input, output;
};

Tables make_tables(const Algorithm& row, const RunOptions& options, const LoweredPlan& plan) {
  const std::uint64_t count = row.what == TUTTI_BARRIER ? 0 : options.count;
  const auto element = static_cast<std::uint32_t>(dtype_bytes(options.type));
  if (!has_blocks(row.what)) {
    const auto chunks = even_chunks(count, element, plan.chunks);
    return {chunks, chunks};
  }
  const auto chunks = block_chunks(count, element, plan.chunks);
  const bool in_alone = input_extent(row, options, plan.rank, plan.ranks).count <= options.count;
  const bool out_alone = output_extent(row, options, plan.rank, plan.ranks).count <= options.count;
  return {in_alone ? one_of(chunks) : chunks, out_alone ? one_of(chunks) : chunks};
}

Bindings make_bindings(const Algorithm& row, const RunOptions& options, const LoweredPlan& plan, const Tables& tables) {
  Bindings bindings;
  bindings.input_chunks = tables.input.data();
  bindings.output_chunks = tables.output.data();
  bindings.slice = options.slice;
  bindings.slices = std::max<std::uint64_t>(1, (longest_chunk(tables.output) + options.slice - 1) / options.slice);
  // As call_table.cc shares out the lanes: by the row's figure, alike on all ranks.
  const auto most = static_cast<std::uint32_t>(kMaxLanes / row.needs.lanes);
  bindings.streams =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(std::min(options.streams, most), bindings.slices));
  bindings.element = static_cast<std::uint32_t>(dtype_bytes(options.type));
  if (is_reduction(row.what)) bindings.kernel = find_reduce_kernel(options.type, options.op);
  if (is_reduction(row.what) && options.op == TUTTI_AVG) {
    if (is_float(options.type))
      bindings.scale = 1.0 / plan.ranks;
    else
      bindings.divisor = static_cast<std::uint64_t>(plan.ranks);
  }
  bindings.epoch_bits = kTestEpoch;
  // Messages that a row keeps unconsumed, one that a forwarding rank holds, and a gap where the FIFO wraps.
  bindings.fifo_bytes = (static_cast<std::size_t>(std::max(row.needs.credits, 2)) + 2) * (options.slice + kLineStride);
  return bindings;
}

Result<LoweredPlan> make_plan(const Algorithm& row, const RunOptions& options, int rank, int ranks) {
  const Placement placement{rank, ranks, {}};
  BuildRequest request;
  request.placement = &placement;
  request.root = options.root;
  TUTTI_TRY(schedule, row.build(request));
  LowerOptions lowering = lower_options(row.what, row.needs.credits);
  lowering.fuse = options.fuse;
  return lower(schedule, lowering);
}

/// Element `index` of a reduction over all ranks.
double reduced_value(const RunOptions& options, std::uint64_t index, int ranks) {
  std::int64_t value = input_value(0, index);
  for (int r = 1; r < ranks; ++r) {
    const std::int64_t other = input_value(r, index);
    switch (options.op) {
      case TUTTI_MIN: value = std::min(value, other); break;
      case TUTTI_MAX: value = std::max(value, other); break;
      case TUTTI_PROD: value *= other; break;
      default: value += other;
    }
  }
  if (options.op == TUTTI_AVG && !is_float(options.type)) value /= ranks;
  return static_cast<double>(value) / (options.op == TUTTI_AVG && is_float(options.type) ? ranks : 1);
}

}  // namespace

std::int64_t input_value(int rank, std::uint64_t index) {
  return static_cast<std::int64_t>(mix64(index * 131 + static_cast<std::uint64_t>(rank)) % 13) + rank % 3;
}

void store_element(std::byte* place, tutti_dtype type, double value) {
  switch (type) {
    case TUTTI_INT8: return store_as<std::int8_t>(place, value);
    case TUTTI_INT32: return store_as<std::int32_t>(place, value);
    case TUTTI_UINT64: return store_as<std::uint64_t>(place, value);
    case TUTTI_FLOAT32: return store_as<float>(place, value);
    case TUTTI_FLOAT64: return store_as<double>(place, value);
    default: FAIL() << "no such type in these tests";
  }
}

double load_element(const std::byte* place, tutti_dtype type) {
  switch (type) {
    case TUTTI_INT8: return load_as<std::int8_t>(place);
    case TUTTI_INT32: return load_as<std::int32_t>(place);
    case TUTTI_UINT64: return load_as<std::uint64_t>(place);
    case TUTTI_FLOAT32: return load_as<float>(place);
    case TUTTI_FLOAT64: return load_as<double>(place);
    default: ADD_FAILURE() << "no such type in these tests"; return 0;
  }
}

std::string drive_all(World& world, std::vector<CpuExecution>& executions, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::size_t> running(executions.size());
  for (std::size_t r = 0; r < running.size(); ++r) running[r] = r;
  while (!running.empty()) {
    if (seed) std::shuffle(running.begin(), running.end(), random);
    // Some ranks come more often than others.
    const std::size_t turns = seed ? 1 + random.below(running.size()) : running.size();
    bool moved = false;
    for (std::size_t i = 0; i < running.size() && (i < turns || !moved);) {
      CpuExecution& execution = executions[running[i]];
      const Progress progress = execution.advance(world.channels(static_cast<int>(running[i])));
      moved |= execution.moved();
      if (progress == Progress::failed)
        return "rank " + std::to_string(running[i]) + ": " + execution.status().to_string();
      if (progress == Progress::done) {
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        moved = true;
      } else {
        ++i;
      }
    }
    if (moved) continue;
    std::string text = "nobody moves:";
    for (const std::size_t r : running)
      text += " rank " + std::to_string(r) + " waits for rank " + std::to_string(executions[r].waiting_on()) +
              (executions[r].waiting_for_message() ? "'s message" : "'s credit") + " at step " +
              std::to_string(executions[r].waiting_step()) + ";";
    return text;
  }
  return "";
}

Outcome run_row(World& world, const Algorithm& row, const RunOptions& options) {
  const int ranks = world.ranks();
  const auto size = static_cast<std::size_t>(ranks);
  const std::uint64_t fingerprint = next_fingerprint();
  const auto element = static_cast<std::uint32_t>(dtype_bytes(options.type));
  std::vector<Memory> memories;
  std::vector<LoweredPlan> plans;
  std::vector<Tables> tables;
  std::vector<CpuExecution> executions(size);
  Outcome outcome;
  for (int r = 0; r < ranks; ++r) {
    memories.push_back(make_memory(row, options, r, ranks));
    auto plan = make_plan(row, options, r, ranks);
    if (!plan.is_ok()) return {plan.status().to_string(), {}};
    plans.push_back(std::move(*plan));
    tables.push_back(make_tables(row, options, plans.back()));
  }
  for (std::size_t r = 0; r < size; ++r) {
    Bindings bindings = make_bindings(row, options, plans[r], tables[r]);
    memories[r].scratch.assign(bindings.streams * plans[r].scratch_chunks * bindings.slice, std::byte{0xdd});
    bindings.input = memories[r].input;
    bindings.output = memories[r].output;
    bindings.scratch = memories[r].scratch.data();
    bindings.fingerprint = fingerprint;
    executions[r].start(plans[r], bindings);
  }
  outcome.problem = drive_all(world, executions, options.seed);
  for (int r = 0; r < ranks; ++r) {
    const std::byte* output = memories[static_cast<std::size_t>(r)].output;
    outcome.outputs.emplace_back(output, output + output_extent(row, options, r, ranks).count * element);
  }
  return outcome;
}

std::vector<double> expected_output(const Algorithm& row, const RunOptions& options, int rank, int ranks) {
  std::vector<double> values;
  const Extent out = output_extent(row, options, rank, ranks);
  for (std::uint64_t i = out.begin; i < out.begin + out.count; ++i) {
    const auto block = static_cast<int>(has_blocks(row.what) ? i / options.count : 0);
    const std::uint64_t in_block = i % options.count;
    switch (row.what) {
      case TUTTI_BROADCAST:
      case TUTTI_SCATTER: values.push_back(static_cast<double>(input_value(options.root, i))); break;
      case TUTTI_ALL_GATHER:
      case TUTTI_GATHER: values.push_back(static_cast<double>(input_value(block, in_block))); break;
      case TUTTI_ALL_TO_ALL:
        values.push_back(
            static_cast<double>(input_value(block, options.count * static_cast<std::uint64_t>(rank) + in_block)));
        break;
      default: values.push_back(reduced_value(options, i, ranks));
    }
  }
  return values;
}

}  // namespace tutti::core
