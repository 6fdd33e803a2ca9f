// SPDX-License-Identifier: Apache-2.0
#include "src/exec/executor.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace tutti::core {

namespace {

/// Bytes handled at a time where two passes over data should meet in the first-level cache (half of 32 KiB, the
/// smallest L1d of current x86 and arm64 server cores, for two streams).
constexpr std::size_t kBlock = 8192;

/// Slices that a cursor moves in one go while its peers keep up: then the driver looks at the verdict, at other
/// communicators and at whoever wants its token. Four default slices are 512 KiB, about 50 us.
constexpr std::uint32_t kSlicesPerTurn = 4;

}  // namespace

std::vector<ChunkRange> even_chunks(std::uint64_t count, std::uint32_t element, std::uint32_t chunks) {
  const std::uint64_t bytes = count * element;
  const auto begin = [&](std::uint32_t chunk) {
    // 128 bits: chunk * bytes overflows 64 for large messages.
    const auto exact = static_cast<std::uint64_t>(static_cast<unsigned __int128>(chunk) * bytes / chunks);
    return std::min(bytes, (exact + 63) / 64 * 64);
  };
  std::vector<ChunkRange> ranges(chunks);
  for (std::uint32_t c = 0; c < chunks; ++c)
    ranges[c] = {begin(c), (c + 1 == chunks ? bytes : begin(c + 1)) - begin(c)};
  return ranges;
}

std::vector<ChunkRange> block_chunks(std::uint64_t count, std::uint32_t element, std::uint32_t chunks) {
  std::vector<ChunkRange> ranges(chunks);
  for (std::uint32_t c = 0; c < chunks; ++c) ranges[c] = {c * count * element, count * element};
  return ranges;
}

std::vector<ChunkRange> one_of(std::vector<ChunkRange> chunks) {
  for (ChunkRange& chunk : chunks) chunk.offset = 0;
  return chunks;
}

std::uint64_t longest_chunk(const std::vector<ChunkRange>& chunks) {
  std::uint64_t longest = 0;
  for (const ChunkRange& chunk : chunks) longest = std::max(longest, chunk.bytes);
  return longest;
}

void CpuExecution::start(const LoweredPlan& plan, const Bindings& bindings) {
  plan_ = &plan;
  bindings_ = bindings;
  edges_ = bindings.edges ? bindings.edges : &own_edges_;
  if (edges_ == &own_edges_) own_edges_ = {};
  edges_->send.resize(plan.tx.size() * bindings.streams);
  edges_->receive.resize(plan.rx.size() * bindings.streams);
  cursor_count_ = 0;
  for (std::uint32_t stream = 0; stream < bindings.streams && stream < bindings.slices; ++stream)
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      Cursor& cursor = cursors_[cursor_count_++];
      cursor = {};
      cursor.slice = stream;
      cursor.stream = static_cast<std::uint16_t>(stream);
      cursor.lane = static_cast<std::uint16_t>(lane);
    }
  unfinished_ = cursor_count_;
  seen_.assign((static_cast<std::size_t>(plan.ranks) + 63) / 64, 0);
  moved_ = false;
  waiting_on_ = mismatching_peer_ = last_peer_ = -1;
  mismatching_bytes_ = expected_bytes_ = 0;
  status_ = {};
}

Progress CpuExecution::advance(ChannelSet& channels) {
  moved_ = false;
  for (std::uint32_t i = 0; i < cursor_count_; ++i) {
    if (cursors_[i].finished) continue;
    moved_ |= run(cursors_[i], channels);
    if (!status_.is_ok()) return Progress::failed;
  }
  return unfinished_ == 0 ? Progress::done : Progress::again;
}

/// Runs one cursor until it blocks or ends, or its turn is over; true if it moved.
bool CpuExecution::run(Cursor& cursor, ChannelSet& channels) {
  const auto& actions = plan_->lanes[cursor.lane];
  bool moved = false;
  std::uint32_t slices = 0;
  for (;;) {
    while (cursor.action < actions.size()) {
      const Move move = perform(actions[cursor.action], cursor, channels);
      if (move != Move::done) return moved;
      ++cursor.action;
      cursor.ready = 0;
      moved = true;
    }
    if (!next_slice(cursor)) return moved;
    moved = true;
    if (cursor.finished || ++slices == kSlicesPerTurn) return true;
  }
}

