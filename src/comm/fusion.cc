// SPDX-License-Identifier: Apache-2.0
#include "src/comm/fusion.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/random.h"
#include "src/comm/call_buffers.h"
#include "src/comm/communicator.h"

namespace tutti::core {

bool worth_fusing(const RowCost& row, const LinkCost& link, std::uint64_t bytes) {
  const double packing = 2.0 * static_cast<double>(bytes) * link.delta_ns;
  return packing < row.rounds * link.alpha_ns + row.messages * link.overhead_ns;
}

// ---- independence ------------------------------------------------------------------------------------------------

namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool overlaps(const Range& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
};

Range range_of(const void* pointer, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  return {begin, begin + bytes};
}

Range read_by(const Call& call, int rank, int ranks) {
  const CallBuffers buffers = buffers_of(call, rank, ranks);
  return buffers.reads ? range_of(call.in, buffers.in_bytes) : Range{};
}

/// Whether the call changes anything in `range`.
bool writes_into(const Call& call, const Range& range, int rank, int ranks) {
  const CallBuffers buffers = buffers_of(call, rank, ranks);
  if (!buffers.writes) return false;
  const Range written = range_of(call.out, buffers.out_bytes);
  if (is_reduction(call.what)) return written.overlaps(range);
  // In place, this rank's own block is what it was before: in the input for the forms that cut it up, else in the
  // output.
  const Range read = read_by(call, rank, ranks);
  if (read.begin <= written.begin && written.end <= read.end) return false;
  return Range{written.begin, std::min(written.end, std::max(written.begin, read.begin))}.overlaps(range) ||
         Range{std::max(written.begin, std::min(written.end, read.end)), written.end}.overlaps(range);
}

bool same_kind(const Call& a, const Call& b) {
  return a.what == b.what && a.peer == b.peer && (!is_reduction(a.what) || (a.type == b.type && a.op == b.op));
}

/// Pre-multiplied sums go alone: an exchange has one factor.
bool can_fuse(const Call& call) {
  return !is_point_to_point(call.what) && call.what != TUTTI_BARRIER && !is_variable(call.what) &&
         !(is_reduction(call.what) && call.op == TUTTI_PRE_MUL_SUM);
}

}  // namespace

Status check_independent(const std::vector<Operation*>& operations, int rank, int ranks) {
  const auto may_fuse = [](const Call& call) { return can_fuse(call) && call.count != 0; };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Call& call = operations[i]->call;
    if (!may_fuse(call)) continue;
    const Range reads = read_by(call, rank, ranks);
    // Back over those that may be in its exchange.
    std::size_t seen = 1;
    for (std::size_t j = i; j-- > 0 && seen < kMostFused;) {
      const Call& earlier = operations[j]->call;
      if (is_point_to_point(earlier.what)) continue;
      if (!may_fuse(earlier) || !same_kind(earlier, call)) break;
      ++seen;
      if (writes_into(earlier, reads, rank, ranks))
        return Status::error(TUTTI_INVALID_ARGUMENT,
                             "in a group, " + describe(call) + " reads memory that an earlier " + describe(earlier) +
                                 " of the same group writes (rank " + std::to_string(rank) + ")")
            .with_remedy("calls of one kind inside a group are one exchange: end the group between the two");
    }
  }
  return {};
}

// ---- the exchange ------------------------------------------------------------------------------------------------

Contract FusedExchange::contract() const { return {what_, ranks_, std::max(root_, 0), plan_->lowered.chunks}; }

void FusedExchange::open(Operation& operation, const CallEntry& entry) {
  operations_.clear();
  fingerprints_.clear();
  ranges_.clear();
  packed_.assign(entry.plan->lowered.chunks, {});
  what_ = entry.what;
  type_ = entry.type;
  op_ = entry.op;
  root_ = entry.root;
  plan_ = entry.plan;
  append(operation, entry);
}

bool FusedExchange::add(Operation& operation, const CallEntry& entry) {
  if (operations_.size() == kMostFused || entry.what != what_ || entry.plan != plan_) return false;
  if (bytes_ + entry.bytes > kMostFusedBytes) return false;
  if (is_reduction(what_) && (entry.type != type_ || entry.op != op_)) return false;
  append(operation, entry);
  return true;
}

