// SPDX-License-Identifier: Apache-2.0
// The CPU executor: runs a lowered plan over mailboxes as a resumable state machine. It never blocks: whoever drives
// calls advance() until it says done.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/exec/channels.h"
#include "src/plan/lower.h"
#include "src/reduce/reduce.h"

namespace tutti::core {

/// The mailboxes of a plan's edges, found on first use: [edge * streams + stream]. Belongs to one plan, one number of
/// streams and one ChannelSet; kept from call to call so that the hot path looks nothing up.
struct EdgeTable {
  std::vector<SendChannel*> send;
  std::vector<ReceiveChannel*> receive;
};

/// Where a chunk lies in a buffer, in bytes.
struct ChunkRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};

/// What ties a plan to one call. Everything is fixed before the operation starts and equal on all ranks but for
/// pointers.
struct Bindings {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;  ///< streams x scratch_chunks x slice bytes
  /// Where input and output chunk c lie, by chunk. A chunk that this rank does not have counts for its size only. The
  /// sizes of input and output chunk c differ in all_to_all_v alone.
  const ChunkRange* input_chunks = nullptr;
  const ChunkRange* output_chunks = nullptr;
  std::uint64_t slice = 0;        ///< bytes of a chunk moved per pass; multiple of 64
  std::uint64_t slices = 1;       ///< passes
  std::uint32_t streams = 1;      ///< passes in flight; streams x plan lanes <= kMaxLanes
  std::uint32_t element = 1;      ///< bytes
  ReduceKernel kernel = nullptr;  ///< reducing collectives
  Factor scale;                   ///< first touch (float averages, pre-multiplied sums)
  std::uint64_t divisor = 0;      ///< final touch (integer averages)
  std::uint64_t fingerprint = 0;
  /// Every message's line carries fingerprint ^ bytes of its chunk: where the two ends may disagree about a size
  /// (all_to_all_v), the receiver sees it, and what the sender meant.
  bool sizes_in_lines = false;
  std::uint64_t epoch_bits = 0;  ///< epoch << 48
  EdgeTable* edges = nullptr;    ///< null: the execution looks its edges up anew
  std::size_t fifo_bytes = 0;    ///< >= 4 slices
};

/// The chunks of `count` elements: chunk c starts at min(n, floor(c*n/chunks) rounded up to 64 bytes).
std::vector<ChunkRange> even_chunks(std::uint64_t count, std::uint32_t element, std::uint32_t chunks);
/// `chunks` equal blocks of `count` elements.
std::vector<ChunkRange> block_chunks(std::uint64_t count, std::uint32_t element, std::uint32_t chunks);
/// The same sizes in a buffer that holds one of the chunks alone (all_gather's input, reduce_scatter's output).
std::vector<ChunkRange> one_of(std::vector<ChunkRange> chunks);
/// Bytes of the longest.
std::uint64_t longest_chunk(const std::vector<ChunkRange>& chunks);

enum class Progress : std::uint8_t { done, again, failed };

class CpuExecution {
 public:
  /// `plan` and what `bindings` points to must outlive the execution.
  void start(const LoweredPlan& plan, const Bindings& bindings);
  /// After start(), where the message of the plan's first action has been sent already.
  void skip_first_send() { ++cursors_[0].action; }
  /// Does a bounded part of what can be done now: call again while moved(). failed: status().
  Progress advance(ChannelSet& channels);

  bool moved() const { return moved_; }  ///< the last advance did something
  const Status& status() const { return status_; }
  /// Rank that the operation waits for (-1: none) and the schedule step where.
  int waiting_on() const { return waiting_on_; }
  std::uint32_t waiting_step() const { return waiting_step_; }
  /// True if it waits for that peer's message; false: for its credit.
  bool waiting_for_message() const { return waiting_for_message_; }
  /// The peer whose message carried another fingerprint (status is mismatch).
  int mismatching_peer() const { return mismatching_peer_; }
  /// With Bindings::sizes_in_lines and a peer that runs the same operation: the bytes it sends, and those expected.
  std::uint64_t mismatching_bytes() const { return mismatching_bytes_; }
  std::uint64_t expected_bytes() const { return expected_bytes_; }
  /// Peer whose first message came last; -1: none yet.
  int last_peer() const { return last_peer_; }

 private:
  struct Cursor {
    std::uint64_t slice = 0;
    std::uint32_t action = 0;
    std::uint32_t ready = 0;  // operands of the current reduction known to be there
    std::uint16_t stream = 0;
    std::uint16_t lane = 0;
    bool finished = false;
  };
  enum class Move : std::uint8_t { done, blocked, failed };

  bool run(Cursor& cursor, ChannelSet& channels);
  Move perform(const Action& action, Cursor& cursor, ChannelSet& channels);
  Move perform_send(const Action& action, const Cursor& cursor, ChannelSet& channels);
  Move perform_receive(const Action& action, const Cursor& cursor, ChannelSet& channels);
  Move perform_reduce(const Action& action, Cursor& cursor, ChannelSet& channels);
  void perform_copy(const Action& action, const Cursor& cursor);
  Move perform_wait(const Action& action, const Cursor& cursor);
  bool next_slice(Cursor& cursor);

  /// The mailbox of an edge whose next message is there, or null with the reason in `move`.
  ReceiveChannel* arrived(std::int32_t edge, const Cursor& cursor, ChannelSet& channels, Move& move);
  Move refuse(const ReceiveChannel& channel, std::uint64_t expected, int peer);
  ReceiveChannel* receiver(std::int32_t edge, const Cursor& cursor) const {
    return edges_->receive[static_cast<std::size_t>(edge) * bindings_.streams + cursor.stream];
  }
  const std::byte* borrow(const ReceiveChannel& channel, std::int32_t edge, std::size_t bytes, Move& move);
  /// The mailbox of an edge with room for `bytes` at `place`, or null with the reason in `move`.
  SendChannel* room(std::int32_t edge, const Cursor& cursor, std::size_t bytes, ChannelSet& channels, std::byte*& place,
                    Move& move);
  void note_arrival(int peer);
  Move wait_for(const Cursor& cursor, int peer, bool message);
  Move fail(Status status);
  int physical_lane(const Cursor& cursor) const {
    return cursor.lane * static_cast<int>(bindings_.streams) + cursor.stream;
  }
  const ChunkRange& chunk_of(const Action& action) const;
  std::size_t piece(const Action& action, std::uint64_t slice) const;
  std::uint64_t line_fingerprint(const Action& action) const {
    return bindings_.sizes_in_lines ? bindings_.fingerprint ^ chunk_of(action).bytes : bindings_.fingerprint;
  }
  std::byte* address(Slot slot, const Cursor& cursor) const;
  void scaled_copy(std::byte* destination, const std::byte* source, std::size_t bytes, bool scale, bool final) const;

  const LoweredPlan* plan_ = nullptr;
  EdgeTable* edges_ = nullptr;
  EdgeTable own_edges_;
  Bindings bindings_;
  std::array<Cursor, kMaxLanes> cursors_;
  std::uint32_t cursor_count_ = 0;
  std::uint32_t unfinished_ = 0;
  std::vector<const void*> sources_;  // of the reduction at hand
  std::vector<std::uint64_t> seen_;   // peers whose first message has come, one bit each
  bool moved_ = false;
  bool waiting_for_message_ = true;
  int waiting_on_ = -1;
  std::uint32_t waiting_step_ = 0;
  int mismatching_peer_ = -1;
  std::uint64_t mismatching_bytes_ = 0, expected_bytes_ = 0;
  int last_peer_ = -1;
  Status status_;
};

}  // namespace tutti::core
