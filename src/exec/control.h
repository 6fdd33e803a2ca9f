// SPDX-License-Identifier: Apache-2.0
// The control page of one member of a communicator: the small piece of its process's shared memory that local peers
// read to find its outboxes, to diagnose it, and write to stop it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/types.h"

namespace tutti::core {

/// Counters of different writers never share a line; adjacent-line prefetchers make that 128 bytes.
constexpr std::size_t kLineStride = 128;

/// Always true in a library for users; perf/micro/mismatch_cost.sh builds one without to count the instructions.
#if defined(TUTTI_WITHOUT_MISMATCH_CHECK)
constexpr bool kMismatchCheck = false;
#else
constexpr bool kMismatchCheck = true;
#endif

/// What an operation announces about one of its buffers. Only when all ranks announce mapped memory may they agree on a
/// path without copies; no rank decides that alone.
struct Announcement {
  std::uint32_t registration = 0;  ///< 0: not registered
  std::uint32_t generation = 0;    ///< of the memory: a freed and re-allocated address is another buffer
  std::uint64_t offset = 0;        ///< in the process's arena; ~0: registered, but not memory that peers can map
};

/// Consecutive operations of a group that run as one exchange: number of the first, and how many.
constexpr std::uint64_t pack_exchange(std::uint64_t first, std::uint64_t operations) { return first << 8 | operations; }
constexpr std::uint64_t exchange_first(std::uint64_t word) { return word >> 8; }
constexpr std::uint64_t exchange_operations(std::uint64_t word) { return word & 0xff; }

/// What a rank called, readable by every local peer: the text of a mismatch is made from two of these. It is the
/// operation's announcement line as well. Written by its rank, `sequence` last; readers copy and check that it did not
/// change.
struct alignas(kLineStride) CallDescriptor {
  std::atomic<std::uint64_t> sequence;  ///< operation number + 1; 0: empty
  std::atomic<std::uint64_t> fingerprint;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> call;  ///< packed: what | type << 8 | op << 16 | (root + 1) << 32
  std::atomic<std::uint64_t> tag;
  std::atomic<std::uint64_t> weighted_count;  ///< v-forms: sum of (rank + 1) * count over the ranks
  // Two announcements as words: registration | generation << 32, offset.
  std::atomic<std::uint64_t> input[2], output[2];
  /// pack_exchange of the operations that share its exchange; one that does not hold the number: it runs alone.
  std::atomic<std::uint64_t> exchange;

  struct Content {
    std::uint64_t fingerprint = 0, count = 0, call = 0, tag = 0;
    Announcement input{}, output{};
    std::uint64_t exchange = 0;
    std::uint64_t weighted_count = 0;
  };
  void write(std::uint64_t number, const Content& content) {
    // Whoever still reads what stood here before, and sees anything of the new content, sees this 0 afterwards: every
    // store below is a release for that.
    sequence.store(0, std::memory_order_relaxed);
    if (kMismatchCheck) {
      fingerprint.store(content.fingerprint, std::memory_order_release);
      count.store(content.count, std::memory_order_release);
      call.store(content.call, std::memory_order_release);
      weighted_count.store(content.weighted_count, std::memory_order_release);
    }
    tag.store(content.tag, std::memory_order_release);
    store(input, content.input);
    store(output, content.output);
    exchange.store(content.exchange, std::memory_order_release);
    sequence.store(number + 1, std::memory_order_release);
  }
  /// The same without tag and announcements.
  void write_plain(std::uint64_t number, std::uint64_t print, std::uint64_t elements, std::uint64_t call_word) {
    sequence.store(0, std::memory_order_relaxed);
    if (kMismatchCheck) {
      fingerprint.store(print, std::memory_order_release);
      count.store(elements, std::memory_order_release);
      call.store(call_word, std::memory_order_release);
    }
    tag.store(0, std::memory_order_release);
    input[0].store(0, std::memory_order_release);
    output[0].store(0, std::memory_order_release);
    sequence.store(number + 1, std::memory_order_release);
  }
  /// False if operation `number` is not there: not called yet, forgotten, or being written.
  bool read(std::uint64_t number, Content& content) const {
    if (sequence.load(std::memory_order_acquire) != number + 1) return false;
    content.fingerprint = fingerprint.load(std::memory_order_acquire);
    content.count = count.load(std::memory_order_acquire);
    content.call = call.load(std::memory_order_acquire);
    content.tag = tag.load(std::memory_order_acquire);
    content.weighted_count = weighted_count.load(std::memory_order_acquire);
    load(input, content.input);
    load(output, content.output);
    content.exchange = exchange.load(std::memory_order_acquire);
    // write_plain() leaves the word of an operation that stood here before.
    if (number - exchange_first(content.exchange) >= exchange_operations(content.exchange)) content.exchange = 0;
    return sequence.load(std::memory_order_relaxed) == number + 1;
  }

