// SPDX-License-Identifier: Apache-2.0
// The mailbox: messages of one ordered member pair and lane over mapped memory. All memory belongs to the sender's
// process but for `consumed`, which the receiver writes.
//
// Every message, whatever its size, is one line of a ring of eight: 48 bytes of payload, the operation's fingerprint,
// and a stamp (16 bits of epoch, 48 bits of sequence) that is stored last with release. Up to 48 bytes travel in the
// line itself; longer messages lie elsewhere in the sender's arena (small ring, FIFO) and the line says where. So an
// 8-byte call meets a 64 MiB call in the same line, and the receiver sees a wrong fingerprint instead of waiting for
// ever.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/exec/control.h"
#include "transports/transport.h"

namespace tutti::core {

constexpr std::size_t kInlineBytes = 48;
constexpr std::uint64_t kLines = 8;
/// A message up to this size uses the channel's own small ring; above it a FIFO that is attached on first need.
constexpr std::size_t kSmallMessage = 4096 + kLineStride;  // 4 KiB of data and a header
/// Holds eight small messages: what the line ring can have in flight.
constexpr std::size_t kSmallRing = 8 * kSmallMessage;
/// The receiver returns credit at every fourth small message (three withheld ones never block the ring of eight) and at
/// every large one.
constexpr std::uint64_t kCreditBatch = 4;
/// Collective lanes per pair: schedule lanes x slice streams. One more channel carries point to point.
constexpr int kMaxLanes = 16;
constexpr int kPointToPointLane = kMaxLanes;

struct alignas(64) Line {
  std::byte payload[kInlineBytes];
  std::uint64_t fingerprint;
  std::atomic<std::uint64_t> stamp;
};
static_assert(sizeof(Line) == 64);

/// Payload of a line whose message lies elsewhere.
struct Locator {
  std::uint64_t offset;  ///< in the sender's arena
  std::uint64_t bytes;
};

struct ChannelBlock {
  struct alignas(kLineStride) Place {
    Line line;
  };
  Place lines[kLines];
  alignas(kLineStride) std::atomic<std::uint64_t> consumed;  ///< messages released; written by the receiver
  /// Bytes of eager point-to-point messages that have met their receive; written by the receiver.
  alignas(kLineStride) std::atomic<std::uint64_t> eager_matched;
  alignas(kLineStride) std::byte small[kSmallRing];
};

/// One per ordered pair, in the sender's arena; its channels come into being when first used.
struct PairBox {
  std::atomic<std::uint64_t> channel[kMaxLanes + 1];  ///< offset of the ChannelBlock; 0: none yet
};

/// Contiguous allocation in a ring whose space comes back in order.
class RingSpace {
 public:
  explicit RingSpace(std::uint64_t size = 0) : size_(size) {}
  std::uint64_t size() const { return size_; }
  bool empty() const { return head_ == tail_; }
  /// Offset for `bytes` <= size, or -1 when it does not fit now. Messages never wrap: the rest of the ring is skipped.
  std::int64_t place(std::uint64_t bytes) {
    const std::uint64_t at = head_ % size_;
    const std::uint64_t skip = at + bytes > size_ ? size_ - at : 0;
    if (empty()) tail_ += skip;  // nothing is in the way: skipping costs nothing
    if (head_ + skip + bytes - tail_ > size_) return -1;
    head_ += skip;
    const auto offset = static_cast<std::int64_t>(head_ % size_);
    head_ += bytes;
    return offset;
  }
  std::uint64_t head() const { return head_; }
  /// Only while empty.
  void resize(std::uint64_t size) { size_ = size; }
  void free_to(std::uint64_t head) { tail_ = head > tail_ ? head : tail_; }

