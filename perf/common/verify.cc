// SPDX-License-Identifier: Apache-2.0
#include "perf/common/verify.h"

#include <algorithm>
#include <cstring>

#include "perf/common/element.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kBlock = 2048;

/// Compares the bit patterns as unsigned numbers: neighbouring floats of one sign differ by 1.
template <class Bits>
void compare_block(const Bits* expected, const char* got, uint64_t count, uint64_t allowed, Verdict& verdict,
                   uint64_t& first_in_block) {
  for (uint64_t k = 0; k < count; ++k) {
    Bits value;
    std::memcpy(&value, got + k * sizeof(Bits), sizeof(Bits));
    const uint64_t difference = expected[k] > value ? uint64_t{expected[k]} - value : uint64_t{value} - expected[k];
    if (difference <= allowed) continue;
    if (verdict.wrong++ == 0) first_in_block = k;
  }
}

}  // namespace

Verdict verify(tutti_dtype type, const Layout& layout, const void* buffer) {
  const size_t bytes = element_bytes(type);
  const auto* cursor = static_cast<const char*>(buffer);
  alignas(64) char block[kBlock * sizeof(uint64_t)];
  Verdict verdict;
  for (const Segment& segment : layout) {
    const uint64_t allowed = tolerance(type, segment);
    for (uint64_t done = 0; done < segment.count; done += kBlock) {
      const uint64_t count = std::min(kBlock, segment.count - done);
      generate(type, segment, done, count, block);
      if (std::memcmp(block, cursor, count * bytes) != 0) {
        const bool none_before = verdict.wrong == 0;
        uint64_t first = 0;
        with_element(type, [&](auto traits) {
          using Bits = typename decltype(traits)::Bits;
          compare_block(reinterpret_cast<const Bits*>(block), cursor, count, allowed, verdict, first);
        });
        if (none_before && verdict.wrong != 0) {
          verdict.first_wrong = verdict.elements + first;
          verdict.expected = describe_element(type, block + first * bytes);
          verdict.got = describe_element(type, cursor + first * bytes);
        }
      }
      verdict.elements += count;
      cursor += count * bytes;
    }
  }
  return verdict;
}

}  // namespace tutti::perf
