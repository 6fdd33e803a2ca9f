// SPDX-License-Identifier: Apache-2.0
#include "src/comm/deadlock.h"

#include <algorithm>

#include "src/comm/communicator.h"

namespace tutti::core {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1024;
  if (bytes != 0 && bytes % (kKibi * kKibi) == 0) return std::to_string(bytes / (kKibi * kKibi)) + " MiB";
  if (bytes != 0 && bytes % kKibi == 0) return std::to_string(bytes / kKibi) + " KiB";
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

std::string describe_blocked(const Call& call) {
  if (!is_point_to_point(call.what)) return "op #" + std::to_string(call.tag);
  std::string text = call.what == TUTTI_SEND ? "send to " : "recv from ";
  text += call.peer < 0 ? "any" : std::to_string(call.peer);
  return text + " (tag " + std::to_string(call.match) + ", " + human_bytes(call.count * dtype_bytes(call.type)) + ")";
}

WaitChain follow_waits(int rank, const std::vector<std::optional<BlockedIn>>& blocked) {
  constexpr std::size_t kShown = 10;  // the text must fit on a control page
  WaitChain chain;
  std::vector<int> seen;
  for (int at = rank;;) {
    const bool again = std::find(seen.begin(), seen.end(), at) != seen.end();
    const auto& waits = blocked[static_cast<std::size_t>(at)];
    const bool last = again || !waits || waits->peer < 0;
    if (last || seen.size() < kShown) {
      chain.text += (seen.empty() ? "rank " : " -> rank ") + std::to_string(at);
      if (!again) chain.text += waits ? " waits in " + waits->text : " is in no call of this communicator";
    } else if (seen.size() == kShown) {
      chain.text += " -> ...";
    }
    chain.deadlock = again;
    if (last) return chain;
    seen.push_back(at);
    at = waits->peer;
  }
}

// ---- in a communicator -------------------------------------------------------------------------------------------

/// Says on the control page what the caller waits in; null: nothing any more.
void Communicator::tell_blocked(const Operation* operation) {
  if (!operation) {
    control_->blocked.store(0, std::memory_order_release);
    return;
  }
  const Call& call = operation->call;
  if (is_point_to_point(call.what)) {
    control_->blocked_bytes.store(call.count * dtype_bytes(call.type), std::memory_order_relaxed);
    control_->blocked.store(
        pack_blocked(call.what == TUTTI_SEND ? Blocked::send : Blocked::recv, call.peer, call.match),
        std::memory_order_release);
  } else {
    control_->blocked.store(pack_blocked(Blocked::collective, -1, static_cast<std::uint32_t>(operation->number)),
                            std::memory_order_release);
  }
}

WaitChain Communicator::waits_from(int rank, const Operation* own) const {
  std::vector<std::optional<BlockedIn>> blocked(static_cast<std::size_t>(ranks()));
  for (int r = 0; r < ranks(); ++r) {
    const ControlPage& page = *channels_.peer(r).control;
    const std::uint64_t word = page.blocked.load(std::memory_order_acquire);
    Call call;
    call.type = TUTTI_INT8;
    call.peer = blocked_peer(word);
    call.match = blocked_tag(word);
    call.count = page.blocked_bytes.load(std::memory_order_relaxed);
    switch (blocked_kind(word)) {
      case Blocked::no: continue;
      case Blocked::send: call.what = TUTTI_SEND; break;
      case Blocked::recv: call.what = TUTTI_RECV; break;
      case Blocked::collective:
        call.what = TUTTI_BARRIER;
        call.tag = call.match;
        call.peer = static_cast<int>(page.waiting.load(std::memory_order_relaxed) & 0xffffffffu) - 1;
        break;
    }
    if (call.peer >= ranks()) continue;  // another process wrote it
    blocked[static_cast<std::size_t>(r)] = BlockedIn{call.peer, describe_blocked(call)};
  }
  // The operation that is late, whatever the caller waits in.
  if (own && is_point_to_point(own->call.what))
    blocked[static_cast<std::size_t>(rank_)] = BlockedIn{own->call.peer, describe_blocked(own->call)};
  return follow_waits(rank, blocked);
}

Status Communicator::late_point_to_point(const Operation& late) const {
  const int culprit = late.call.peer;
  const std::string what = operation_text(late.number, late.call);
  const WaitChain chain = waits_from(rank_, &late);
  if (chain.deadlock)
    return Status::error(TUTTI_TIMEOUT, what + ": deadlock: " + chain.text, culprit)
        .with_remedy(
            "let one side receive first, or put the sends and receives into one group; only sends of up to 4 KiB do "
            "not wait for their receive");
  return Status::error(TUTTI_TIMEOUT,
                       what + ": no matching call " +
                           (culprit >= 0 ? "from rank " + std::to_string(culprit) : std::string("from any rank")) +
                           " before the deadline (" + chain.text + ")",
                       culprit)
      .with_remedy("check peer and tag on both sides; longer: tutti_call.timeout_s or the timeout knob");
}

}  // namespace tutti::core
