// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/range_pool.h"

#include <iterator>

#include "src/base/status.h"

namespace tutti::core {

std::optional<std::uint64_t> RangePool::take(std::uint64_t bytes) {
  const auto best = by_size_.lower_bound({bytes, 0});
  if (best == by_size_.end()) return std::nullopt;
  const std::uint64_t offset = best->second;
  carve(offset, bytes);
  return offset;
}

FreeRange RangePool::give(std::uint64_t offset, std::uint64_t bytes) {
  FreeRange merged{offset, bytes};
  auto next = by_offset_.lower_bound(offset);
  TUTTI_CHECK(next == by_offset_.end() || offset + bytes <= next->first);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    merged.bytes += next->second;
    const auto after = std::next(next);
    erase(next);
    next = after;
  }
  if (next != by_offset_.begin()) {
    const auto previous = std::prev(next);
    TUTTI_CHECK(previous->first + previous->second <= offset);
    if (previous->first + previous->second == offset) {
      merged.offset = previous->first;
      merged.bytes += previous->second;
      erase(previous);
    }
  }
  insert(merged.offset, merged.bytes);
  return merged;
}

void RangePool::carve(std::uint64_t offset, std::uint64_t bytes) {
  auto range = by_offset_.upper_bound(offset);
  TUTTI_CHECK(range != by_offset_.begin());
  --range;
  const FreeRange whole{range->first, range->second};
  TUTTI_CHECK(offset + bytes <= whole.offset + whole.bytes);
  erase(range);
  if (offset > whole.offset) insert(whole.offset, offset - whole.offset);
  const std::uint64_t end = offset + bytes;
  if (end < whole.offset + whole.bytes) insert(end, whole.offset + whole.bytes - end);
}

std::uint64_t RangePool::free_before(std::uint64_t end) const {
  const auto after = by_offset_.lower_bound(end);
  if (after == by_offset_.begin()) return 0;
  const auto last = std::prev(after);
  return last->first + last->second == end ? last->second : 0;
}

void RangePool::insert(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void RangePool::erase(std::map<std::uint64_t, std::uint64_t>::iterator range) {
  free_bytes_ -= range->second;
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

}  // namespace tutti::core