/// The lanes of a stream go to its next slice together, since they share scratch.
bool CpuExecution::next_slice(Cursor& cursor) {
  for (std::uint32_t i = 0; i < cursor_count_; ++i) {
    const Cursor& other = cursors_[i];
    if (other.stream == cursor.stream && other.slice == cursor.slice && !other.finished &&
        other.action < plan_->lanes[other.lane].size())
      return false;
  }
  cursor.slice += bindings_.streams;
  cursor.action = 0;
  if (cursor.slice >= bindings_.slices) {
    cursor.finished = true;
    --unfinished_;
  }
  return true;
}

CpuExecution::Move CpuExecution::perform(const Action& action, Cursor& cursor, ChannelSet& channels) {
  // Past its end a chunk sends nothing: both ends know its size. Its first piece goes out even if it is empty, so that
  // ranks which do not agree meet.
  if (cursor.slice > 0 && action.kind != ActionKind::wait && piece(action, cursor.slice) == 0) return Move::done;
  switch (action.kind) {
    case ActionKind::send: return perform_send(action, cursor, channels);
    case ActionKind::receive: return perform_receive(action, cursor, channels);
    case ActionKind::reduce: return perform_reduce(action, cursor, channels);
    case ActionKind::copy: perform_copy(action, cursor); return Move::done;
    case ActionKind::wait: return perform_wait(action, cursor);
  }
  return Move::done;
}

CpuExecution::Move CpuExecution::fail(Status status) {
  status_ = std::move(status);
  return Move::failed;
}

CpuExecution::Move CpuExecution::wait_for(const Cursor& cursor, int peer, bool message) {
  waiting_on_ = peer;
  waiting_step_ = plan_->lanes[cursor.lane][cursor.action].first_step;
  waiting_for_message_ = message;
  return Move::blocked;
}

const ChunkRange& CpuExecution::chunk_of(const Action& action) const {
  return (action.chunk_space == Space::input ? bindings_.input_chunks : bindings_.output_chunks)[action.chunk];
}

std::size_t CpuExecution::piece(const Action& action, std::uint64_t slice) const {
  const std::uint64_t length = chunk_of(action).bytes;
  const std::uint64_t offset = bindings_.slice * slice;
  return offset >= length ? 0 : static_cast<std::size_t>(std::min(length - offset, bindings_.slice));
}

std::byte* CpuExecution::address(Slot slot, const Cursor& cursor) const {
  const std::uint64_t at = bindings_.slice * cursor.slice;
  switch (slot.where()) {
    case Space::input: return const_cast<std::byte*>(bindings_.input) + bindings_.input_chunks[slot.chunk].offset + at;
    case Space::output: return bindings_.output + bindings_.output_chunks[slot.chunk].offset + at;
    case Space::scratch: break;
  }
  return bindings_.scratch + (std::size_t{cursor.stream} * plan_->scratch_chunks + slot.chunk) * bindings_.slice;
}

SendChannel* CpuExecution::room(std::int32_t edge, const Cursor& cursor, std::size_t bytes, ChannelSet& channels,
                                std::byte*& place, Move& move) {
  SendChannel*& channel = edges_->send[static_cast<std::size_t>(edge) * bindings_.streams + cursor.stream];
  if (!channel) {
    channel = channels.send(plan_->tx[static_cast<std::size_t>(edge)].peer, physical_lane(cursor));
    if (!channel) {
      move = fail(channels.status());
      return nullptr;
    }
  }
  place = channel->reserve(bytes, bindings_.fifo_bytes);
  if (place) return channel;
  move = channel->failure().is_ok() ? wait_for(cursor, plan_->tx[static_cast<std::size_t>(edge)].peer, false)
                                    : fail(channel->failure());
  return nullptr;
}