void FusedExchange::append(Operation& operation, const CallEntry& entry) {
  operations_.push_back(&operation);
  fingerprints_.push_back(entry.fingerprint);
  std::uint64_t offset = 0;
  for (std::size_t c = 0; c < packed_.size(); ++c) {
    ranges_.push_back({entry.input_chunks[c].offset, entry.output_chunks[c].offset, entry.output_chunks[c].bytes});
    packed_[c].bytes += entry.output_chunks[c].bytes;
    packed_[c].offset = offset;
    offset += packed_[c].bytes;
  }
  bytes_ = offset;
}

std::uint64_t FusedExchange::hash() const {
  std::uint64_t hash = hash_combine(0, fingerprints_.size());
  for (const std::uint64_t fingerprint : fingerprints_) hash = hash_combine(hash, fingerprint);
  return hash;
}

/// copy(piece, its range, place in the packed buffer) for a chunk of every operation.
template <class Copy>
void FusedExchange::for_each_piece(std::uint32_t chunk, const Copy& copy) const {
  std::uint64_t at = packed_[chunk].offset;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const PieceRange& range = ranges_[i * packed_.size() + chunk];
    if (range.bytes != 0) copy(operations_[i]->call, range, at);
    at += range.bytes;
  }
}

Status FusedExchange::bind(Bindings& bindings) {
  const std::size_t needed = bytes_ * (separate() ? 2 : 1);
  if (needed > capacity_) {
    const std::size_t rounded = std::bit_ceil(std::max<std::size_t>(needed, 4096));
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    capacity_ = buffer_ ? rounded : 0;
    if (!buffer_)
      return Status::error(TUTTI_UNAVAILABLE,
                           "no memory for " + std::to_string(rounded) + " bytes to pack a group's operations");
    std::memset(buffer_.get(), 0, rounded);  // first touch now, not in the next operations
  }
  const Contract promise = contract();
  for (std::uint32_t c = 0; c < promise.chunks(); ++c)
    if (promise.has_input(rank_, c))
      for_each_piece(c, [&](const Call& call, const PieceRange& range, std::uint64_t at) {
        std::memcpy(buffer_.get() + at, static_cast<const std::byte*>(call.in) + range.input, range.bytes);
      });
  bindings.input = buffer_.get();
  bindings.output = output();
  bindings.input_chunks = bindings.output_chunks = packed_.data();
  // Another plan than last time, perhaps; a look into a table finds the mailboxes again.
  edges_.send.assign(plan_->lowered.tx.size() * bindings.streams, nullptr);
  edges_.receive.assign(plan_->lowered.rx.size() * bindings.streams, nullptr);
  bindings.edges = &edges_;
  return {};
}

void FusedExchange::unpack() {
  const Contract promise = contract();
  for (std::uint32_t c = 0; c < promise.chunks(); ++c)
    if (promise.has_output(rank_, c))
      for_each_piece(c, [&](const Call& call, const PieceRange& range, std::uint64_t at) {
        std::memcpy(static_cast<std::byte*>(call.out) + range.output, output() + at, range.bytes);
      });
}

// ---- in a communicator -------------------------------------------------------------------------------------------

/// Starts `first` and what follows it in its group as one exchange, if that is worth it.
Communicator::Fused Communicator::start_fused(Operation& first) {
  const auto eligible = [this](const Operation& operation) -> const CallEntry* {
    if (!can_fuse(operation.call) || operation.call.count == 0) return nullptr;
    auto found = find_entry(operation.call);
    if (!found.is_ok()) return nullptr;
    const CallEntry& entry = **found;
    return worth_fusing(entry.plan->row->cost(ranks()), selector_.cost(), entry.bytes) ? &entry : nullptr;
  };
  const CallEntry* entry = config_.group_fusion() ? eligible(first) : nullptr;
  if (!entry) return Fused::no;
  // The most recently used plan now: looking up what does not fuse cannot push it out.
  if (!plans_.get(*entry->plan->row, entry->plan->root).is_ok()) return Fused::no;
  fused_.open(first, *entry);
  Bindings bindings = entry->bindings;
  for (;;) {
    Operation* next = nullptr;
    {
      std::lock_guard lock(queue_mutex_);
      if (!queue_.empty() && queue_.front()->group == first.group) next = queue_.front();
    }
    // Only this thread, which holds the token, takes from the queue: the front stays.
    if (!next || !(entry = eligible(*next)) || !fused_.add(*next, *entry)) break;
    std::lock_guard lock(queue_mutex_);
    queue_.pop_front();
    queued_.fetch_sub(1, std::memory_order_release);
  }
  if (fused_.operations().size() == 1) {
    fused_.clear();
    return Fused::no;
  }
  announce_fused();
  slice_up(bindings, longest_chunk(fused_.chunks()), fused_.plan());
  Status status = ensure_scratch(std::size_t{bindings.streams} * fused_.plan().lowered.scratch_chunks * bindings.slice);
  if (status.is_ok()) status = fused_.bind(bindings);
  if (!status.is_ok()) {
    // What only this rank lacks the peers must be told.
    fail(std::move(status).with_context(operation_text(first.number, first.call)).with_rank(rank_));
    finish_fused(this->status());
    return Fused::ended;
  }
  bindings.scratch = scratch_;
  bindings.fingerprint = first.record->fingerprint;
  if (process_->fifos().exceeded()) process_->trim_fifos(this);
  first.execution.start(fused_.plan().lowered, bindings);
  return Fused::running;
}

