// SPDX-License-Identifier: Apache-2.0
// From the arguments of a call to everything that does not change between its executions.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/base/random.h"
#include "src/comm/communicator.h"

namespace tutti::core {

/// The larger buffer of a rank.
std::uint64_t Communicator::bytes_of(const Call& call) const {
  const std::uint64_t bytes = call.count * dtype_bytes(call.type);
  if (call.what == TUTTI_BARRIER) return 0;
  if (call.what == TUTTI_ALL_TO_ALL_V)
    return std::max(bytes, total_count(call.received, ranks()) * dtype_bytes(call.type));
  return has_blocks(call.what) && !is_variable(call.what) ? bytes * static_cast<std::uint64_t>(ranks()) : bytes;
}

Result<CallEntry*> Communicator::find_entry(const Call& call) {
  // The counts of all_to_all_v choose nothing (their sum differs between ranks, and a row by size would, too): one
  // entry serves all of them and is cut anew by every call.
  const std::uint64_t count = call.what == TUTTI_ALL_TO_ALL_V ? 0 : call.count;
  const bool common_counts = is_variable(call.what) && call.what != TUTTI_ALL_TO_ALL_V;
  const std::uint64_t hash = (static_cast<std::uint64_t>(call.what) * 31 + static_cast<std::uint64_t>(call.type) * 7 +
                              static_cast<std::uint64_t>(call.op)) ^
                             (count * 0x9e3779b97f4a7c15ULL >> 40) ^ static_cast<std::uint64_t>(call.peer + 1);
  // Four places for calls of one hash: a training step alternates between dozens of calls, and none of them should have
  // to be worked out again in the next step.
  constexpr std::size_t kWays = 4;
  CallEntry* const set = &entries_[hash % (entries_.size() / kWays) * kWays];
  CallEntry* oldest = set;
  for (CallEntry* entry = set; entry != set + kWays; ++entry) {
    const bool same = entry->what == call.what && entry->type == call.type && entry->op == call.op &&
                      entry->root == call.peer && entry->count == count && entry->asked == call.algorithm &&
                      entry->generation == plans_.generation() && (!common_counts || cut_alike(*entry, call));
    if (same) {
      if (call.what == TUTTI_ALL_TO_ALL_V) {
        entry->bytes = bytes_of(call);
        cut(*entry, call);
      }
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

/// Every chunk as long as the others, but for the rounding to lines.
void Communicator::cut_evenly(CallEntry& entry, const Call& call) const {
  const std::uint32_t chunks = entry.plan->lowered.chunks;
  const auto element = static_cast<std::uint32_t>(dtype_bytes(call.type));
  const std::uint64_t count = call.what == TUTTI_BARRIER ? 0 : call.count;
  entry.input_chunks =
      has_blocks(call.what) ? block_chunks(count, element, chunks) : even_chunks(count, element, chunks);
  entry.output_chunks = entry.input_chunks;
}

/// Chunks of a v-form: the user's blocks. Keeps the vectors' memory from call to call.
void Communicator::cut_as_given(CallEntry& entry, const Call& call) const {
  const std::uint64_t element = dtype_bytes(call.type);
  const auto fill = [&](std::vector<ChunkRange>& chunks, const BlockLayout& layout) {
    chunks.resize(static_cast<std::size_t>(ranks()));
    layout.for_each(ranks(), [&](int rank, std::uint64_t first, std::uint64_t count) {
      // Nothing lies nowhere: the buffer may be NULL then.
      chunks[static_cast<std::size_t>(rank)] = {count > 0 ? first * element : 0, count * element};
    });
  };
  fill(entry.input_chunks, call.blocks);
  fill(entry.output_chunks, call.what == TUTTI_ALL_TO_ALL_V ? call.received : call.blocks);
}

/// Whether the entry of a v-form with common counts was cut for these very blocks.
bool Communicator::cut_alike(const CallEntry& entry, const Call& call) const {
  const std::uint64_t element = dtype_bytes(call.type);
  bool alike = true;
  call.blocks.for_each(ranks(), [&](int rank, std::uint64_t first, std::uint64_t count) {
    const auto at = static_cast<std::size_t>(rank);
    alike &= entry.blocks[at] == ChunkRange{count > 0 ? first * element : 0, count * element};
  });
  return alike;
}

/// Chunks, and how they are sliced.
void Communicator::cut(CallEntry& entry, const Call& call) const {
  is_variable(call.what) ? cut_as_given(entry, call) : cut_evenly(entry, call);
  if (is_variable(call.what) && call.what != TUTTI_ALL_TO_ALL_V) entry.blocks = entry.input_chunks;
  // A buffer of one block begins with it. (A rank without the buffer never asks where its chunks are.)
  const tutti_collective form = equal_form(call.what);
  if (form == TUTTI_ALL_GATHER || form == TUTTI_GATHER) entry.input_chunks = one_of(std::move(entry.input_chunks));
  if (form == TUTTI_REDUCE_SCATTER || form == TUTTI_SCATTER)
    entry.output_chunks = one_of(std::move(entry.output_chunks));

  Bindings& bindings = entry.bindings;
  bindings.input_chunks = entry.input_chunks.data();
  bindings.output_chunks = entry.output_chunks.data();
  bindings.sizes_in_lines = call.what == TUTTI_ALL_TO_ALL_V;
  slice_up(bindings, std::max(longest_chunk(entry.input_chunks), longest_chunk(entry.output_chunks)), *entry.plan);
}

/// Slices and streams for chunks of up to `longest` bytes, and the FIFO that they need. The two ends of a message must
/// slice it alike, on streams alike: where its size is all that they know in common, every slice is of full size.
void Communicator::slice_up(Bindings& bindings, std::uint64_t longest, const Plan& plan) const {
  const std::uint64_t most = config_.slice_bytes() / 64 * 64;
  bindings.slice = bindings.sizes_in_lines ? most : std::clamp<std::uint64_t>((longest + 63) / 64 * 64, 64, most);
  bindings.slices = std::max<std::uint64_t>(1, (longest + bindings.slice - 1) / bindings.slice);
  // Not plan.lanes: a rank may use fewer lanes than its peers, and all must cut alike.
  const auto lanes = static_cast<std::uint32_t>(plan.row->needs.lanes);
  bindings.streams = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(config_.lanes()), 1, kMaxLanes / lanes);
  if (!bindings.sizes_in_lines && bindings.slices < bindings.streams)
    bindings.streams = static_cast<std::uint32_t>(bindings.slices);
  // A forwarding rank holds one slice while it fills the next: four give both ends one in hand and one in flight. A row
  // of more credits has so many in flight, one in hand, and a gap where the FIFO wraps.
  const auto slices = static_cast<std::size_t>(std::max(plan.row->needs.credits, 2)) + 2;
  bindings.fifo_bytes = std::max<std::size_t>(config_.fifo_bytes(), slices * (bindings.slice + kLineStride));
}

Status Communicator::bind_kernel(Bindings& bindings, const Call& call) const {
  if (!is_reduction(call.what)) return {};
  bindings.kernel =
      call.op == TUTTI_PRE_MUL_SUM ? find_scale_kernel(call.type) : find_reduce_kernel(call.type, call.op);
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
  entry.bytes = bytes_of(call);
  const std::string_view forced = call.algorithm.empty() ? forced_row(config_, call.what) : call.algorithm;
  TUTTI_TRY(row, selector_.choose(call.what, entry.bytes, forced));
  TUTTI_TRY(plan, plans_.get(*row, is_rooted(call.what) ? call.peer : -1));
  entry.plan = plan;
  Bindings& bindings = entry.bindings;
  bindings = {};
  cut(entry, call);
  entry.edges = {};
  bindings.edges = &entry.edges;
  bindings.element = static_cast<std::uint32_t>(dtype_bytes(call.type));
  bindings.epoch_bits = epoch_bits_;
  TUTTI_TRY(bind_kernel(bindings, call));
  // The selector knows: a row that forwards is none for sizes that only two ranks know.
  if (bindings.sizes_in_lines && (plan->lowered.scratch_chunks > 0 || plan->lowered.equal_chunks))
    return Status::error(TUTTI_UNSUPPORTED,
                         "algorithm \"" + std::string(row->name) + "\" moves blocks through scratch space")
        .with_remedy("all_to_all_v runs rows that send each block straight to its receiver");
  TUTTI_TRY(ensure_scratch(std::size_t{bindings.streams} * plan->lowered.scratch_chunks * bindings.slice));

  entry.fingerprint = fingerprint_of(call, *row, call.blocks.counts);
  std::memset(entry.row, 0, sizeof entry.row);
  row->name.copy(entry.row, sizeof entry.row);
  entry.type = call.type;
  entry.op = call.op;
  entry.root = call.peer;
  entry.count = call.what == TUTTI_ALL_TO_ALL_V ? 0 : call.count;
  entry.asked = std::string(call.algorithm);
  entry.weighted_count = weighted_count(call);
  entry.call_word = pack_call(call.what, call.type, call.op, call.peer);
  entry.generation = plans_.generation();
  entry.what = call.what;
  return {};
}

/// Sum of (rank + 1) * count: where one count alone differs between two ranks, this and the sum tell which
/// (diagnosis.cc).
std::uint64_t Communicator::weighted_count(const Call& call) const {
  std::uint64_t sum = 0;
  if (is_variable(call.what) && call.what != TUTTI_ALL_TO_ALL_V)
    for (int r = 0; r < ranks(); ++r) sum += (static_cast<std::uint64_t>(r) + 1) * call.blocks.counts[r];
  return sum;
}

/// Of everything that the ranks must agree about. The counts of a v-form are such a thing, but for all_to_all_v, whose
/// messages carry their sizes. `counts`: the call's own, or others (diagnosis.cc).
std::uint64_t Communicator::fingerprint_of(const Call& call, const Algorithm& row, const std::uint64_t* counts) const {
  const bool own_counts = call.what == TUTTI_ALL_TO_ALL_V;
  std::uint64_t fingerprint = hash_combine(id_, static_cast<std::uint64_t>(call.what));
  fingerprint =
      hash_combine(fingerprint, static_cast<std::uint64_t>(call.type) | static_cast<std::uint64_t>(call.op) << 8);
  if (is_variable(call.what) && !own_counts)
    for (int r = 0; r < ranks(); ++r) fingerprint = hash_combine(fingerprint, counts[r]);
  else
    fingerprint = hash_combine(fingerprint, own_counts ? 0 : call.count);
  fingerprint = hash_combine(fingerprint, static_cast<std::uint64_t>(call.peer + 1));
  return hash_combine(fingerprint, hash_text(row.name));
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
