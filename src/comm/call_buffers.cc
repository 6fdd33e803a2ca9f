// SPDX-License-Identifier: Apache-2.0
#include "src/comm/call_buffers.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tutti::core {

namespace {

Status bad(const std::string& parameter, const std::string& value, const std::string& allowed) {
  return Status::error(TUTTI_INVALID_ARGUMENT, parameter + " is " + value).with_remedy("allowed: " + allowed);
}

bool overlaps(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

Status check_peer(const Call& call, int ranks) {
  if (!is_rooted(call.what) && !is_point_to_point(call.what)) return {};
  const bool receives = call.what == TUTTI_RECV;
  if ((receives && call.peer == TUTTI_ANY_SOURCE) || (call.peer >= 0 && call.peer < ranks)) return {};
  return bad(is_rooted(call.what) ? "root" : "peer", std::to_string(call.peer),
             "0.." + std::to_string(ranks - 1) + (receives ? " or TUTTI_ANY_SOURCE" : ""));
}

/// How the two buffers may share memory, for people.
const char* in_place_rule(tutti_collective what) {
  switch (what) {
    case TUTTI_ALL_GATHER: return "in == out + rank * count, or no overlap";
    case TUTTI_GATHER: return "in == out + root * count on the root, or no overlap";
    case TUTTI_REDUCE_SCATTER: return "out == in + rank * count, or no overlap";
    case TUTTI_SCATTER: return "out == in + root * count on the root, or no overlap";
    case TUTTI_ALL_TO_ALL:
    case TUTTI_ALL_TO_ALL_V: return "no overlap: there is no in-place form";
    case TUTTI_ALL_GATHER_V: return "in == out + displacements[rank], or no overlap";
    case TUTTI_GATHER_V: return "in == out + displacements[root] on the root, or no overlap";
    case TUTTI_REDUCE_SCATTER_V: return "out == in + displacements[rank], or no overlap";
    case TUTTI_SCATTER_V: return "out == in + displacements[root] on the root, or no overlap";
    default: return "in == out, or no overlap";
  }
}

/// Most bytes of one buffer: sums of two such still fit into 63 bits.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

/// Elements from the buffer's begin to the end of the last block that is not empty.
std::uint64_t extent_of(const BlockLayout& layout, int ranks) {
  std::uint64_t end = 0;
  layout.for_each(ranks, [&](int, std::uint64_t first, std::uint64_t count) {
    if (count > 0) end = std::max(end, first + count);
  });
  return end;
}

std::uint64_t first_of(const BlockLayout& layout, int rank) {
  std::uint64_t found = 0;
  layout.for_each(rank + 1, [&](int, std::uint64_t first, std::uint64_t) { found = first; });
  return found;
}

/// Numbers that make sense; `prefix` is that of the parameters' names.
Status check_layout(const BlockLayout& layout, const std::string& prefix, const Call& call, int ranks) {
  if (!layout.counts) return bad(prefix + "counts", "NULL", "an array of one count per rank");
  const std::uint64_t most = kMostBytes / dtype_bytes(call.type);
  if (const std::uint64_t total = total_count(layout, ranks); total > most) {
    for (int r = 0; r < ranks; ++r)
      if (layout.counts[r] > most)
        return bad(prefix + "counts[" + std::to_string(r) + "]", std::to_string(layout.counts[r]),
                   "less than 2^62 bytes");
    return bad(prefix + "counts", "adding up to " + (total == UINT64_MAX ? "2^64 or more" : std::to_string(total)),
               "less than 2^62 bytes over all ranks");
  }
  for (int r = 0; layout.displacements && r < ranks; ++r)
    if (layout.displacements[r] > most)
      return bad(prefix + "displacements[" + std::to_string(r) + "]", std::to_string(layout.displacements[r]),
                 "less than 2^62 bytes");
  return {};
}

/// Blocks that are written must not share memory.
Status check_disjoint(const BlockLayout& layout, const std::string& prefix, int ranks) {
  if (!layout.displacements) return {};
  std::uint64_t end = 0;
  bool ascending = true;
  layout.for_each(ranks, [&](int, std::uint64_t first, std::uint64_t count) {
    if (count == 0) return;
    ascending &= first >= end;
    end = first + count;
  });
  if (ascending) return {};
  std::vector<int> order;
  for (int r = 0; r < ranks; ++r)
    if (layout.counts[r] > 0) order.push_back(r);
  const std::uint64_t* const first = layout.displacements;
  std::sort(order.begin(), order.end(), [first](int a, int b) { return first[a] < first[b]; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const int before = order[i - 1], after = order[i];
    if (first[before] + layout.counts[before] > first[after])
      return bad(prefix + "displacements[" + std::to_string(after) + "]",
                 std::to_string(first[after]) + ", inside the block of rank " + std::to_string(before),
                 "blocks of the output that do not overlap");
  }
  return {};
}

/// In place, no other block of the input may reach into the one that the result is written to.
Status check_own_block(const BlockLayout& layout, int rank, int ranks) {
  if (!layout.displacements) return {};
  const std::uint64_t own = layout.displacements[rank], own_end = own + layout.counts[rank];
  for (int r = 0; r < ranks; ++r) {
    const std::uint64_t first = layout.displacements[r], end = first + layout.counts[r];
    if (r != rank && first < end && first < own_end && own < end)
      return bad("displacements[" + std::to_string(r) + "]",
                 std::to_string(first) + ", overlapping the block of rank " + std::to_string(rank),
                 "in place, blocks that do not reach into this rank's own");
  }
  return {};
}

/// Counts and displacements of a v-form.
Status check_layouts(const Call& call, int rank, int ranks) {
  if (call.what != TUTTI_ALL_TO_ALL_V) {
    TUTTI_TRY(check_layout(call.blocks, "", call, ranks));
    const bool written = call.what == TUTTI_ALL_GATHER_V || (call.what == TUTTI_GATHER_V && call.peer == rank);
    return written ? check_disjoint(call.blocks, "", ranks) : Status{};
  }
  TUTTI_TRY(check_layout(call.blocks, "send_", call, ranks));
  TUTTI_TRY(check_layout(call.received, "recv_", call, ranks));
  TUTTI_TRY(check_disjoint(call.received, "recv_", ranks));
  if (call.blocks.counts[rank] == call.received.counts[rank]) return {};
  const std::string own = "[" + std::to_string(rank) + "]";
  return bad("recv_counts" + own, std::to_string(call.received.counts[rank]),
             std::to_string(call.blocks.counts[rank]) + ", this rank's own send_counts" + own);
}

/// Whether a block of `layout` in `buffer` shares memory with [other, other + bytes).
bool meets(const BlockLayout& layout, const Call& call, const void* buffer, const void* other, std::uint64_t bytes,
           int ranks) {
  const std::uint64_t element = dtype_bytes(call.type);
  bool met = false;
  layout.for_each(ranks, [&](int, std::uint64_t first, std::uint64_t count) {
    if (count > 0)
      met |= overlaps(static_cast<const std::byte*>(buffer) + first * element, count * element, other, bytes);
  });
  return met;
}

/// The buffers as wholes overlap; do the blocks? Gaps between blocks are nobody's.
bool blocks_overlap(const Call& call, const CallBuffers& buffers, int ranks) {
  switch (call.what) {
    case TUTTI_ALL_GATHER_V:
    case TUTTI_GATHER_V: return meets(call.blocks, call, call.out, call.in, buffers.in_bytes, ranks);
    case TUTTI_REDUCE_SCATTER_V:
    case TUTTI_SCATTER_V: return meets(call.blocks, call, call.in, call.out, buffers.out_bytes, ranks);
    case TUTTI_ALL_TO_ALL_V: break;
    default: return true;
  }
  const std::uint64_t element = dtype_bytes(call.type);
  bool met = false;
  call.received.for_each(ranks, [&](int, std::uint64_t first, std::uint64_t count) {
    if (count > 0)
      met |= meets(call.blocks, call, call.in, static_cast<const std::byte*>(call.out) + first * element,
                   count * element, ranks);
  });
  return met;
}

CallBuffers variable_buffers(const Call& call, int rank, int ranks) {
  const std::uint64_t element = dtype_bytes(call.type);
  const std::uint64_t own = call.blocks.counts[rank] * element, whole = extent_of(call.blocks, ranks) * element;
  const std::uint64_t shared = first_of(call.blocks, rank) * element;
  const bool at_root = call.peer == rank;
  switch (call.what) {
    case TUTTI_ALL_GATHER_V: return {true, true, own, whole, true, 0, shared};
    case TUTTI_GATHER_V: return {true, at_root, own, whole, true, 0, shared};
    case TUTTI_REDUCE_SCATTER_V: return {true, true, whole, own, true, shared, 0};
    case TUTTI_SCATTER_V: return {at_root, true, whole, own, true, shared, 0};
    default: return {true, true, whole, extent_of(call.received, ranks) * element, false, 0, 0};
  }
}

Status check_buffers(const Call& call, int rank, int ranks) {
  const CallBuffers buffers = buffers_of(call, rank, ranks);
  const bool reads = buffers.reads && buffers.in_bytes > 0, writes = buffers.writes && buffers.out_bytes > 0;
  if (reads && !call.in) return bad("in", "NULL with count " + std::to_string(call.count), "a buffer");
  if (writes && !call.out) return bad("out", "NULL with count " + std::to_string(call.count), "a buffer");
  if (!reads || !writes) return {};
  const auto* in = static_cast<const std::byte*>(call.in);
  const auto* out = static_cast<const std::byte*>(call.out);
  if (buffers.has_in_place && in + buffers.in_shared == out + buffers.out_shared)
    return call.what == TUTTI_REDUCE_SCATTER_V ? check_own_block(call.blocks, rank, ranks) : Status{};
  if (!overlaps(in, buffers.in_bytes, out, buffers.out_bytes) || !blocks_overlap(call, buffers, ranks)) return {};
  const tutti_collective form = equal_form(call.what);
  const bool names_out = form != TUTTI_ALL_GATHER && form != TUTTI_GATHER;
  return bad(names_out ? "out" : "in", names_out ? "overlapping in" : "overlapping out", in_place_rule(call.what));
}

}  // namespace

CallBuffers buffers_of(const Call& call, int rank, int ranks) {
  if (is_variable(call.what)) return variable_buffers(call, rank, ranks);
  const std::uint64_t block = call.count * dtype_bytes(call.type);
  const std::uint64_t whole = block * static_cast<std::uint64_t>(ranks);
  const bool at_root = call.peer == rank;
  // The root's own block is where its rank says, and elsewhere nothing is shared.
  const std::uint64_t own = block * static_cast<std::uint64_t>(rank);
  switch (call.what) {
    case TUTTI_ALL_REDUCE: return {true, true, block, block, true, 0, 0};
    case TUTTI_REDUCE: return {true, at_root, block, block, true, 0, 0};
    case TUTTI_BROADCAST: return {at_root, true, block, block, true, 0, 0};
    case TUTTI_ALL_GATHER: return {true, true, block, whole, true, 0, own};
    case TUTTI_GATHER: return {true, at_root, block, whole, true, 0, own};
    case TUTTI_REDUCE_SCATTER: return {true, true, whole, block, true, own, 0};
    case TUTTI_SCATTER: return {at_root, true, whole, block, true, own, 0};
    case TUTTI_ALL_TO_ALL: return {true, true, whole, whole, false, 0, 0};
    case TUTTI_SEND: return {true, false, block, 0, false, 0, 0};
    case TUTTI_RECV: return {false, true, 0, block, false, 0, 0};
    default: return {};
  }
}

Status check_call(const Call& call, int rank, int ranks) {
  if (dtype_bytes(call.type) == 0)
    return bad("type", std::to_string(static_cast<int>(call.type)), "a type of tutti/dtypes.def");
  if (is_reduction(call.what) && !is_operator(call.op))
    return bad("op", std::to_string(static_cast<int>(call.op)), "TUTTI_SUM .. TUTTI_BXOR");
  if (is_reduction(call.what) && !is_supported(call.type, call.op))
    return Status::error(TUTTI_UNSUPPORTED, std::string(op_name(call.op)) + " of " +
                                                std::string(dtype_name(call.type)) + " is not supported")
        .with_remedy(call.type == TUTTI_BOOL ? "bool has no average; sum, max, bor are or; prod, min, band are and"
                                             : "band, bor and bxor are for integers and bool");
  TUTTI_TRY(check_peer(call, ranks));
  if (is_variable(call.what)) {
    TUTTI_TRY(check_layouts(call, rank, ranks));
  } else if (call.count > kMostBytes / dtype_bytes(call.type) / static_cast<std::uint64_t>(ranks)) {
    return bad("count", std::to_string(call.count), "less than 2^62 bytes over all ranks");
  }
  if (!(call.timeout_s >= 0 && call.timeout_s <= 1e9))  // NaN is neither
    return bad("timeout_s", std::to_string(call.timeout_s), "0 (default) to 1e9 seconds");
  return check_buffers(call, rank, ranks);
}

}  // namespace tutti::core
