// SPDX-License-Identifier: Apache-2.0
#include "src/exec/mailbox.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace tutti::core {

std::byte* SendChannel::reserve_outside(std::size_t bytes, std::size_t fifo_bytes) {
  // Messages start on lines of their own, so that a reader of one never takes a line the writer of the next is filling.
  const std::uint64_t rounded = (bytes + kLineStride - 1) / kLineStride * kLineStride;
  if (bytes <= kSmallMessage) {
    std::int64_t at = small_.place(rounded);
    if (at < 0 && refresh()) at = small_.place(rounded);
    return at < 0 ? nullptr : shared_->small + at;
  }
  const std::uint64_t wanted = std::max<std::uint64_t>(fifo_bytes, rounded);
  if (fifo_.size() < wanted) {
    // Also where this message would just fit: the operation counts on several messages in flight. A larger FIFO
    // replaces the old one once nobody reads it. Credit for large messages comes back at once, so this does not wait
    // for small ones whose credit the receiver withholds.
    if (!fifo_.empty()) refresh();
    if (!fifo_.empty()) return nullptr;
    drop_fifo();
    auto block = endpoint_.allocate(wanted);
    if (!block.is_ok()) {
      failure_ = block.status();
      return nullptr;
    }
    fifo_block_ = *block;
    fifo_.resize(fifo_block_.bytes);
    if (budget_) budget_->bytes.fetch_add(fifo_block_.bytes, std::memory_order_relaxed);
  }
  std::int64_t at = fifo_.place(rounded);
  if (at < 0 && refresh()) at = fifo_.place(rounded);
  return at < 0 ? nullptr : fifo_block_.pointer + at;
}

void SendChannel::drop_fifo() {
  if (!fifo_block_.pointer) return;
  if (budget_) budget_->bytes.fetch_sub(fifo_block_.bytes, std::memory_order_relaxed);
  endpoint_.release(fifo_block_);
  fifo_block_ = {};
  fifo_.resize(0);
}

void SendChannel::ring(ControlPage& page) {
  page.doorbell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page.doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tutti::core
