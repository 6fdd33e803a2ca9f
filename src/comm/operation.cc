// SPDX-License-Identifier: Apache-2.0
#include "src/comm/operation.h"

#include "src/base/clock.h"
#include "src/comm/process.h"

namespace tutti::core {

std::string describe(const Call& call) {
  std::string text(collective_name(call.what));
  if (call.what == TUTTI_BARRIER) return text;
  text += " " + std::string(dtype_name(call.type)) + " x " + std::to_string(call.count);
  if (is_variable(call.what)) text += call.what == TUTTI_ALL_TO_ALL_V ? " sent in all" : " in all";
  if (is_reduction(call.what)) text += " " + std::string(op_name(call.op));
  if (is_rooted(call.what)) text += " root " + std::to_string(call.peer);
  if (call.what == TUTTI_SEND) text += " to " + std::to_string(call.peer);
  if (call.what == TUTTI_RECV)
    text += call.peer == TUTTI_ANY_SOURCE ? " from any" : " from " + std::to_string(call.peer);
  if (call.what == TUTTI_SEND || call.what == TUTTI_RECV) text += " tag " + std::to_string(call.match);
  return text;
}

std::uint64_t total_count(const BlockLayout& layout, int ranks) {
  std::uint64_t total = 0;
  for (int r = 0; layout.counts && r < ranks; ++r)
    if (__builtin_add_overflow(total, layout.counts[r], &total)) return UINT64_MAX;
  return total;
}

void Operation::keep_arguments(int ranks) {
  algorithm_copy = std::string(call.algorithm);
  call.algorithm = algorithm_copy;
  const auto size = static_cast<std::size_t>(ranks);
  layout_copies.reserve(4 * size);  // the pointers below stay valid
  for (const std::uint64_t** array :
       {&call.blocks.counts, &call.blocks.displacements, &call.received.counts, &call.received.displacements}) {
    if (!*array) continue;
    layout_copies.insert(layout_copies.end(), *array, *array + size);
    *array = layout_copies.data() + layout_copies.size() - size;
  }
}

void Operation::finish(Status status) {
  std::vector<std::function<void(tutti_code)>> callbacks;
  const tutti_code code = status.code();
  {
    // The lock decides who calls a callback that is being added right now.
    std::lock_guard lock(callback_mutex_);
    status_ = std::move(status);
    callbacks.swap(callbacks_);
    state.store(State::done,
                std::memory_order_release);  // pairs with done(); nothing of this object is touched afterwards
  }
  for (auto& callback : callbacks)
    Process::current()->engine().call_back([callback = std::move(callback), code] { callback(code); });
}

void Operation::fill_times(tutti_times& times) const {
  const std::size_t size = times.struct_size;
  times = {};
  times.struct_size = size;
  times.last_peer = -1;
  const TickClock& clock = tick_clock();
  // Ticks are counted from an unknown start: relate them to now.
  const ClockSample now = clock.sample();
  const auto to_ns = [&](std::uint64_t ticks) {
    if (ticks == 0) return std::uint64_t{0};
    return static_cast<std::uint64_t>(now.ns - clock.to_ns(now.ticks - ticks));
  };
  times.issued_ns = to_ns(issued_ticks);
  const State seen = state.load(std::memory_order_acquire);  // pairs with start() and finish()
  if (seen == State::queued) return;
  times.started_ns = to_ns(started_ticks);
  if (row) row->name.copy(times.algorithm, sizeof times.algorithm - 1);
  if (seen != State::done) return;  // the rest is still being written
  times.last_peer_ns = to_ns(last_peer_ticks);
  times.done_ns = to_ns(done_ticks);
  times.last_peer = last_peer;
}

void Operation::on_complete(std::function<void(tutti_code)> callback) {
  tutti_code code = TUTTI_OK;
  {
    std::lock_guard lock(callback_mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    code = status_.code();
  }
  Process::current()->engine().call_back([callback = std::move(callback), code] { callback(code); });
}

}  // namespace tutti::core
