// SPDX-License-Identifier: Apache-2.0
#include "src/plan/vector_clocks.h"

#include <algorithm>

namespace tutti::core {

void VectorClocks::reset(std::size_t threads, std::size_t edges, std::size_t snapshots) {
  words_ = threads;
  clocks_.assign(threads * words_, 0);
  snapshots_.assign(snapshots * words_, 0);
  current_.assign(threads, -1);
  merged_.assign(edges, 0);
  content_.clear();
  copies_.clear();
  free_.clear();
}

VectorClocks::Stamp VectorClocks::send(std::uint32_t thread, std::uint32_t epoch) {
  std::int32_t& copy = current_[thread];
  if (copy < 0) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::int32_t>(copies_.size()));
      copies_.emplace_back();
      content_.resize(copies_.size() * words_);
    }
    copy = free_.back();
    free_.pop_back();
    copies_[static_cast<std::size_t>(copy)] = {++last_serial_, 1};
    std::copy_n(&clocks_[thread * words_], words_, &content_[static_cast<std::size_t>(copy) * words_]);
  }
  ++copies_[static_cast<std::size_t>(copy)].users;
  return {copy, epoch};
}

void VectorClocks::receive(std::uint32_t thread, std::uint32_t sender, std::size_t edge, Stamp stamp) {
  const auto copy = static_cast<std::size_t>(stamp.copy);
  if (merged_[edge] != copies_[copy].serial) {
    merged_[edge] = copies_[copy].serial;
    merge(thread, &content_[copy * words_]);
  }
  std::uint32_t& known = clocks_[thread * words_ + sender];
  if (known < stamp.epoch) {
    known = stamp.epoch;
    release(current_[thread]);
    current_[thread] = -1;
  }
  release(stamp.copy);
}

void VectorClocks::merge(std::uint32_t thread, const std::uint32_t* then) {
  std::uint32_t* now = &clocks_[thread * words_];
  for (std::size_t k = 0; k < words_; ++k) now[k] = std::max(now[k], then[k]);
  release(current_[thread]);
  current_[thread] = -1;
}

void VectorClocks::release(std::int32_t copy) {
  if (copy >= 0 && --copies_[static_cast<std::size_t>(copy)].users == 0) free_.push_back(copy);
}

void VectorClocks::save(std::uint32_t thread, std::size_t snapshot) {
  std::copy_n(&clocks_[thread * words_], words_, &snapshots_[snapshot * words_]);
}

void VectorClocks::join(std::uint32_t thread, std::size_t snapshot) { merge(thread, &snapshots_[snapshot * words_]); }

}  // namespace tutti::core
