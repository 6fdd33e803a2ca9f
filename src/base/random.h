// SPDX-License-Identifier: Apache-2.0
// Mixing and hashing of 64-bit words: test data, fingerprints, proofs. Nothing here is cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::core {

/// A bijection of 64-bit words in which every input bit flips about half of the output bits: the finaliser of
/// SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants from
/// Stafford's variant 13).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// Order matters: combine(combine(h, a), b) differs from combine(combine(h, b), a).
constexpr std::uint64_t hash_combine(std::uint64_t hash, std::uint64_t value) {
  return mix64((hash ^ mix64(value + 0x9e3779b97f4a7c15ULL)) + 0x9e3779b97f4a7c15ULL);
}

/// FNV-1a over the bytes, mixed at the end (http://www.isthe.com/chongo/tech/comp/fnv/). For short names.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(hash);
}

/// SplitMix64: the same sequence everywhere for one seed. Also serves std::shuffle.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t operator()() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  /// In [0, bound); bound > 0. The bias is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) { return (*this)() % bound; }
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return UINT64_MAX; }

 private:
  std::uint64_t state_;
};

}  // namespace tutti::core
