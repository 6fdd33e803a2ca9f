// SPDX-License-Identifier: Apache-2.0
// How a communicator fails: one verdict for all ranks, with a text that names a rank and an operation.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "src/comm/communicator.h"

namespace tutti::core {

namespace {

/// What `page`'s owner called as operation `number`; false if it has not, or so long ago that it is forgotten.
bool read_descriptor(const ControlPage& page, std::uint64_t number, Call& call, CallDescriptor::Content& content) {
  if (!page.descriptors[number % kDescriptors].read(number, content)) return false;
  call.count = content.count;
  call.what = static_cast<tutti_collective>(content.call & 0xff);
  call.type = static_cast<tutti_dtype>((content.call >> 8) & 0xff);
  call.op = static_cast<tutti_op>((content.call >> 16) & 0xff);
  call.peer = static_cast<int>(content.call >> 32) - 1;
  return true;
}

/// "all_reduce int8 x 4 sum", or with all that share its exchange: "all_reduce int8 x 4 sum as #6 of 2 operations fused
/// by a group (#5 all_reduce int8 x 9 sum, #6 all_reduce int8 x 4 sum)".
std::string describe_called(const ControlPage& page, std::uint64_t number, const Call& call, std::uint64_t exchange) {
  std::string text = describe(call);
  if (exchange == 0) return text;
  constexpr std::uint64_t kShown = 8;
  const std::uint64_t first = exchange_first(exchange), operations = exchange_operations(exchange);
  text += " as #" + std::to_string(number) + " of " + std::to_string(operations) + " operations fused by a group (";
  for (std::uint64_t i = 0; i < operations && i < kShown; ++i) {
    Call member;
    CallDescriptor::Content content;
    text += (i ? ", #" : "#") + std::to_string(first + i);
    if (read_descriptor(page, first + i, member, content)) text += " " + describe(member);
  }
  return text + (operations > kShown ? ", ...)" : ")");
}

/// The line of a small call travels before its rank has said what it calls (small_call.h): gives that rank the time to
/// say so.
void await_call(const ControlPage& page, std::uint64_t number) {
  constexpr std::int64_t kPatienceNs = 50'000'000;  // it may have lost its core in between
  const std::int64_t give_up = monotonic_ns() + kPatienceNs;
  while (page.operation.load(std::memory_order_acquire) <= number && monotonic_ns() < give_up) sched_yield();
}

std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

}  // namespace

std::string Communicator::operation_text(std::uint64_t number, const Call& call) const {
  const bool collective = call.what != TUTTI_SEND && call.what != TUTTI_RECV;
  return (collective ? "op #" + std::to_string(number) + " " : std::string()) + describe(call) + " (communicator \"" +
         name_ + "\")";
}

std::string Communicator::last_operation_text() const {
  const std::uint64_t entered = control_->operation.load(std::memory_order_acquire);
  if (entered == 0) return "before any operation of communicator \"" + name_ + "\"";
  Call call;
  CallDescriptor::Content content;
  const bool running = control_->completed.load(std::memory_order_acquire) < entered;
  std::string what = read_descriptor(*control_, entered - 1, call, content) ? operation_text(entered - 1, call)
                                                                            : "op #" + std::to_string(entered - 1);
  return (running ? "during " : "after ") + what + " of rank " + std::to_string(rank_);
}

// ---- the verdict -------------------------------------------------------------------------------------------------

/// Ends the communicator everywhere. Any thread; does not touch operations: their drivers see the verdict.
void Communicator::fail(const Status& status) {
  std::lock_guard lock(error_mutex_);
  if (gone_) return;
  std::atomic<std::uint64_t>& arbiter = channels_.peer(0).control->verdict;
  std::uint64_t verdict = arbiter.load(std::memory_order_acquire);
  if (verdict == 0 && !authored_) {
    authored_ = true;
    const std::string text = status.message() + (status.remedy().empty() ? "" : " (" + status.remedy() + ")");
    const std::size_t bytes = std::min(text.size(), sizeof control_->text - 1);
    std::memcpy(control_->text, text.data(), bytes);
    control_->text[bytes] = 0;
    // First error wins: rank 0's page decides between ranks that fail at once. Pairs with the acquire in
    // notice_verdict.
    const std::uint64_t own = pack_verdict(status.code(), status.failing_rank(), rank_);
    if (arbiter.compare_exchange_strong(verdict, own, std::memory_order_acq_rel)) verdict = own;
  }
  if (verdict != 0) broadcast_verdict(verdict);
}

void Communicator::broadcast_verdict(std::uint64_t verdict) {
  for (int r = 0; r < ranks(); ++r) {
    ControlPage& page = *channels_.peer(r).control;
    std::uint64_t none = 0;
    page.verdict.compare_exchange_strong(none, verdict, std::memory_order_acq_rel);
    if (must_ring(page)) SendChannel::ring(page);
  }
}

/// The driver's side: what is complete stays complete, everything else ends with the first error. Token held.
void Communicator::notice_verdict() {
  // The last bytes may have come between our last look at the mailboxes and the verdict.
  do {
    if (current_ && step(*current_)) current_ = nullptr;
  } while (current_ && last_step_moved_);
  if (point_to_point_active_) point_to_point_->advance();
  Status error = adopt(control_->verdict.load(std::memory_order_acquire));
  {
    std::lock_guard lock(error_mutex_);
    if (error_.is_ok()) {
      error_ = std::move(error);
      std::strncpy(recorder_->error, error_.to_string().c_str(), sizeof recorder_->error - 1);
      recorder_->state = 3;
      process_->keep_recorder();
      failed_.store(true, std::memory_order_release);
    }
  }
  end_everything(status());
}

void Communicator::end_everything(const Status& status) {
  if (current_) {
    Operation* running = current_;
    current_ = nullptr;
    finish(*running, status);
  }
  std::deque<Operation*> waiting;
  {
    std::lock_guard lock(queue_mutex_);
    waiting.swap(queue_);
    waiting.insert(waiting.end(), new_point_to_point_.begin(), new_point_to_point_.end());
    new_point_to_point_.clear();
    new_point_to_point_count_.store(0, std::memory_order_relaxed);
    queued_.store(0, std::memory_order_release);
  }
  for (Operation* operation : waiting) conclude(*operation, status);
  point_to_point_->fail(status);
  point_to_point_active_ = false;
}

Status Communicator::adopt(std::uint64_t verdict) {
  const int author = verdict_author(verdict);
  if (author < 0 || author >= ranks()) return Status::error(TUTTI_INTERNAL, "malformed verdict on the control page");
  char text[sizeof control_->text];
  std::memcpy(text, channels_.peer(author).control->text, sizeof text);
  text[sizeof text - 1] = 0;
  return Status::error(verdict_code(verdict), text, verdict_culprit(verdict));
}

Status Communicator::status() {
  if (!failed_.load(std::memory_order_acquire)) {
    if (control_->verdict.load(std::memory_order_acquire) == 0) return {};
    // Nobody drives right now: take notice here.
    if (try_drive()) {
      notice_verdict();
      stop_driving();
    } else {
      return adopt(control_->verdict.load(std::memory_order_acquire));
    }
  }
  std::lock_guard lock(error_mutex_);
  return error_;
}

void Communicator::abort(const std::string& reason) {
  fail(Status::error(TUTTI_ABORTED,
                     "rank " + std::to_string(rank_) + " aborted communicator \"" + name_ + "\"" +
                         (reason.empty() ? "" : ": " + reason),
                     rank_));
}

bool Communicator::has_member_in(const ProcessId& process) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) { return member.process == process; });
}

