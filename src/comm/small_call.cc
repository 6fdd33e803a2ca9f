// SPDX-License-Identifier: Apache-2.0
// How a small call gets onto the short way (small_call.h), and off it when the peer is late.
#include "src/comm/small_call.h"

#include <cstring>

namespace tutti::core {

void SmallRecord::fill(const Call& call, const CallEntry& entry) {
  Record record{};
  record.count = call.count;
  record.bytes = entry.bytes;
  record.what = static_cast<std::uint8_t>(call.what);
  record.type = static_cast<std::uint8_t>(call.type);
  record.op = static_cast<std::uint8_t>(call.op);
  record.lanes = 1;
  record.peer = record.last_peer = -1;
  record.code = TUTTI_IN_PROGRESS;
  std::memcpy(record.row, entry.row, sizeof record.row);
  std::memcpy(bytes_, reinterpret_cast<const std::byte*>(&record), sizeof bytes_);
}

/// Called when a collective starts the long way: from now on calls like it may take the short one.
void Communicator::remember_small(const Call& call, const CallEntry& entry) {
  if (ranks() != 2 || entry.bytes > kInlineBytes) return;
  if (call.what != TUTTI_BARRIER && call.what != TUTTI_ALL_REDUCE) return;
  if (call.count == 0 && call.what != TUTTI_BARRIER) return;
  if (call.op == TUTTI_PRE_MUL_SUM) return;  // the factor changes from call to call
  // Those that take the short way ask for no row.
  if (!call.algorithm.empty()) return;
  const LoweredPlan& plan = entry.plan->lowered;
  // One exchange: a line out, a line in, and at most one reduction of the two.
  if (plan.lanes.size() != 1 || plan.lanes[0].size() != 2 || plan.tx.size() != 1 || plan.rx.size() != 1) return;
  const Action& first = plan.lanes[0][0];
  const Action& second = plan.lanes[0][1];
  if (first.kind != ActionKind::send || second.forward >= 0 || (first.scale && entry.bindings.scale != 1.0)) return;
  SmallEntry small;
  if (call.what == TUTTI_ALL_REDUCE) {
    if (second.kind != ActionKind::reduce || second.operand_count != 2 || first.src.where() != Space::input ||
        second.dst.where() != Space::output || !second.final)
      return;
    const Operand* operands = plan.operands.data() + second.first_operand;
    small.own = operands[0].edge >= 0 ? 1 : 0;
    if (operands[small.own].edge >= 0 || operands[small.own].slot.where() != Space::input ||
        operands[1 - small.own].edge < 0)
      return;
    small.kernel = find_line_kernel(call.type, call.op);
    if (!small.kernel) return;
  } else if (second.kind != ActionKind::receive) {
    return;
  }
  small.what = call.what;
  small.type = call.type;
  small.op = call.op;
  small.count = call.count;
  small.bytes = entry.bytes;
  small.fingerprint = entry.fingerprint;
  small.call_word = entry.call_word;
  small.send = channels_.send(1 - rank_, 0);
  if (!small.send) return;  // no memory: the long way says so
  small.record.fill(call, entry);
  small_[SmallEntry::place(small.what, small.type, small.op, small.count)] = small;
}

/// The peer is late, or called something else: the same operation goes on the long way, its line already sent.
Status Communicator::continue_small(tutti_collective what, const SmallCall& call) {
  Operation& operation = inline_;
  const std::uint64_t number = operation.number;
  operation.call = {what, call.type, call.op, -1, call.count, call.in, call.out, 0, 0, 0, {}};
  operation.communicator = this;
  operation.asynchronous = false;
  operation.source_out = nullptr;
  operation.retain();  // the queue's
  operation.state.store(Operation::State::queued, std::memory_order_relaxed);
  current_ = &operation;
  auto found = find_entry(operation.call);
  CallEntry* entry = found.is_ok() ? *found : nullptr;
  begin(operation, entry);
  operation.record = &recorder_->records[number % kRecordsPerCommunicator];
  if (entry) {
    launch(operation, operation.record->fingerprint);
    operation.execution.skip_first_send();
  } else {
    fail(Status(found.status()).with_context(operation_text(number, operation.call)).with_rank(rank_));
    finish(operation, this->status());
    current_ = nullptr;
  }
  const Status status = drive_until_done(operation, -1, true);
  leave();
  return status;
}

}  // namespace tutti::core
