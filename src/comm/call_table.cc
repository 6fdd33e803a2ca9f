// SPDX-License-Identifier: Apache-2.0
// From the arguments of a call to everything that does not change between its executions.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/base/random.h"
#include "src/comm/communicator.h"
#include "src/plan/contract.h"

namespace tutti::core {

Result<CallEntry*> Communicator::find_entry(const Call& call) {
  const std::uint64_t hash = (static_cast<std::uint64_t>(call.what) * 31 + static_cast<std::uint64_t>(call.type) * 7 +
                              static_cast<std::uint64_t>(call.op)) ^
                             (call.count * 0x9e3779b97f4a7c15ULL >> 40) ^ static_cast<std::uint64_t>(call.peer + 1);
  // Four places for calls of one hash: a training step alternates between dozens of calls, and none of them should have
  // to be worked out again in the next step.
  constexpr std::size_t kWays = 4;
  CallEntry* const set = &entries_[hash % (entries_.size() / kWays) * kWays];
  CallEntry* oldest = set;
  for (CallEntry* entry = set; entry != set + kWays; ++entry) {
    const bool same = entry->what == call.what && entry->type == call.type && entry->op == call.op &&
                      entry->root == call.peer && entry->count == call.count && entry->asked == call.algorithm &&
                      entry->generation == plans_.generation();
    if (same) {
      entry->last_use = ++lookups_;
      return entry;
    }
    if (entry->last_use < oldest->last_use) oldest = entry;
  }
  oldest->what = TUTTI_COLLECTIVE_COUNT;  // not valid until filled
  TUTTI_TRY(fill_entry(*oldest, call));
  oldest->last_use = ++lookups_;
  return oldest;
}

/// Chunks, and how they are sliced.
void Communicator::cut(CallEntry& entry, const Call& call) const {
  const LoweredPlan& plan = entry.plan->lowered;
  const auto element = static_cast<std::uint32_t>(dtype_bytes(call.type));
  const std::uint64_t count = call.what == TUTTI_BARRIER ? 0 : call.count;
  const Contract contract(call.what, ranks(), std::max(call.peer, 0), plan.chunks);
  entry.input_chunks =
      has_blocks(call.what) ? block_chunks(count, element, plan.chunks) : even_chunks(count, element, plan.chunks);
  entry.output_chunks = entry.input_chunks;
  // A buffer of one block begins with it. (A rank without the buffer never asks where its chunks are.)
  const std::uint32_t foreign = rank_ == 0 ? 1 : 0;
  if (has_blocks(call.what) && !contract.has_input(rank_, foreign)) entry.input_chunks = one_of(entry.input_chunks);
  if (has_blocks(call.what) && !contract.has_output(rank_, foreign)) entry.output_chunks = one_of(entry.output_chunks);

  entry.bindings.input_chunks = entry.input_chunks.data();
  entry.bindings.output_chunks = entry.output_chunks.data();
  slice_up(entry.bindings, longest_chunk(entry.output_chunks), *entry.plan);
}

/// Slices and streams for chunks of up to `longest` bytes, and the FIFO that they need.
void Communicator::slice_up(Bindings& bindings, std::uint64_t longest, const Plan& plan) const {
  bindings.slice = std::clamp<std::uint64_t>((longest + 63) / 64 * 64, 64, config_.slice_bytes() / 64 * 64);
  bindings.slices = std::max<std::uint64_t>(1, (longest + bindings.slice - 1) / bindings.slice);
  // Not plan.lanes: a rank may use fewer lanes than its peers, and all must cut alike.
  const auto lanes = static_cast<std::uint32_t>(plan.row->needs.lanes);
  bindings.streams = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(config_.lanes()), 1, kMaxLanes / lanes);
  if (bindings.slices < bindings.streams) bindings.streams = static_cast<std::uint32_t>(bindings.slices);
  // A forwarding rank holds one slice while it fills the next: four give both ends one in hand and one in flight. A row
  // of more credits has so many in flight, one in hand, and a gap where the FIFO wraps.
  const auto slices = static_cast<std::size_t>(std::max(plan.row->needs.credits, 2)) + 2;
  bindings.fifo_bytes = std::max<std::size_t>(config_.fifo_bytes(), slices * (bindings.slice + kLineStride));
}