ReceiveChannel* CpuExecution::arrived(std::int32_t edge, const Cursor& cursor, ChannelSet& channels, Move& move) {
  ReceiveChannel*& channel = edges_->receive[static_cast<std::size_t>(edge) * bindings_.streams + cursor.stream];
  const int peer = plan_->rx[static_cast<std::size_t>(edge)].peer;
  if (!channel && !(channel = channels.receive(peer, physical_lane(cursor))) && !channels.status().is_ok()) {
    move = fail(channels.status());
    return nullptr;
  }
  if (!channel || !channel->ready(bindings_.epoch_bits)) {
    move = wait_for(cursor, peer, true);
    return nullptr;
  }
  if (kMismatchCheck) {
    const std::uint64_t expected = line_fingerprint(plan_->lanes[cursor.lane][cursor.action]);
    if (channel->fingerprint() != expected) {
      move = refuse(*channel, expected, peer);
      return nullptr;
    }
  }
  if (peer != last_peer_) note_arrival(peer);
  return channel;
}

CpuExecution::Move CpuExecution::refuse(const ReceiveChannel& channel, std::uint64_t expected, int peer) {
  mismatching_peer_ = peer;
  mismatching_bytes_ = channel.fingerprint() ^ bindings_.fingerprint;
  expected_bytes_ = expected ^ bindings_.fingerprint;
  return fail(Status::error(TUTTI_MISMATCH, "rank " + std::to_string(peer) + " called another operation", peer));
}

void CpuExecution::note_arrival(int peer) {
  auto& word = seen_[static_cast<std::size_t>(peer) / 64];
  const std::uint64_t bit = std::uint64_t{1} << (peer % 64);
  if (word & bit) return;
  word |= bit;
  last_peer_ = peer;
}

const std::byte* CpuExecution::borrow(const ReceiveChannel& channel, std::int32_t edge, std::size_t bytes, Move& move) {
  const std::byte* data = channel.data(bytes);
  if (data) return data;
  const int peer = plan_->rx[static_cast<std::size_t>(edge)].peer;
  move =
      fail(Status::error(TUTTI_INTERNAL, "rank " + std::to_string(peer) + " sent a message of another length", peer));
  return nullptr;
}

CpuExecution::Move CpuExecution::perform_send(const Action& action, const Cursor& cursor, ChannelSet& channels) {
  const std::size_t bytes = piece(action, cursor.slice);
  Move move = Move::done;
  std::byte* place = nullptr;
  SendChannel* channel = room(action.edge, cursor, bytes, channels, place, move);
  if (!channel) return move;
  scaled_copy(place, address(action.src, cursor), bytes, action.scale, false);
  channel->commit(bytes, line_fingerprint(action), bindings_.epoch_bits);
  return Move::done;
}

CpuExecution::Move CpuExecution::perform_receive(const Action& action, const Cursor& cursor, ChannelSet& channels) {
  const std::size_t bytes = piece(action, cursor.slice);
  Move move = Move::done;
  ReceiveChannel* source = arrived(action.edge, cursor, channels, move);
  if (!source) return move;
  std::byte* place = nullptr;
  SendChannel* onward = nullptr;
  if (action.forward >= 0 && !(onward = room(action.forward, cursor, bytes, channels, place, move))) return move;
  const std::byte* data = borrow(*source, action.edge, bytes, move);
  if (!data) return move;
  std::byte* destination = onward && !action.keep ? place : address(action.dst, cursor);
  if (!onward || !action.keep) {
    if (bytes) std::memcpy(destination, data, bytes);
  } else {
    // The second copy of a block reads it from the first-level cache.
    for (std::size_t at = 0; at < bytes; at += kBlock) {
      const std::size_t n = std::min(kBlock, bytes - at);
      std::memcpy(destination + at, data + at, n);
      std::memcpy(place + at, destination + at, n);
    }
  }
  source->release(bytes);
  if (onward) onward->commit(bytes, line_fingerprint(action), bindings_.epoch_bits);
  return Move::done;
}