 private:
  using Words = std::atomic<std::uint64_t>[2];
  static void store(Words& words, const Announcement& announcement) {
    words[0].store(announcement.registration | std::uint64_t{announcement.generation} << 32, std::memory_order_release);
    if (announcement.registration != 0) words[1].store(announcement.offset, std::memory_order_release);
  }
  static void load(const Words& words, Announcement& announcement) {
    const std::uint64_t first = words[0].load(std::memory_order_acquire);
    announcement.registration = static_cast<std::uint32_t>(first);
    announcement.generation = static_cast<std::uint32_t>(first >> 32);
    announcement.offset = announcement.registration != 0 ? words[1].load(std::memory_order_acquire) : 0;
  }
};
constexpr std::size_t kDescriptors = 64;

constexpr std::uint64_t pack_call(tutti_collective what, tutti_dtype type, tutti_op op, int root) {
  return static_cast<std::uint64_t>(what) | static_cast<std::uint64_t>(type) << 8 |
         static_cast<std::uint64_t>(op) << 16 | static_cast<std::uint64_t>(static_cast<std::uint32_t>(root + 1)) << 32;
}

/// What a rank's caller waits in, as one word: kind, peer and tag of a send or receive, or the low half of a
/// collective's number in the tag's place.
enum class Blocked : std::uint8_t { no = 0, send, recv, collective };
constexpr std::uint64_t pack_blocked(Blocked kind, int peer, std::uint32_t tag) {
  return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>((peer + 1) & 0xffffff) << 8 |
         std::uint64_t{tag} << 32;
}
constexpr Blocked blocked_kind(std::uint64_t word) { return static_cast<Blocked>(word & 3); }
constexpr int blocked_peer(std::uint64_t word) { return static_cast<int>((word >> 8) & 0xffffff) - 1; }
constexpr std::uint32_t blocked_tag(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

/// Why a communicator ended, as one word: first writer wins on rank 0's page, then everyone gets a copy. The text lies
/// on the author's page.
constexpr std::uint64_t pack_verdict(tutti_code code, int culprit, int author) {
  return static_cast<std::uint64_t>(code) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(culprit + 1) & 0xffffffu) << 8 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(author + 1) & 0xffffffu) << 32;
}
constexpr tutti_code verdict_code(std::uint64_t word) { return static_cast<tutti_code>(word & 0xff); }
constexpr int verdict_culprit(std::uint64_t word) { return static_cast<int>((word >> 8) & 0xffffff) - 1; }
constexpr int verdict_author(std::uint64_t word) { return static_cast<int>((word >> 32) & 0xffffff) - 1; }

/// Bit of ControlPage::sleeping, beside the number of sleeping threads.
constexpr std::uint64_t kCrowded = std::uint64_t{1} << 32;

struct ControlPage {
  // Written by the owner, read by peers in diagnosis only.
  alignas(kLineStride) std::atomic<std::uint64_t> operation;  ///< number of the collective it entered last + 1; 0: none
  std::atomic<std::uint64_t> completed;                       ///< collectives it finished
  std::atomic<std::uint64_t> waiting;                         ///< rank + 1 it waits for | step << 32; 0: does not wait
  std::atomic<std::uint64_t> heartbeat;  ///< counts while it waits: a frozen one is stopped or elsewhere
  std::atomic<std::uint64_t> member_id;
  std::atomic<std::uint64_t> blocked;        ///< pack_blocked of the call that its caller waits in; 0: none
  std::atomic<std::uint64_t> blocked_bytes;  ///< of that send or receive
  // Written by any peer, once.
  alignas(kLineStride) std::atomic<std::uint64_t> verdict;
  // Sleeping: the owner sets `sleeping` and waits on `doorbell`; whoever stores something for it looks and rings.
  // kCrowded in it: whoever stores orders that against its look at this word himself.
  alignas(kLineStride) std::atomic<std::uint64_t> sleeping;
  std::atomic<std::uint32_t> doorbell;
  // The owner's own error text, valid once verdict words name it as author.
  alignas(kLineStride) char text[1024];
  alignas(kLineStride) CallDescriptor descriptors[kDescriptors];
  /// Followed by `ranks` words: offset in this process's arena of the pair box for messages to that rank; 0: none yet.
  /// After them one byte per member, written by it as its last access: 1 = it has left and will not touch this memory
  /// again.
  alignas(kLineStride) std::atomic<std::uint64_t> outbox[1];

  std::atomic<std::uint8_t>& left(int member, int ranks) {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(&outbox[ranks])[member];
  }
  static std::size_t bytes_for(int ranks) {
    return sizeof(ControlPage) + (sizeof(std::uint64_t) + 1) * static_cast<std::size_t>(ranks);
  }
};

}  // namespace tutti::core