 private:
  std::uint64_t size_;
  std::uint64_t head_ = 0, tail_ = 0;
};

/// How much memory the FIFOs of a process hold, over all its communicators. Above the cap idle ones are taken back.
struct FifoBudget {
  std::atomic<std::uint64_t> bytes{0};
  std::uint64_t cap = UINT64_MAX;
  bool exceeded() const { return bytes.load(std::memory_order_relaxed) > cap; }
};

/// After something was stored for the owner of `page`: true if it sleeps and must be rung.
inline bool must_ring(ControlPage& page) {
  // Either the sleeper orders its word against our store (membarrier), or, where it sleeps often, we do: a locked
  // operation on its page, some 20 ns.
  const std::uint64_t seen = page.sleeping.load(std::memory_order_relaxed);
  if (seen == 0) return false;
  if (seen == kCrowded) return page.sleeping.fetch_add(0, std::memory_order_seq_cst) != kCrowded;
  return true;
}

/// Sending end. Used by the holder of the communicator's drive token only.
class SendChannel {
 public:
  /// `block` zeroed, in the own arena; `peer` the receiver's control page (its bell is rung).
  SendChannel(Endpoint& endpoint, const SharedBlock& block, std::byte* arena, ControlPage* peer,
              FifoBudget* budget = nullptr)
      : endpoint_(endpoint),
        block_(block),
        arena_(arena),
        peer_(peer),
        budget_(budget),
        shared_(reinterpret_cast<ChannelBlock*>(block.pointer)) {}
  ~SendChannel() {
    drop_fifo();
    endpoint_.release(block_);
  }
  SendChannel(const SendChannel&) = delete;
  SendChannel& operator=(const SendChannel&) = delete;

  /// Where to write a message of `bytes`, or null while there is no room (never blocks). Calling again before commit
  /// with the same size gives the same place. `fifo_bytes`: size of the FIFO to attach on first need (>= bytes).
  std::byte* reserve(std::size_t bytes, std::size_t fifo_bytes) {
    if (reserved_) return reserved_;
    if (sequence_ - consumed_ >= kLines && !refresh()) return nullptr;
    if (bytes <= kInlineBytes) {
      reserved_ = shared_->lines[sequence_ % kLines].line.payload;
      clear_payload(reserved_);
      return reserved_;
    }
    return reserved_ = reserve_outside(bytes, fifo_bytes);
  }

  /// Publishes the reserved message.
  void commit(std::size_t bytes, std::uint64_t fingerprint, std::uint64_t epoch_bits) {
    Line& line = shared_->lines[sequence_ % kLines].line;
    if (bytes > kInlineBytes) {
      const Locator locator{static_cast<std::uint64_t>(reserved_ - arena_), bytes};
      std::memcpy(line.payload, &locator, sizeof locator);
    }
    line.fingerprint = fingerprint;
    ends_[sequence_ % kLines] = {small_.head(), fifo_.head()};
    ++sequence_;
    reserved_ = nullptr;
    line.stamp.store(epoch_bits | (sequence_ & kSequenceMask),
                     std::memory_order_release);  // pairs with ReceiveChannel::ready
    if (must_ring(*peer_)) ring(*peer_);
  }

  /// reserve() and commit() for a message of at most kInlineBytes, between which nothing may fail.
  Line* reserve_line() {
    if (sequence_ - consumed_ >= kLines && !refresh()) return nullptr;
    Line& line = shared_->lines[sequence_ % kLines].line;
    clear_payload(line.payload);
    return &line;
  }
  void commit_line(Line& line, std::uint64_t fingerprint, std::uint64_t epoch_bits) {
    const std::uint64_t sequence = sequence_;
    line.fingerprint = fingerprint;
    ends_[sequence % kLines] = {small_.head(), fifo_.head()};
    sequence_ = sequence + 1;
    line.stamp.store(epoch_bits | ((sequence + 1) & kSequenceMask),
                     std::memory_order_release);  // pairs with ReceiveChannel::ready
    if (must_ring(*peer_)) ring(*peer_);
  }

  /// Gives the FIFO back if nobody reads it any more; the next large message attaches another.
  void drop_idle_fifo() {
    if (!fifo_.empty()) refresh();
    if (fifo_.empty() && !reserved_) drop_fifo();
  }
  std::uint64_t eager_matched() const { return shared_->eager_matched.load(std::memory_order_acquire); }
  std::uint64_t sequence() const { return sequence_; }
  /// True once the FIFO could not be had: the caller reports it (memory).
  const Status& failure() const { return failure_; }

