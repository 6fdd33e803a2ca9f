// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "perf/common/generator.h"

namespace tutti::perf {

/// What a comparison of a whole buffer found.
struct Verdict {
  uint64_t elements = 0;     // compared
  uint64_t wrong = 0;        // of these
  uint64_t first_wrong = 0;  // index in the buffer
  std::string expected;      // at first_wrong, "1.5 (0x3fc00000)"
  std::string got;
};

/// Compares every element of `buffer` (any alignment) with what `layout` says it must hold.
Verdict verify(tutti_dtype type, const Layout& layout, const void* buffer);

}  // namespace tutti::perf
