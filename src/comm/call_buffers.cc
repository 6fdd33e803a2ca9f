// SPDX-License-Identifier: Apache-2.0
#include "src/comm/call_buffers.h"

#include <string>

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
    case TUTTI_ALL_TO_ALL: return "no overlap: there is no in-place form";
    default: return "in == out, or no overlap";
  }
}

Status check_buffers(const Call& call, int rank, int ranks) {
  const CallBuffers buffers = buffers_of(call, rank, ranks);
  if (buffers.reads && !call.in) return bad("in", "NULL with count " + std::to_string(call.count), "a buffer");
  if (buffers.writes && !call.out) return bad("out", "NULL with count " + std::to_string(call.count), "a buffer");
  if (!buffers.reads || !buffers.writes) return {};
  const auto* in = static_cast<const std::byte*>(call.in);
  const auto* out = static_cast<const std::byte*>(call.out);
  if (buffers.has_in_place && in + buffers.in_shared == out + buffers.out_shared) return {};
  if (!overlaps(in, buffers.in_bytes, out, buffers.out_bytes)) return {};
  const bool names_out = call.what != TUTTI_ALL_GATHER && call.what != TUTTI_GATHER;
  return bad(names_out ? "out" : "in", names_out ? "overlapping in" : "overlapping out", in_place_rule(call.what));
}

}  // namespace

CallBuffers buffers_of(const Call& call, int rank, int ranks) {
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
  if (is_reduction(call.what) && static_cast<unsigned>(call.op) >= TUTTI_OP_COUNT)
    return bad("op", std::to_string(static_cast<int>(call.op)), "TUTTI_SUM .. TUTTI_BXOR");
  if (is_reduction(call.what) && !is_supported(call.type, call.op))
    return Status::error(TUTTI_UNSUPPORTED, std::string(op_name(call.op)) + " of " +
                                                std::string(dtype_name(call.type)) + " is not supported")
        .with_remedy(call.type == TUTTI_BOOL ? "bool has no average; sum, max, bor are or; prod, min, band are and"
                                             : "band, bor and bxor are for integers and bool");
  TUTTI_TRY(check_peer(call, ranks));
  if (call.count > (std::uint64_t{1} << 62) / dtype_bytes(call.type) / static_cast<std::uint64_t>(ranks))
    return bad("count", std::to_string(call.count), "less than 2^62 bytes over all ranks");
  if (!(call.timeout_s >= 0 && call.timeout_s <= 1e9))  // NaN is neither
    return bad("timeout_s", std::to_string(call.timeout_s), "0 (default) to 1e9 seconds");
  return call.count == 0 ? Status{} : check_buffers(call, rank, ranks);
}

}  // namespace tutti::core
