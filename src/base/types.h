// SPDX-License-Identifier: Apache-2.0
// Names and sizes derived from include/tutti/types.h and dtypes.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "tutti/types.h"

namespace tutti::core {

/// Bytes of one element; 0 for a value outside the table.
constexpr std::size_t dtype_bytes(tutti_dtype type) {
  switch (static_cast<int>(type)) {
#define X(name, ENUMERATOR, bytes, value) \
  case value:                             \
    return bytes;
#include "tutti/dtypes.def"
#undef X
    default: return 0;
  }
}

constexpr std::string_view dtype_name(tutti_dtype type) {
  switch (static_cast<int>(type)) {
#define X(name, ENUMERATOR, bytes, value) \
  case value:                             \
    return #name;
#include "tutti/dtypes.def"
#undef X
    default: return "invalid";
  }
}

constexpr std::string_view op_name(tutti_op op) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"};
  static_assert(std::size(kNames) == TUTTI_OP_COUNT);
  if (op == TUTTI_PRE_MUL_SUM) return "pre_mul_sum";
  return static_cast<unsigned>(op) < TUTTI_OP_COUNT ? kNames[op] : std::string_view("invalid");
}

constexpr std::string_view kCollectiveNames[] = {"all_reduce",       "all_gather", "reduce_scatter", "broadcast",
                                                 "barrier",          "send",       "recv",           "reduce",
                                                 "gather",           "scatter",    "all_to_all",     "all_gather_v",
                                                 "reduce_scatter_v", "gather_v",   "scatter_v",      "all_to_all_v"};
static_assert(std::size(kCollectiveNames) == TUTTI_COLLECTIVE_COUNT);

constexpr std::string_view collective_name(tutti_collective what) {
  return static_cast<unsigned>(what) < TUTTI_COLLECTIVE_COUNT ? kCollectiveNames[what] : std::string_view("invalid");
}

constexpr std::optional<tutti_collective> find_collective(std::string_view name) {
  for (int i = 0; i < TUTTI_COLLECTIVE_COUNT; ++i)
    if (kCollectiveNames[i] == name) return static_cast<tutti_collective>(i);
  return std::nullopt;
}

/// The form with equal counts, whose rows and contract the variable form shares.
constexpr tutti_collective equal_form(tutti_collective what) {
  switch (what) {
    case TUTTI_ALL_GATHER_V: return TUTTI_ALL_GATHER;
    case TUTTI_REDUCE_SCATTER_V: return TUTTI_REDUCE_SCATTER;
    case TUTTI_GATHER_V: return TUTTI_GATHER;
    case TUTTI_SCATTER_V: return TUTTI_SCATTER;
    case TUTTI_ALL_TO_ALL_V: return TUTTI_ALL_TO_ALL;
    default: return what;
  }
}

/// Takes a count per rank.
constexpr bool is_variable(tutti_collective what) { return equal_form(what) != what; }

constexpr bool is_point_to_point(tutti_collective what) { return what == TUTTI_SEND || what == TUTTI_RECV; }

constexpr bool is_reduction(tutti_collective what) {
  const tutti_collective form = equal_form(what);
  return form == TUTTI_ALL_REDUCE || form == TUTTI_REDUCE_SCATTER || form == TUTTI_REDUCE;
}

/// Names a root.
constexpr bool is_rooted(tutti_collective what) {
  const tutti_collective form = equal_form(what);
  return form == TUTTI_BROADCAST || form == TUTTI_REDUCE || form == TUTTI_GATHER || form == TUTTI_SCATTER;
}

/// Chunks are the user's blocks, one per rank.
constexpr bool has_blocks(tutti_collective what) {
  const tutti_collective form = equal_form(what);
  return form == TUTTI_ALL_GATHER || form == TUTTI_REDUCE_SCATTER || form == TUTTI_GATHER || form == TUTTI_SCATTER ||
         form == TUTTI_ALL_TO_ALL;
}

constexpr bool is_float(tutti_dtype type) {
  return type == TUTTI_FLOAT16 || type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64 || type == TUTTI_BFLOAT16 ||
         type == TUTTI_FLOAT8_E4M3 || type == TUTTI_FLOAT8_E5M2;
}

constexpr bool is_bitwise(tutti_op op) { return op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR; }

/// Contributions can be multiplied by a scalar of their type before the sum.
constexpr bool can_pre_multiply(tutti_dtype type) { return dtype_bytes(type) != 0 && type != TUTTI_BOOL; }

/// One of the library's own, or what calls with a handle become once it is looked up.
constexpr bool is_operator(tutti_op op) {
  return static_cast<unsigned>(op) < TUTTI_OP_COUNT || op == TUTTI_PRE_MUL_SUM;
}

/// The pair means something: floats have no bitwise operators, bool no average and no product with a scalar.
constexpr bool is_supported(tutti_dtype type, tutti_op op) {
  if (dtype_bytes(type) == 0 || !is_operator(op)) return false;
  if (op == TUTTI_PRE_MUL_SUM) return can_pre_multiply(type);
  return type == TUTTI_BOOL ? op != TUTTI_AVG : !is_float(type) || !is_bitwise(op);
}

}  // namespace tutti::core