void Communicator::process_lost(const ProcessId& process, const std::string& text) {
  for (int r = 0; r < ranks(); ++r) {
    const Member& member = members_[static_cast<std::size_t>(r)];
    if (member.process != process || control_->left(r, ranks()).load(std::memory_order_acquire) != 0) continue;
    fail(Status::error(TUTTI_PEER_LOST,
                       "rank " + std::to_string(r) + " (pid " + std::to_string(member.pid) + ") is gone, " + text +
                           ", " + last_operation_text(),
                       r)
             .with_remedy("see what killed it: its own output, dmesg for the out-of-memory killer"));
    return;
  }
}

// ---- findings ----------------------------------------------------------------------------------------------------

int Communicator::find_mismatch(std::uint64_t number, std::uint64_t fingerprint) const {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    const ControlPage& page = *channels_.peer(r).control;
    if (page.operation.load(std::memory_order_acquire) <= number) continue;  // has not called it yet
    Call call;
    CallDescriptor::Content theirs;
    if (read_descriptor(page, number, call, theirs) && theirs.fingerprint != fingerprint) return r;
  }
  return -1;
}

/// A message that does not fit, with its text.
Status Communicator::mismatch_at(const Operation& operation) const {
  const CpuExecution& execution = operation.execution;
  const Call& own = operation.call;
  const int peer = execution.mismatching_peer();
  await_call(*channels_.peer(peer).control, operation.number);
  Call theirs;
  CallDescriptor::Content content;
  const bool same_call = read_descriptor(*channels_.peer(peer).control, operation.number, theirs, content) &&
                         content.fingerprint == operation.record->fingerprint;
  if (own.what != TUTTI_ALL_TO_ALL_V || !same_call) return mismatch_with(peer, operation.number, own);
  const std::uint64_t element = dtype_bytes(own.type);
  const std::string type(dtype_name(own.type)), from = std::to_string(peer), to = std::to_string(rank_);
  return Status::error(TUTTI_MISMATCH,
                       "op #" + std::to_string(operation.number) + " (communicator \"" + name_ +
                           "\") all_to_all_v: rank " + from + " sends " + type + " x " +
                           std::to_string(execution.mismatching_bytes() / element) + " to rank " + to + ", rank " + to +
                           " expects " + type + " x " + std::to_string(execution.expected_bytes() / element) +
                           " from rank " + from,
                       peer)
      .with_remedy("send_counts[" + to + "] of rank " + from + " must equal recv_counts[" + from + "] of rank " + to);
}