/// Every operation of the exchange gets what it would have alone: number, descriptor, record, times, event.
void Communicator::announce_fused() {
  const auto& operations = fused_.operations();
  Operation& first = *operations.front();
  const std::uint64_t now = clock_.now();
  const std::uint64_t hash = mixed(fused_.hash(), first.number);
  std::uint64_t deadline = UINT64_MAX;
  look_ticks_ = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Operation& operation = *operations[i];
    // A call that was thrown out of the table by a later one of this list comes back into it here.
    auto found = find_entry(operation.call);
    operation.entry = found.is_ok() ? *found : nullptr;
    operation.row = fused_.plan().row;
    operation.exchange = pack_exchange(first.number, operations.size());
    operation.started_ticks = now;
    operation.first_ticks = operation.last_peer_ticks = operation.done_ticks = 0;
    operation.last_peer = -1;
    deadline = std::min(deadline, now + timeout_ticks(operation.call));
    // One number, one fingerprint: a peer that runs any of them otherwise is found at that one.
    const std::uint64_t fingerprint = kMismatchCheck ? (i == 0 ? hash : hash_combine(hash, i)) : 0;
    Announcement input, output;
    publish(operation, fingerprint, input, output);
    record(operation, fingerprint, input, output);
    operation.state.store(Operation::State::running, std::memory_order_release);  // pairs with fill_times()
    if (hook_.load(std::memory_order_relaxed)) emit(TUTTI_EVENT_BEGIN, operation, TUTTI_IN_PROGRESS);
  }
  first.deadline_ticks = deadline;
  next_look_ = now + compare_ticks_;
  suspect_since_ = 0;
}

void Communicator::finish_fused(const Status& status) {
  if (status.is_ok()) fused_.unpack();
  const Operation& first = *fused_.operations().front();
  const int last_peer = first.last_peer;
  const std::uint64_t first_ticks = first.first_ticks, last_peer_ticks = first.last_peer_ticks;
  for (Operation* operation : fused_.operations()) {
    operation->last_peer = last_peer;
    operation->first_ticks = first_ticks;
    operation->last_peer_ticks = last_peer_ticks;
    finish_one(*operation, status);
  }
  fused_.clear();
}

Status Communicator::submit_group(const std::vector<Operation*>& operations) {
  for (Operation* operation : operations) operation->submitted.store(true, std::memory_order_release);
  Status refused = config_.group_fusion() ? check_independent(operations, rank_, ranks()) : Status{};
  if (refused.is_ok()) refused = enter();
  if (!refused.is_ok()) {
    for (Operation* operation : operations) operation->finish(refused);
    return refused;
  }
  const std::uint64_t group = ++groups_;
  {
    // At once: whoever drives must see all of them, as every other rank does.
    std::lock_guard lock(queue_mutex_);
    for (Operation* operation : operations) {
      operation->retain();
      pending_.fetch_add(1, std::memory_order_acq_rel);
      operation->group = group;
      if (!is_point_to_point(operation->call.what)) operation->number = next_number_++;
      enqueue_locked(operation);
    }
  }
  poke();  // what can go out now does
  if (!quiet()) process_->engine().activate(this);
  leave();
  return {};
}

}  // namespace tutti::core
