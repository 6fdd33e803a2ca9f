// SPDX-License-Identifier: Apache-2.0
// From the arguments of a call to everything that does not change between its executions.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/base/random.h"
#include "src/comm/communicator.h"

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

Status Communicator::fill_entry(CallEntry& entry, const Call& call) {
  const auto element = static_cast<std::uint32_t>(dtype_bytes(call.type));
  const bool blocks = call.what == TUTTI_ALL_GATHER || call.what == TUTTI_REDUCE_SCATTER;
  entry.bytes =
      call.what == TUTTI_BARRIER ? 0 : call.count * element * (blocks ? static_cast<std::uint64_t>(ranks()) : 1);
  const std::string_view forced = call.algorithm.empty() ? config_.forced_algorithm(call.what) : call.algorithm;
  TUTTI_TRY(row, selector_.choose(call.what, entry.bytes, forced));
  TUTTI_TRY(plan, plans_.get(*row, call.what == TUTTI_BROADCAST ? call.peer : -1));
  const LoweredPlan& lowered = plan->lowered;
  entry.begin = blocks ? block_chunks(call.count, element, lowered.chunks)
                       : even_chunks(call.what == TUTTI_BARRIER ? 0 : call.count, element, lowered.chunks);

  std::uint64_t longest = 0;
  for (std::uint32_t c = 0; c < lowered.chunks; ++c) longest = std::max(longest, entry.begin[c + 1] - entry.begin[c]);
  Bindings& bindings = entry.bindings;
  bindings = {};
  bindings.begin = entry.begin.data();
  entry.edges = {};
  bindings.edges = &entry.edges;
  if (blocks) {
    const std::uint64_t shift = entry.begin[static_cast<std::size_t>(rank_)];
    (call.what == TUTTI_ALL_GATHER ? bindings.input_shift : bindings.output_shift) = shift;
  }
  bindings.slice = std::clamp<std::uint64_t>((longest + 63) / 64 * 64, 64, config_.slice_bytes() / 64 * 64);
  bindings.slices =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (longest + bindings.slice - 1) / bindings.slice));
  const auto lanes = static_cast<std::uint32_t>(lowered.lanes.size());
  bindings.streams = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(config_.lanes()), 1, kMaxLanes / lanes);
  bindings.streams = std::min(bindings.streams, bindings.slices);
  bindings.element = element;
  bindings.epoch_bits = epoch_bits_;
  // A forwarding rank holds one slice while it fills the next: four give both ends one in hand and one in flight.
  bindings.fifo_bytes = std::max<std::size_t>(config_.fifo_bytes(), 4 * (bindings.slice + kLineStride));
  if (is_reduction(call.what)) {
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
  }
  TUTTI_TRY(ensure_scratch(std::size_t{bindings.streams} * lowered.scratch_chunks * bindings.slice));

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
  entry.plan = plan;
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