/// Which count of a v-form is another on rank `peer`: where one alone differs, its place + 1 times the difference of
/// the plain sums is that of the weighted ones, and the peer's fingerprint proves it. "" if it cannot be told.
std::string Communicator::differing_counts(int peer, std::uint64_t number, const Call& own) const {
  CallDescriptor::Content theirs, mine;
  if (!own.blocks.counts || !channels_.peer(peer).control->descriptors[number % kDescriptors].read(number, theirs) ||
      !control_->descriptors[number % kDescriptors].read(number, mine))
    return "";
  std::vector<std::uint64_t> counts(own.blocks.counts, own.blocks.counts + ranks());
  const auto are_theirs = [&] {
    return std::any_of(algorithms().begin(), algorithms().end(), [&](const Algorithm& row) {
      return row.what == equal_form(own.what) &&
             mixed(fingerprint_of(own, row, counts.data()), number) == theirs.fingerprint;
    });
  };
  if (are_theirs()) return ", by another algorithm";
  const std::uint64_t difference = theirs.count - mine.count, weighted = theirs.weighted_count - mine.weighted_count;
  for (std::size_t index = 0; difference != 0 && index < counts.size(); ++index) {
    if ((index + 1) * difference != weighted) continue;
    counts[index] += difference;
    if (are_theirs())
      return ": counts[" + std::to_string(index) + "] is " + std::to_string(counts[index]) + " on rank " +
             std::to_string(peer) + " and " + std::to_string(own.blocks.counts[index]) + " on rank " +
             std::to_string(rank_);
    counts[index] -= difference;
  }
  return ": their counts differ in several places";
}

/// The text of calls that differ. They may have parted earlier than at operation `number`: a broadcast's root, or a
/// rank whose count is 0, is done without its peers. So the first difference that the pages still remember is told.
Status Communicator::mismatch_with(int peer, std::uint64_t number, const Call& own) const {
  std::uint64_t end = number + 1;
  CallDescriptor::Content own_content;
  if (control_->descriptors[number % kDescriptors].read(number, own_content) && own_content.exchange != 0)
    end = exchange_first(own_content.exchange) + exchange_operations(own_content.exchange);
  for (std::uint64_t n = number - std::min<std::uint64_t>(number, kDescriptors - 1); n < end; ++n) {
    Call mine, theirs;
    CallDescriptor::Content my_content, their_content;
    if (!read_descriptor(*control_, n, mine, my_content)) continue;
    const int other = find_mismatch(n, my_content.fingerprint);
    if (other < 0) continue;
    const ControlPage& page = *channels_.peer(other).control;
    if (!read_descriptor(page, n, theirs, their_content)) continue;
    const bool grouped_alike = my_content.exchange == their_content.exchange;
    // Operations that share an exchange differ all at once: tell the one that really does.
    if (grouped_alike && my_content.exchange != 0 && describe(theirs) == describe(mine) && n + 1 < end) continue;
    std::string text = "op #" + std::to_string(n) + " (communicator \"" + name_ + "\"): rank " + std::to_string(other) +
                       " called " + describe_called(page, n, theirs, their_content.exchange) + ", rank " +
                       std::to_string(rank_) + " called " + describe_called(*control_, n, mine, my_content.exchange);
    const bool same_kind = pack_call(theirs.what, theirs.type, theirs.op, theirs.peer) ==
                           pack_call(mine.what, mine.type, mine.op, mine.peer);
    if (grouped_alike && same_kind && is_variable(mine.what) && mine.what != TUTTI_ALL_TO_ALL_V)
      text += n == number ? differing_counts(other, n, own) : "";
    else if (describe(theirs) == describe(mine))
      text += grouped_alike ? ", by another algorithm" : ", grouped differently";
    return Status::error(TUTTI_MISMATCH, text, other)
        .with_remedy(
            "every rank must call the same collectives in the same order and groups, with the same count, type, op and "
            "root");
  }
  const std::uint64_t at = channels_.peer(peer).control->operation.load(std::memory_order_acquire);
  return Status::error(TUTTI_MISMATCH,
                       "op #" + std::to_string(number) + " (communicator \"" + name_ + "\"): rank " +
                           std::to_string(peer) + " sent data of another operation (it is at op #" +
                           std::to_string(at ? at - 1 : 0) + "), rank " + std::to_string(rank_) + " called " +
                           describe(own),
                       peer);
}

