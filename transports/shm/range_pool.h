// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tutti::core {

/// A run of free bytes.
struct FreeRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Free ranges of an address space of offsets: best fit, neighbours merged. All sizes are multiples of what the caller
/// aligns to, so every range keeps that alignment. Not thread-safe. O(log n) a call.
class RangePool {
 public:
  /// The start of the smallest range that holds `bytes`; the lowest of equals, so that an arena stays compact.
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  /// Adds a range and returns the free range it is now part of.
  FreeRange give(std::uint64_t offset, std::uint64_t bytes);
  /// Removes a piece that is known to be free.
  void carve(std::uint64_t offset, std::uint64_t bytes);
  /// Free bytes that end at `end`: what growing there can build on.
  std::uint64_t free_before(std::uint64_t end) const;
  std::uint64_t free_bytes() const { return free_bytes_; }

 private:
  void insert(std::uint64_t offset, std::uint64_t bytes);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator range);

  std::map<std::uint64_t, std::uint64_t> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, offset)
  std::uint64_t free_bytes_ = 0;
};

}  // namespace tutti::core
