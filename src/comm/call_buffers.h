// SPDX-License-Identifier: Apache-2.0
// What a call does with the memory of one rank: the rules of tutti.h about NULL, in place and overlap.
#pragma once

#include <cstdint>

#include "src/comm/operation.h"

namespace tutti::core {

/// The two buffers of one rank, from the user's pointers on. What a rank does not read or write may be anything.
struct CallBuffers {
  bool reads = false, writes = false;
  std::uint64_t in_bytes = 0, out_bytes = 0;
  /// In place: this byte of the input and this byte of the output are the same memory.
  bool has_in_place = false;
  std::uint64_t in_shared = 0, out_shared = 0;
};
CallBuffers buffers_of(const Call& call, int rank, int ranks);

/// Type, operator, root, count, deadline and buffers. invalid_argument names the parameter, its value and what is
/// allowed.
Status check_call(const Call& call, int rank, int ranks);

}  // namespace tutti::core