/// Who holds an operation up at its deadline: a rank that has not called it, else one that no longer moves, else the
/// end of the chain of waits.
Status Communicator::timed_out(const Operation& operation) const {
  const std::uint64_t number = operation.number;
  std::vector<int> absent, frozen;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    const ControlPage& page = *channels_.peer(r).control;
    if (page.operation.load(std::memory_order_acquire) <= number)
      absent.push_back(r);
    else if (page.completed.load(std::memory_order_acquire) <= number &&
             page.heartbeat.load(std::memory_order_relaxed) == heartbeats_[static_cast<std::size_t>(r)])
      frozen.push_back(r);
  }
  const double seconds = static_cast<double>(clock_.to_ns(operation.deadline_ticks - operation.started_ticks)) / 1e9;
  char limit[32];
  std::snprintf(limit, sizeof limit, "%.3g s", seconds);
  std::string text = operation_text(number, operation.call) + " has not finished within " + limit + ": ";
  int culprit = -1;
  if (!absent.empty()) {
    culprit = absent.front();
    const std::uint64_t at = channels_.peer(culprit).control->operation.load(std::memory_order_acquire);
    const bool done = channels_.peer(culprit).control->completed.load(std::memory_order_acquire) >= at;
    text += (absent.size() == 1 ? "rank " : "ranks ") + rank_list(absent) + (absent.size() == 1 ? " has" : " have") +
            " not arrived (" + std::to_string(ranks() - static_cast<int>(absent.size())) + " of " +
            std::to_string(ranks()) + " ranks have; rank " + std::to_string(culprit) +
            (at == 0 ? " has called nothing yet" : (done ? " finished op #" : " is in op #") + std::to_string(at - 1)) +
            ")";
    // It may sit in a send or receive that needs this rank.
    if (blocked_kind(channels_.peer(culprit).control->blocked.load(std::memory_order_acquire)) != Blocked::no) {
      const WaitChain chain = waits_from(culprit, nullptr);
      text += (chain.deadlock ? "; deadlock: " : "; ") + chain.text;
    }
  } else if (!frozen.empty()) {
    culprit = frozen.front();
    text += (frozen.size() == 1 ? "rank " : "ranks ") + rank_list(frozen) + (frozen.size() == 1 ? " has" : " have") +
            " arrived but no longer moves (stopped, or starved of a core)";
  } else {
    culprit = operation.execution.waiting_on();
    std::uint32_t step = operation.execution.waiting_step();
    for (int hops = 0; hops < ranks() && culprit >= 0; ++hops) {
      const std::uint64_t waiting = channels_.peer(culprit).control->waiting.load(std::memory_order_relaxed);
      const int next = static_cast<int>(waiting & 0xffffffffu) - 1;
      if (next < 0 || next == rank_ || next >= ranks()) break;
      culprit = next;
      step = static_cast<std::uint32_t>(waiting >> 32);
    }
    text += "all ranks have arrived; the chain of waits ends at rank " + std::to_string(culprit) + ", step " +
            std::to_string(step);
  }
  return Status::error(TUTTI_TIMEOUT, text, culprit)
      .with_remedy("`tutti top` shows who waits for whom; longer: tutti_call.timeout_s or the timeout knob");
}

void Communicator::emit(tutti_event_kind kind, const Operation& operation, tutti_code code) {
  auto* hook = hook_.load(std::memory_order_acquire);
  if (!hook) return;
  const Call& call = operation.call;
  tutti_event event{};
  event.struct_size = sizeof event;
  event.kind = kind;
  event.code = code;
  event.what = call.what;
  event.type = call.type;
  event.op = call.op;
  event.peer = call.peer;
  event.count = call.count;
  event.sequence = operation.number;
  event.tag = call.tag;
  event.time_ns = static_cast<std::uint64_t>(monotonic_ns());
  event.communicator = name_.c_str();
  event.algorithm = operation.row ? operation.row->name.data() : "";
  hook(&event, hook_argument_.load(std::memory_order_acquire));
}

}  // namespace tutti::core
