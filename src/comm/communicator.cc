// SPDX-License-Identifier: Apache-2.0
// Issue and progress of operations.
#include "src/comm/communicator.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "src/base/random.h"
#include "src/comm/call_buffers.h"

namespace tutti::core {

namespace {

/// Polls between two looks at the clock while spinning: the first look comes after any small operation is long done.
constexpr std::uint32_t kPollsPerLook = 64;
/// How long a peer's heartbeat is watched after a deadline before it counts as frozen: waiting ranks beat at least once
/// a millisecond, and a busy machine may withhold a time slice or two (4-10 ms each).
constexpr std::int64_t kHeartbeatWatchNs = 60'000'000;
/// And how often this rank must have beaten meanwhile: where it gets no core itself, its peers may get none either. At
/// most kLongestWatchNs, though.
constexpr std::uint64_t kOwnBeats = 40;
constexpr std::int64_t kLongestWatchNs = 700'000'000;

}  // namespace

// ---- checks ------------------------------------------------------------------------------------------------------

Status Communicator::check(const Call& call) const {
  TUTTI_TRY(check_call(call, rank_, ranks()));
  // Refused here, a wrong name consumes no number: the ranks stay in step.
  if (!call.algorithm.empty()) TUTTI_TRY(selector_.choose(call.what, 0, call.algorithm));
  return {};
}

Status Communicator::enter() {
  if (Process::forked()) return Process::refuse_fork();
  if (issuing_.test_and_set(std::memory_order_acquire))
    return Status::error(TUTTI_INVALID_ARGUMENT, "two threads are inside communicator \"" + name_ +
                                                     "\" at once (rank " + std::to_string(rank_) + ")")
        .with_remedy("one thread at a time per communicator; give each thread its own by tutti_comm_split");
  // The verdict, too: a call that needs nothing of its peers would never look at it.
  if (failed_.load(std::memory_order_acquire) || control_->verdict.load(std::memory_order_acquire) != 0) {
    leave();
    return status();
  }
  return {};
}

// ---- issue -------------------------------------------------------------------------------------------------------

Status Communicator::run(const Call& call, int* source) {
  TUTTI_TRY(check(call));
  TUTTI_TRY(enter());
  Operation* operation = &inline_;
  const bool point_to_point = call.what == TUTTI_SEND || call.what == TUTTI_RECV;
  operation->call = call;
  operation->communicator = this;
  operation->asynchronous = false;
  operation->source_out = source;
  operation->issued_ticks = clock_.now();
  operation->state.store(Operation::State::queued, std::memory_order_relaxed);
  operation->retain();  // the queue's
  if (!point_to_point) operation->number = next_number_++;
  // Nothing waits before it: it becomes the current operation without a detour through the queue.
  if (!point_to_point && queued_.load(std::memory_order_acquire) == 0 && try_drive()) {
    if (!current_ && queued_.load(std::memory_order_acquire) == 0 && !failed_.load(std::memory_order_acquire)) {
      current_ = operation;
      if (!start(*operation)) current_ = nullptr;
    } else {
      enqueue(operation);
    }
    const Status status = drive_until_done(*operation, -1, true);
    leave();
    return status;
  }
  enqueue(operation);
  const Status status = drive_until_done(*operation, -1, false);
  leave();
  return status;
}

void Communicator::enqueue(Operation* operation) {
  std::lock_guard lock(queue_mutex_);
  enqueue_locked(operation);
}

void Communicator::enqueue_locked(Operation* operation) {
  const bool point_to_point = is_point_to_point(operation->call.what);
  (point_to_point ? new_point_to_point_ : queue_).push_back(operation);
  if (point_to_point) new_point_to_point_count_.fetch_add(1, std::memory_order_release);
  queued_.fetch_add(1, std::memory_order_release);
}

Result<Operation*> Communicator::prepare(const Call& call, int* source) {
  TUTTI_TRY(check(call));
  auto* operation = new Operation();
  operation->call = call;
  operation->keep_arguments(ranks());
  operation->communicator = this;
  operation->asynchronous = true;
  operation->source_out = source;
  operation->issued_ticks = clock_.now();
  operation->submitted.store(false, std::memory_order_relaxed);
  return operation;
}

Status Communicator::submit(Operation& operation) {
  operation.submitted.store(true, std::memory_order_release);
  Status entered = enter();
  if (!entered.is_ok()) {
    operation.finish(entered);
    return entered;
  }
  operation.retain();
  if (operation.call.what != TUTTI_SEND && operation.call.what != TUTTI_RECV) operation.number = next_number_++;
  pending_.fetch_add(1, std::memory_order_acq_rel);
  enqueue(&operation);
  poke();  // what can go out now does
  if (!operation.done()) process_->engine().activate(this);
  leave();
  return {};
}

// ---- progress ----------------------------------------------------------------------------------------------------

bool Communicator::poke() {
  if (!try_drive()) return false;
  const bool moved = drive_once();
  // Whoever waits here did not see it happen.
  if (moved && must_ring(*control_)) SendChannel::ring(*control_);
  stop_driving();
  return moved;
}

bool Communicator::drive_once() {
  if (advance()) return true;
  if (current_) look_around(*current_);
  if (point_to_point_active_) check_point_to_point();
  return false;
}

/// One round over everything that can move. Drive token held.
bool Communicator::advance() {
  // A call may have entered just before leave_at_exit() ended everything: the peers' memory is not to be touched now.
  if (failed_.load(std::memory_order_acquire) && (queued_.load(std::memory_order_acquire) > 0 || current_)) {
    end_everything(status());
    return true;
  }
  bool moved = false;
  if (new_point_to_point_count_.load(std::memory_order_acquire) > 0) {
    while (Operation* fresh = take_point_to_point()) start_point_to_point(fresh);
    moved = true;
  }
  if (point_to_point_active_) {
    moved |= point_to_point_->advance();
    point_to_point_active_ = !point_to_point_->idle();
  }
  moved |= advance_collectives();
  if (control_->verdict.load(std::memory_order_acquire) != 0) notice_verdict();
  return moved;
}

Operation* Communicator::take_point_to_point() {
  std::lock_guard lock(queue_mutex_);
  if (new_point_to_point_.empty()) return nullptr;
  Operation* operation = new_point_to_point_.front();
  new_point_to_point_.pop_front();
  queued_.fetch_sub(1, std::memory_order_relaxed);
  new_point_to_point_count_.fetch_sub(1, std::memory_order_relaxed);
  return operation;
}

bool Communicator::advance_collectives() {
  bool moved = false;
  for (;;) {
    if (!current_) {
      if (queued_.load(std::memory_order_acquire) == 0) return moved;
      {
        std::lock_guard lock(queue_mutex_);
        if (queue_.empty()) return moved;
        current_ = queue_.front();
        queue_.pop_front();
        queued_.fetch_sub(1, std::memory_order_release);
      }
      moved = true;
      if (!start(*current_)) {
        current_ = nullptr;
        continue;
      }
    }
    if (!step(*current_)) return moved || last_step_moved_;
    moved = true;
    current_ = nullptr;
  }
}

/// Advances the running collective; true when it is finished (and may be gone).
bool Communicator::step(Operation& operation) {
  const Progress progress = operation.execution.advance(channels_);
  last_step_moved_ = operation.execution.moved();
  if (last_step_moved_ && operation.execution.last_peer() != operation.last_peer) {
    operation.last_peer = operation.execution.last_peer();
    // Only past the first polls: a small operation does not pay for a second look at the clock.
    if (operation.first_ticks == 0) operation.first_ticks = look_ticks_ ? look_ticks_ : operation.started_ticks;
    operation.last_peer_ticks = look_ticks_ ? look_ticks_ : operation.started_ticks;
  }
  if (progress == Progress::again) return false;
  if (progress == Progress::done) {
    finish(operation, {});
    return true;
  }
  Status status = operation.execution.status();
  if (status.code() == TUTTI_MISMATCH)
    status = mismatch_at(operation);
  else
    status = std::move(status).with_context(operation_text(operation.number, operation.call));
  fail(status);
  finish(operation, this->status());
  return true;
}

/// What this rank knows about the buffers of a call.
void Communicator::announce(const Call& call, Announcement& input, Announcement& output) const {
  const CallBuffers buffers = buffers_of(call, rank_, ranks());
  if (buffers.reads && call.in) input = process_->memory().find(call.in, buffers.in_bytes);
  if (buffers.writes && call.out) output = process_->memory().find(call.out, buffers.out_bytes);
}

/// Says on the control page what this rank calls, for peers that compare and for the agreement on mapped buffers.
void Communicator::publish(const Operation& operation, std::uint64_t fingerprint, Announcement& input,
                           Announcement& output) {
  const Call& call = operation.call;
  if (!process_->memory().empty()) announce(call, input, output);
  control_->descriptors[operation.number % kDescriptors].write(
      operation.number,
      {fingerprint, call.count,
       operation.entry ? operation.entry->call_word : pack_call(call.what, call.type, call.op, call.peer), call.tag,
       input, output, operation.exchange, operation.entry ? operation.entry->weighted_count : 0});
  control_->operation.store(operation.number + 1, std::memory_order_release);
}

/// Opens the operation's record in the flight recorder.
void Communicator::record(Operation& operation, std::uint64_t fingerprint, const Announcement& input,
                          const Announcement& output) {
  const Call& call = operation.call;
  Record& record = is_point_to_point(call.what) ? recorder_->transfers[operation.number % kTransfersPerCommunicator]
                                                : recorder_->records[operation.number % kRecordsPerCommunicator];
  record.sequence.store(0, std::memory_order_relaxed);
  record.fingerprint = fingerprint;
  record.count = call.count;
  record.tag = call.tag;
  record.issued = operation.issued_ticks;
  record.started = operation.started_ticks;
  record.first_byte = record.last_peer_time = 0;
  record.done.store(0, std::memory_order_relaxed);
  record.what = static_cast<std::uint8_t>(call.what);
  record.type = static_cast<std::uint8_t>(call.type);
  record.op = static_cast<std::uint8_t>(call.op);
  record.peer = call.peer;
  record.last_peer = -1;
  record.code = TUTTI_IN_PROGRESS;
  record.input_registration = input.registration;
  record.output_registration = output.registration;
  if (const CallEntry* entry = operation.entry) {
    record.bytes = entry->bytes;
    record.lanes = static_cast<std::uint8_t>(entry->bindings.streams);
    std::memcpy(record.row, entry->row, sizeof record.row);  // padded when the entry was filled
  } else {
    record.bytes = 0;
    record.lanes = 0;
    std::memset(record.row, 0, sizeof record.row);
  }
  operation.record = &record;
  record.sequence.store(operation.number + 1, std::memory_order_release);
}

/// Makes `operation` the running collective. False: it has ended already.
bool Communicator::start(Operation& operation) {
  if (operation.group != 0) {
    const Fused fused = start_fused(operation);
    if (fused != Fused::no) return fused == Fused::running;
  }
  const Call& call = operation.call;
  auto found = find_entry(call);
  CallEntry* entry = found.is_ok() ? *found : nullptr;
  begin(operation, entry);
  const std::uint64_t fingerprint = entry ? mixed(entry->fingerprint, operation.number) : 0;
  Announcement input, output;
  publish(operation, fingerprint, input, output);
  record(operation, fingerprint, input, output);
  operation.state.store(Operation::State::running, std::memory_order_release);  // pairs with fill_times()
  if (hook_.load(std::memory_order_relaxed)) emit(TUTTI_EVENT_BEGIN, operation, TUTTI_IN_PROGRESS);

  if (!entry) {
    // Wrong in the same way on every rank, or a mismatch that the peers find: this rank's number is consumed either
    // way. What only this rank lacks (memory) the peers must be told.
    Status status = Status(found.status()).with_context(operation_text(operation.number, call));
    if (status.code() == TUTTI_UNAVAILABLE || status.code() == TUTTI_INTERNAL) {
      fail(std::move(status).with_rank(rank_));
      status = this->status();
    }
    finish(operation, std::move(status));
    return false;
  }
  // In all_to_all_v this rank's zeros say nothing about what it is to receive, nor whether its peers agree.
  if (call.count == 0 && call.what != TUTTI_BARRIER && call.what != TUTTI_ALL_TO_ALL_V) {
    finish(operation, {});
    return false;
  }
  remember_small(call, *entry);
  launch(operation, fingerprint);
  return true;
}

/// Sets everything about an operation that is fixed when it starts, but for its record.
void Communicator::begin(Operation& operation, CallEntry* entry) {
  operation.entry = entry;
  operation.row = entry ? entry->plan->row : nullptr;
  operation.started_ticks = clock_.now();
  operation.first_ticks = operation.last_peer_ticks = operation.done_ticks = 0;
  operation.last_peer = -1;
  look_ticks_ = 0;
}

/// Hands an operation with an entry to the executor.
void Communicator::launch(Operation& operation, std::uint64_t fingerprint) {
  const Call& call = operation.call;
  operation.deadline_ticks = operation.started_ticks + timeout_ticks(call);
  next_look_ = operation.started_ticks + compare_ticks_;
  suspect_since_ = 0;

  Bindings bindings = operation.entry->bindings;
  bindings.input = static_cast<const std::byte*>(call.in);
  bindings.output = static_cast<std::byte*>(call.out);
  bindings.scratch = scratch_;
  bindings.fingerprint = fingerprint;
  // Not the entry's: one serves the sums of all factors.
  if (call.op == TUTTI_PRE_MUL_SUM) bindings.scale = call.factor;
  if (process_->fifos().exceeded()) process_->trim_fifos(this);
  operation.execution.start(operation.entry->plan->lowered, bindings);
}

void Communicator::drop_idle_fifos() {
  if (!try_drive()) return;
  if (!current_) channels_.drop_idle_fifos();
  stop_driving();
}

std::uint64_t Communicator::timeout_ticks(const Call& call) const {
  return call.timeout_s > 0 ? clock_.from_ns(seconds_to_ns(call.timeout_s)) : timeout_ticks_;
}

/// Ends a collective, and those that share its exchange. Nothing of it may be touched afterwards.
void Communicator::finish(Operation& operation, Status status) {
  if (fused_.empty())
    finish_one(operation, std::move(status));
  else
    finish_fused(status);
}

void Communicator::finish_one(Operation& operation, Status status) {
  operation.done_ticks = clock_.now();
  if (Record* record = operation.record) {
    record->last_peer = operation.last_peer;
    record->first_byte = operation.first_ticks;
    record->last_peer_time = operation.last_peer_ticks;
    record->code = status.code();
    record->done.store(operation.done_ticks, std::memory_order_release);
  }
  control_->completed.store(operation.number + 1, std::memory_order_release);
  if (told_waiting_) {
    told_waiting_ = false;
    control_->waiting.store(0, std::memory_order_relaxed);
    recorder_->waiting_on.store(0, std::memory_order_relaxed);
  }
  if (hook_.load(std::memory_order_relaxed)) emit(TUTTI_EVENT_END, operation, status.code());
  conclude(operation, std::move(status));
}

/// The part of ending that collectives and point to point share.
void Communicator::conclude(Operation& operation, Status status) {
  const bool asynchronous = operation.asynchronous;
  operation.finish(std::move(status));
  operation.release();
  if (asynchronous) {
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    if (must_ring(*control_)) SendChannel::ring(*control_);  // a waiter on another thread
  } else if (waiters_.load(std::memory_order_relaxed) > 1 && must_ring(*control_)) {
    SendChannel::ring(*control_);
  }
}

/// What a waiting rank does now and then: beats, says what it waits for, compares calls, minds its deadline. Token
/// held.
void Communicator::look_around(Operation& operation) {
  const std::uint64_t now = clock_.now();
  look_ticks_ = now;
  control_->heartbeat.fetch_add(1, std::memory_order_relaxed);
  if (now < next_look_) return;
  next_look_ = now + compare_ticks_;
  const int peer = operation.execution.waiting_on();
  told_waiting_ = true;
  control_->waiting.store(
      static_cast<std::uint64_t>(peer + 1) | std::uint64_t{operation.execution.waiting_step()} << 32,
      std::memory_order_relaxed);
  recorder_->waiting_on.store(static_cast<std::uint64_t>(peer + 1), std::memory_order_relaxed);
  recorder_->position.store(operation.execution.waiting_step(), std::memory_order_relaxed);

  const int other = find_mismatch(operation.number, operation.record->fingerprint);
  if (other >= 0) {
    fail(mismatch_with(other, operation.number, operation.call));
  } else if (peer >= 0 && peer != rank_ && control_->left(peer, ranks()).load(std::memory_order_acquire) != 0) {
    // It may have sent what we wait for just before it left.
    if (step(operation)) {
      current_ = nullptr;
      return;
    }
    if (!last_step_moved_)
      fail(Status::error(TUTTI_PEER_LOST,
                         operation_text(operation.number, operation.call) + ": rank " + std::to_string(peer) +
                             " has left the communicator without taking part",
                         peer)
               .with_remedy("every rank must call every collective before it destroys the communicator or exits"));
  } else if (now >= operation.deadline_ticks) {
    if (suspect_since_ == 0) {
      suspect_since_ = now;
      heartbeats_.resize(static_cast<std::size_t>(ranks()));
      for (int r = 0; r < ranks(); ++r)
        heartbeats_[static_cast<std::size_t>(r)] = channels_.peer(r).control->heartbeat.load(std::memory_order_relaxed);
    } else {
      const std::int64_t watched = clock_.to_ns(now - suspect_since_);
      const std::uint64_t beats =
          control_->heartbeat.load(std::memory_order_relaxed) - heartbeats_[static_cast<std::size_t>(rank_)];
      if (watched >= kLongestWatchNs || (watched >= kHeartbeatWatchNs && beats >= kOwnBeats))
        fail(timed_out(operation));
    }
  }
}

/// Drives (with the token already held: `driving`) until the operation is done. Returns its status.
Status Communicator::drive_until_done(Operation& operation, std::int64_t timeout_ns, bool driving) {
  Waiter waiter(policy_, *control_);
  const std::uint64_t give_up = timeout_ns < 0 ? UINT64_MAX : clock_.now() + clock_.from_ns(timeout_ns);
  bool counted = false;  // among the waiters; not worth an atomic operation for what ends at once
  while (!operation.done()) {
    if (!driving) driving = try_drive();
    const bool moved = driving && advance();
    if (operation.done()) break;
    if (moved) waiter.reset();
    if (waiter.polls() % kPollsPerLook == kPollsPerLook - 1 || !waiter.spinning()) {
      if (!counted) {
        counted = true;
        waiters_.fetch_add(1, std::memory_order_relaxed);
        tell_blocked(&operation);
      }
      if (driving) {
        if (current_) look_around(*current_);
        if (point_to_point_active_) check_point_to_point();
      }
      if (waiter.polls() >= kPollsPerLook) process_->engine().help(this);
      if (give_up != UINT64_MAX && clock_.now() >= give_up) break;
    }
    if (!waiter.spinning() && driving) {
      stop_driving();
      driving = false;
    }
    if (!waiter.pause()) continue;
    waiter.prepare();
    // Look once more at everything: whoever stores from now on rings.
    if (operation.done() || look_once_more() || operation.done()) {
      waiter.cancel();
    } else {
      waiter.sleep();
    }
  }
  if (driving) stop_driving();
  if (counted) {
    tell_blocked(nullptr);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!operation.done())
    return Status::error(TUTTI_IN_PROGRESS, operation_text(operation.number, operation.call) + " has not finished yet");
  return operation.status();
}

bool Communicator::look_once_more() {
  if (!try_drive()) return false;
  const bool moved = drive_once();
  stop_driving();
  return moved;
}

Status Communicator::wait(Operation& operation, std::int64_t timeout_ns) {
  inside_.fetch_add(1, std::memory_order_relaxed);
  Status status = drive_until_done(operation, timeout_ns, false);
  inside_.fetch_sub(1, std::memory_order_release);  // pairs with the destructor's acquire
  return status;
}

// ---- point to point ----------------------------------------------------------------------------------------------

void Communicator::start_point_to_point(Operation* operation) {
  operation->number = point_to_point_number_++;
  // The inline operation was a collective before.
  operation->row = nullptr;
  operation->entry = nullptr;
  operation->source = -1;
  operation->started_ticks = clock_.now();
  operation->deadline_ticks = operation->started_ticks + timeout_ticks(operation->call);
  record(*operation, 0, {}, {});
  operation->record->bytes = operation->call.count * dtype_bytes(operation->call.type);
  operation->state.store(Operation::State::running, std::memory_order_release);  // pairs with fill_times()
  if (hook_.load(std::memory_order_relaxed)) emit(TUTTI_EVENT_BEGIN, *operation, TUTTI_IN_PROGRESS);
  point_to_point_active_ = true;
  point_to_point_->start(operation);
}

void Communicator::finish_point_to_point(Operation* operation, Status status) {
  operation->done_ticks = clock_.now();
  if (operation->source_out && status.is_ok()) *operation->source_out = operation->source;
  // Found on this lane: the communicator does not know yet.
  if (status.code() == TUTTI_MISMATCH || status.code() == TUTTI_INTERNAL || status.code() == TUTTI_UNAVAILABLE) {
    fail(std::move(status).with_context(operation_text(operation->number, operation->call)));
    status = this->status();
  }
  // It may have been forgotten meanwhile: others of a long life have passed it.
  if (Record& record = *operation->record; record.sequence.load(std::memory_order_relaxed) == operation->number + 1) {
    record.last_peer = operation->source;
    record.code = status.code();
    record.done.store(operation->done_ticks, std::memory_order_release);
  }
  if (hook_.load(std::memory_order_relaxed)) emit(TUTTI_EVENT_END, *operation, status.code());
  conclude(*operation, std::move(status));
}

void Communicator::check_point_to_point() {
  const std::uint64_t now = clock_.now();
  if (!current_) control_->heartbeat.fetch_add(1, std::memory_order_relaxed);
  if (now < next_point_to_point_look_) return;
  next_point_to_point_look_ = now + compare_ticks_;
  int gone = 0, peer = -1, last = -1;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_ || control_->left(r, ranks()).load(std::memory_order_acquire) == 0) continue;
    ++gone;
    last = r;
    if (peer < 0 && point_to_point_->waits_for(r)) peer = r;
  }
  const bool alone = gone > 0 && gone == ranks() - 1 && point_to_point_->waits_for_any();
  // What they sent before they left may still lie there.
  if ((peer >= 0 || alone) && !point_to_point_->advance()) {
    const std::string who = peer >= 0 ? "rank " + std::to_string(peer) + " has left" : "every other rank has left";
    fail(Status::error(
        TUTTI_PEER_LOST,
        who + " communicator \"" + name_ + "\" while rank " + std::to_string(rank_) + " waits for its send or receive",
        peer >= 0 ? peer : last));
    return;
  }
  if (const Operation* late = point_to_point_->overdue(now)) fail(late_point_to_point(*late));
}

}  // namespace tutti::core