CpuExecution::Move CpuExecution::perform_reduce(const Action& action, Cursor& cursor, ChannelSet& channels) {
  const std::size_t bytes = piece(action, cursor.slice);
  const Operand* operands = plan_->operands.data() + action.first_operand;
  Move move = Move::done;
  // Messages are awaited in operand order; those known to be there are not looked at again.
  for (; cursor.ready < action.operand_count; ++cursor.ready)
    if (operands[cursor.ready].edge >= 0 && !arrived(operands[cursor.ready].edge, cursor, channels, move)) return move;
  std::byte* place = nullptr;
  SendChannel* onward = nullptr;
  if (action.forward >= 0 && !(onward = room(action.forward, cursor, bytes, channels, place, move))) return move;

  int raw = -1;
  const bool multiply = action.scale && bindings_.scale != 1.0;
  sources_.resize(action.operand_count);  // keeps its capacity: no allocation in steady state
  for (std::uint32_t k = 0; k < action.operand_count; ++k) {
    const Operand& operand = operands[k];
    if (operand.edge >= 0) {
      // Looked at again here: a peer that has lost its mind may have written over it meanwhile.
      sources_[k] = borrow(*receiver(operand.edge, cursor), operand.edge, bytes, move);
      if (!sources_[k]) return move;
    } else {
      sources_[k] = address(operand.slot, cursor);
      if (multiply && operand.slot.where() == Space::input) raw = static_cast<int>(k);
    }
  }
  const bool both = onward && action.keep;
  std::byte* destination = onward && !action.keep ? place : address(action.dst, cursor);
  ReduceArgs args{destination, sources_.data(), static_cast<int>(action.operand_count), 0,
                  raw,         bindings_.scale, action.final ? bindings_.divisor : 0,   action.final};
  const std::size_t block = both ? kBlock : bytes;
  for (std::size_t at = 0; at < bytes; at += block) {
    const std::size_t n = std::min(block, bytes - at);
    args.count = n / bindings_.element;
    args.destination = destination + at;
    bindings_.kernel(args);
    if (both) std::memcpy(place + at, destination + at, n);
    if (at + n < bytes)
      for (const void*& source : sources_) source = static_cast<const std::byte*>(source) + n;
  }
  for (std::uint32_t k = 0; k < action.operand_count; ++k)
    if (operands[k].edge >= 0) receiver(operands[k].edge, cursor)->release(bytes);
  if (onward) onward->commit(bytes, line_fingerprint(action), bindings_.epoch_bits);
  return Move::done;
}

void CpuExecution::perform_copy(const Action& action, const Cursor& cursor) {
  const std::size_t bytes = piece(action, cursor.slice);
  scaled_copy(address(action.dst, cursor), address(action.src, cursor), bytes, action.scale, action.final);
}

/// Copies, applying first and final touch where they change anything.
void CpuExecution::scaled_copy(std::byte* destination, const std::byte* source, std::size_t bytes, bool scale,
                               bool final) const {
  if (bytes == 0) return;
  const bool multiply = scale && bindings_.scale != 1.0;
  if (!bindings_.kernel || (!multiply && !final)) {
    if (destination != source) std::memcpy(destination, source, bytes);
    return;
  }
  const void* const sources[] = {source};
  bindings_.kernel({destination, sources, 1, bytes / bindings_.element, multiply ? 0 : -1, bindings_.scale,
                    final ? bindings_.divisor : 0, final});
}

CpuExecution::Move CpuExecution::perform_wait(const Action& action, const Cursor& cursor) {
  for (std::uint32_t i = 0; i < cursor_count_; ++i) {
    const Cursor& other = cursors_[i];
    if (other.stream != cursor.stream || other.lane != action.src.chunk) continue;
    // A lane that is still at the end of the slice before has not begun this one.
    const bool reached = other.slice == cursor.slice && other.action > action.dst.chunk;
    if (other.finished || other.slice > cursor.slice || reached) return Move::done;
  }
  return wait_for(cursor, plan_->rank, true);
}

}  // namespace tutti::core
