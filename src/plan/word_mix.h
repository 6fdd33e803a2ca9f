// SPDX-License-Identifier: Apache-2.0
// The scrambler behind the checker's random words and hashes. Internal to src/plan.
#pragma once

#include <cstdint>

namespace tutti::core {

/// splitmix64's finaliser (Steele, Lea & Flood, OOPSLA 2014): every output bit depends on every input bit.
inline std::uint64_t mix_word(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace tutti::core