  static constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << 48) - 1;
  /// Wakes the owner of `page` if it sleeps (mailbox.cc: futex).
  static void ring(ControlPage& page);

 private:
  /// Whoever reduces lines reads them whole. By hand: compilers make a string instruction of a memset.
  static void clear_payload(std::byte* payload) {
    using Words = std::uint64_t __attribute__((vector_size(16), may_alias));
    auto* const words = reinterpret_cast<Words*>(payload);
    words[0] = words[1] = words[2] = Words{};
  }
  bool refresh() {
    const std::uint64_t seen = shared_->consumed.load(std::memory_order_acquire);  // pairs with ReceiveChannel::release
    if (seen == consumed_) return false;
    consumed_ = seen;
    const Ends& ends = ends_[(seen - 1) % kLines];
    small_.free_to(ends.small);
    fifo_.free_to(ends.fifo);
    return sequence_ - consumed_ < kLines;
  }
  void drop_fifo();
  std::byte* reserve_outside(std::size_t bytes, std::size_t fifo_bytes);

  struct Ends {
    std::uint64_t small = 0, fifo = 0;
  };
  Endpoint& endpoint_;
  SharedBlock block_;
  std::byte* arena_;
  ControlPage* peer_;
  FifoBudget* budget_;
  ChannelBlock* shared_;
  std::uint64_t sequence_ = 0;
  std::uint64_t consumed_ = 0;
  std::byte* reserved_ = nullptr;
  RingSpace small_{kSmallRing};
  RingSpace fifo_{0};
  SharedBlock fifo_block_;
  std::array<Ends, kLines> ends_{};
  Status failure_;
};

/// Receiving end. Used by the holder of the communicator's drive token only.
class ReceiveChannel {
 public:
  ReceiveChannel(ChannelBlock* block, const MappedView& view, ControlPage* peer)
      : shared_(block), view_(view), peer_(peer) {}

  /// True when the next message is there (acquires it).
  bool ready(std::uint64_t epoch_bits) const {
    return line().stamp.load(std::memory_order_acquire) ==
           (epoch_bits | ((sequence_ + 1) & SendChannel::kSequenceMask));
  }
  std::uint64_t fingerprint() const { return line().fingerprint; }
  const std::byte* inline_payload() const { return line().payload; }
  /// The message's bytes where they lie; null if the locator is malformed or of another length.
  const std::byte* data(std::size_t bytes) const {
    if (bytes <= kInlineBytes) return line().payload;
    Locator locator;
    std::memcpy(&locator, line().payload, sizeof locator);
    if (locator.bytes != bytes || locator.offset >= view_.remote_bytes || bytes > view_.remote_bytes - locator.offset)
      return nullptr;
    return view_.remote + locator.offset;
  }
  /// Gives the oldest message back to the sender.
  void release(std::size_t bytes) {
    ++sequence_;
    if (bytes > kSmallMessage || sequence_ - returned_ >= kCreditBatch) return_credit();
  }
  /// release() of a message of at most kInlineBytes.
  void release_line() {
    if (++sequence_ - returned_ >= kCreditBatch) return_credit();
  }
  void add_eager_matched(std::uint64_t bytes) { shared_->eager_matched.fetch_add(bytes, std::memory_order_release); }
  std::uint64_t sequence() const { return sequence_; }

 private:
  void return_credit() {
    returned_ = sequence_;
    shared_->consumed.store(sequence_, std::memory_order_release);  // pairs with SendChannel::refresh
    // A sender out of credit may sleep.
    if (must_ring(*peer_)) SendChannel::ring(*peer_);
  }
  const Line& line() const { return shared_->lines[sequence_ % kLines].line; }

  ChannelBlock* shared_;
  MappedView view_;
  ControlPage* peer_;
  std::uint64_t sequence_ = 0;
  std::uint64_t returned_ = 0;
};

}  // namespace tutti::core