Status Communicator::bind_kernel(Bindings& bindings, const Call& call) const {
  if (!is_reduction(call.what)) return {};
  bindings.kernel = find_reduce_kernel(call.type, call.op);
  if (!bindings.kernel)
    return Status::error(TUTTI_UNSUPPORTED, std::string(op_name(call.op)) + " of " +
                                                std::string(dtype_name(call.type)) + " is not supported");
  if (call.op == TUTTI_AVG) {
    if (is_float(call.type))
      bindings.scale = 1.0 / ranks();
    else
      bindings.divisor = static_cast<std::uint64_t>(ranks());
  }
  return {};
}

Status Communicator::fill_entry(CallEntry& entry, const Call& call) {
  const std::uint64_t element = dtype_bytes(call.type);
  entry.bytes = call.what == TUTTI_BARRIER
                    ? 0
                    : call.count * element * (has_blocks(call.what) ? static_cast<std::uint64_t>(ranks()) : 1);
  const std::string_view forced = call.algorithm.empty() ? config_.forced_algorithm(call.what) : call.algorithm;
  TUTTI_TRY(row, selector_.choose(call.what, entry.bytes, forced));
  TUTTI_TRY(plan, plans_.get(*row, is_rooted(call.what) ? call.peer : -1));
  entry.plan = plan;
  Bindings& bindings = entry.bindings;
  bindings = {};
  cut(entry, call);
  entry.edges = {};
  bindings.edges = &entry.edges;
  bindings.element = static_cast<std::uint32_t>(element);
  bindings.epoch_bits = epoch_bits_;
  TUTTI_TRY(bind_kernel(bindings, call));
  TUTTI_TRY(ensure_scratch(std::size_t{bindings.streams} * plan->lowered.scratch_chunks * bindings.slice));

  std::uint64_t fingerprint = hash_combine(id_, static_cast<std::uint64_t>(call.what));
  fingerprint =
      hash_combine(fingerprint, static_cast<std::uint64_t>(call.type) | static_cast<std::uint64_t>(call.op) << 8);
  fingerprint = hash_combine(fingerprint, call.count);
  fingerprint = hash_combine(fingerprint, static_cast<std::uint64_t>(call.peer + 1));
  entry.fingerprint = hash_combine(fingerprint, hash_text(row->name));
  std::memset(entry.row, 0, sizeof entry.row);
  row->name.copy(entry.row, sizeof entry.row);
  entry.type = call.type;
  entry.op = call.op;
  entry.root = call.peer;
  entry.count = call.count;
  entry.asked = std::string(call.algorithm);
  entry.call_word = pack_call(call.what, call.type, call.op, call.peer);
  entry.generation = plans_.generation();
  entry.what = call.what;
  return {};
}

/// Grows the scratch space. Only ever while no collective runs.
Status Communicator::ensure_scratch(std::size_t bytes) {
  if (bytes <= scratch_bytes_) return {};
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 4096;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* fresh = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (!fresh)
    return Status::error(TUTTI_UNAVAILABLE, "no memory for " + std::to_string(rounded) + " bytes of scratch space")
        .with_remedy("smaller slice_bytes or fewer lanes need less");
  if (alignment == kHugePage) madvise(fresh, rounded, MADV_HUGEPAGE);
  std::memset(fresh, 0, rounded);  // first touch now, not in an operation
  std::free(scratch_);
  scratch_ = fresh;
  scratch_bytes_ = rounded;
  return {};
}

}  // namespace tutti::core
