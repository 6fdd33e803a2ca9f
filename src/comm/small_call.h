// SPDX-License-Identifier: Apache-2.0
// The short way of blocking calls that are one exchange of one line between two ranks (a few floats to sum, a barrier).
// It does what the executor would do with the same plan, in the same order and with the same records; whatever is not
// the common case goes the long way. When the peer's line is not there at once, the operation continues as any other.
//
// In a header, to become part of the C function that is called: at this length every instruction counts
// (perf/gates/small_instructions.sh).
#pragma once

#include <cstring>

#include "src/comm/communicator.h"

namespace tutti::core {

/// Looks at the peer's line before the operation takes the long way: about half a microsecond.
constexpr int kSmallPolls = 64;

/// Buffers of at most 48 bytes: the same, or apart.
inline bool are_fit(const void* in, const void* out, std::uint64_t bytes) {
  if (in == out) return in != nullptr;
  const auto a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
  return in && out && (a >= b + bytes || b >= a + bytes);
}

/// memcpy() of 1 to 48 bytes, without a call or a loop: two or three moves that overlap.
inline void copy_line(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto move = [&](auto word, std::size_t at) {
    std::memcpy(&word, from + at, sizeof word);
    std::memcpy(to + at, &word, sizeof word);
  };
  using Words = std::uint64_t __attribute__((vector_size(16)));
  if (bytes == 8) return move(std::uint64_t{}, 0);
  if (bytes >= 16) {
    if (bytes > 32) move(Words{}, 16);
    move(Words{}, 0);
    return move(Words{}, bytes - 16);
  }
  if (bytes >= 8) {
    move(std::uint64_t{}, 0);
    return move(std::uint64_t{}, bytes - 8);
  }
  if (bytes >= 4) {
    move(std::uint32_t{}, 0);
    return move(std::uint32_t{}, bytes - 4);
  }
  to[0] = from[0];
  to[bytes / 2] = from[bytes / 2];
  to[bytes - 1] = from[bytes - 1];
}

inline void SmallRecord::write(Record& record, std::uint64_t number, std::uint64_t fingerprint,
                               std::uint64_t now) const {
  // 16 bytes at a time by hand: compilers make a string instruction of one memcpy, slow to start.
  using Words = std::uint64_t __attribute__((vector_size(16), may_alias));
  record.sequence.store(0, std::memory_order_relaxed);
  auto* const to = reinterpret_cast<Words*>(&record);
  const auto* const from = reinterpret_cast<const Words*>(bytes_);
  to[1] = from[1], to[2] = from[2], to[3] = from[3], to[4] = from[4], to[5] = from[5], to[6] = from[6], to[7] = from[7];
  record.fingerprint = fingerprint;
  record.issued = record.started = now;
  record.sequence.store(number + 1, std::memory_order_release);
}

template <tutti_collective what>
[[gnu::always_inline]] inline SmallEnd Communicator::run_small(const SmallCall& call) {
  // Whoever drives an asynchronous operation may be writing the entries.
  if (!quiet()) return SmallEnd::not_taken;
  SmallEntry* found = &small_[SmallEntry::place(what, call.type, call.op, call.count)];
  asm("" : "+r"(found));  // keeps the address in a register: the compiler would rather compute it again
  SmallEntry& entry = *found;
  if (entry.count != call.count || entry.what != what || entry.type != call.type || entry.op != call.op)
    return SmallEnd::not_taken;
  const std::size_t bytes = entry.bytes;
  if (what != TUTTI_BARRIER && !are_fit(call.in, call.out, bytes)) return SmallEnd::not_taken;
  if (Process::forked() || issuing_.test_and_set(std::memory_order_acquire)) return SmallEnd::not_taken;
  if (!try_drive()) {
    leave();
    return SmallEnd::not_taken;
  }
  SendChannel& send = *entry.send;
  // With the token: whoever ended the communicator held it, and left the peers' memory for good.
  const bool alone = is_idle() && queued_.load(std::memory_order_acquire) == 0 && !current_ && !point_to_point_active_;
  Line* const line = alone ? send.reserve_line() : nullptr;
  if (!line) {
    stop_driving();
    leave();
    return SmallEnd::not_taken;
  }
  // The line first: it travels while this rank keeps its books.
  const std::uint64_t number = next_number_++;
  const std::uint64_t fingerprint = mixed(entry.fingerprint, number);
  if (what != TUTTI_BARRIER) {
    copy_line(line->payload, static_cast<const std::byte*>(call.in), bytes);
  }
  send.commit_line(*line, fingerprint, epoch_bits_);
  const std::uint64_t now = clock_.now();
  control_->descriptors[number % kDescriptors].write_plain(number, fingerprint, call.count, entry.call_word);
  control_->operation.store(number + 1, std::memory_order_release);
  Record& record = recorder_->records[number % kRecordsPerCommunicator];
  entry.record.write(record, number, fingerprint, now);

  ReceiveChannel* receive = entry.receive;
  if (!receive) [[unlikely]]
    receive = entry.receive = channels_.receive(1 - rank_, 0);
  int polls = receive ? kSmallPolls : 0;
  while (polls > 0 && !receive->ready(epoch_bits_)) --polls;
  if (polls == 0 || (kMismatchCheck && receive->fingerprint() != fingerprint)) [[unlikely]] {
    inline_.number = number;
    inline_.issued_ticks = now;
    return SmallEnd::late;
  }
  if (what != TUTTI_BARRIER) {
    // The own line serves as the own operand: it is padded like the peer's.
    const std::byte* operands[2] = {line->payload, receive->inline_payload()};
    alignas(16) std::byte result[kInlineBytes];
    entry.kernel(result, operands[entry.own], operands[1 - entry.own]);
    copy_line(static_cast<std::byte*>(call.out), result, bytes);
  }
  receive->release_line();
  record.last_peer = 1 - rank_;
  record.code = TUTTI_OK;
  // Within the first polls: a second look at the clock would cost more than it tells.
  record.first_byte = record.last_peer_time = now;
  record.done.store(now, std::memory_order_release);
  control_->completed.store(number + 1, std::memory_order_release);
  stop_driving();
  leave();
  return SmallEnd::done;
}

}  // namespace tutti::core
