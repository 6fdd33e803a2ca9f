// SPDX-License-Identifier: Apache-2.0
// Drives RootProtocol: one listener, one connection per other rank, all in one ppoll.
#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "src/base/log.h"
#include "src/comm/bootstrap_driver.h"

namespace tutti::core {

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
// How long a finished root keeps trying to hand its last words to a peer that does not read.
constexpr std::uint64_t kLastWordsLimit = 1000 * kMillisecond;
constexpr std::uint64_t kAcceptPause = 50 * kMillisecond;
constexpr std::uint64_t kNever = UINT64_MAX;

struct Peer {
  UniqueFd socket;
  Outbox outbox;
  bool closing = false;             // once the outbox is empty
  bool to_flush = false;            // something new is in the outbox, or POLLOUT came
  std::uint64_t retry_at = kNever;  // Outbox::Flush::later
};

class RootDriver {
 public:
  RootDriver(ProtocolSettings settings, UniqueFd listener)
      : listener_(std::move(listener)), self_(settings.self.process), protocol_(std::move(settings), make_pair) {}

  Result<JoinResult> run() {
    while (!protocol_.finished()) {
      TUTTI_TRY(wait(flush_all(std::min(protocol_.next_tick(now_ns()), accept_again_at_)), true));
      protocol_.tick(now_ns());
      apply_actions();
    }
    listener_.reset();
    const std::uint64_t limit = now_ns() + kLastWordsLimit;
    while (now_ns() < limit) {
      const std::uint64_t until = flush_all(limit);
      if (!unsent()) break;
      TUTTI_TRY(wait(until, false));
    }
    if (!protocol_.verdict().is_ok()) return protocol_.verdict();
    return result();
  }

 private:
  static Result<DescriptorPair> make_pair() {
    TUTTI_TRY(ends, make_connection_pair());
    return DescriptorPair(std::make_shared<Descriptor>(ends.first.release(), true),
                          std::make_shared<Descriptor>(ends.second.release(), true));
  }

  bool unsent() const {
    return std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) { return !entry.second.outbox.empty(); });
  }

  // Sends what can be sent and forgets who is done with. Returns `until`, or when to try again if that is earlier.
  std::uint64_t flush_all(std::uint64_t until) {
    for (auto place = peers_.begin(); place != peers_.end();) {
      Peer& peer = place->second;
      if (peer.retry_at <= now_ns()) peer.to_flush = true;
      if (peer.to_flush) flush(peer);
      until = std::min(until, peer.retry_at);
      place = peer.closing && peer.outbox.empty() ? peers_.erase(place) : std::next(place);
    }
    return until;
  }

  // Sleeps until something happens, and passes it on. `reading` is false for last words.
  Status wait(std::uint64_t until, bool reading) {
    entries_.clear();
    ids_.clear();
    for (const auto& [id, peer] : peers_) {
      short events = 0;
      if (reading) events = static_cast<short>(peer.closing ? 0 : POLLRDHUP | (protocol_.want(id) > 0 ? POLLIN : 0));
      if (!peer.outbox.empty() && peer.retry_at == kNever) events |= POLLOUT;
      if (events == 0) continue;
      entries_.push_back({peer.socket.get(), events, 0});
      ids_.push_back(id);
    }
    if (accept_again_at_ <= now_ns()) accept_again_at_ = kNever;
    const bool accepting = reading && accept_again_at_ == kNever && protocol_.has_room(now_ns());
    if (accepting) entries_.push_back({listener_.get(), POLLIN, 0});
    if (!poll_until(entries_, until)) return Status::from_errno(errno, "rendezvous: ppoll");
    for (std::size_t i = 0; i < ids_.size(); ++i)
      if (entries_[i].revents != 0) handle(ids_[i], entries_[i].revents, reading);
    if (accepting && entries_.back().revents != 0) accept_some();
    if (reading) apply_actions();
    return Status::ok();
  }

  void handle(ConnectionId id, short revents, bool reading) {
    const auto place = peers_.find(id);
    if (place == peers_.end()) return;
    Peer& peer = place->second;
    if ((revents & (POLLOUT | POLLERR | POLLHUP)) != 0) peer.to_flush = true;
    if (!reading || peer.closing) return;
    while (const std::size_t want = protocol_.want(id)) {
      char buffer[16 * 1024];
      Received got =
          receive_some(peer.socket.get(), buffer, std::min(want, sizeof buffer), protocol_.takes_descriptors(id));
      if (got.state == Received::State::nothing) return;
      if (got.state == Received::State::end) return protocol_.closed(id, now_ns());
      protocol_.received(id, got.bytes, std::move(got.descriptors), now_ns());
      if (protocol_.finished()) return;
    }
    if ((revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) protocol_.closed(id, now_ns());
  }

  void accept_some() {
    while (protocol_.has_room(now_ns())) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        TUTTI_LOG(warn, 0, "cannot accept ranks for now; is the limit on open files (ulimit -n) too low?",
                  {"errno", errno});
        accept_again_at_ = now_ns() + kAcceptPause;
        return;
      }
      const auto nonce = make_nonce();
      if (!nonce.is_ok()) return;
      const ConnectionId id = ++last_id_;
      const std::string text = peer_text(socket.get());
      peers_[id].socket = std::move(socket);
      protocol_.connected(id, nonce.value(), text, now_ns());
      apply_actions();
    }
  }

  void apply_actions() {
    for (ProtocolAction& action : protocol_.take_actions()) {
      if (action.kind == ProtocolAction::Kind::log) {
        TUTTI_LOG(warn, 0, action.text);
        continue;
      }
      const auto place = peers_.find(action.connection);
      if (place == peers_.end() || place->second.closing) continue;
      place->second.to_flush = true;
      if (action.kind == ProtocolAction::Kind::close)
        place->second.closing = true;
      else
        place->second.outbox.push(std::move(action.bytes), std::move(action.descriptors));
    }
  }

  static void flush(Peer& peer) {
    peer.to_flush = false;
    peer.retry_at = peer.outbox.flush(peer.socket.get()) == Outbox::Flush::later ? now_ns() + kMillisecond : kNever;
  }

  JoinResult result() {
    JoinResult joined;
    for (const auto& [id, rank] : protocol_.liveness()) {
      LivenessConnection connection;
      if (const auto place = peers_.find(id); place != peers_.end()) connection.fd = std::move(place->second.socket);
      connection.process = protocol_.members()[static_cast<std::size_t>(rank)].process;
      connection.rank = rank;
      joined.connections.push_back(std::move(connection));
    }
    peers_.clear();
    joined.members = hand_over_members(protocol_.members(), protocol_.descriptors(), self_);
    return joined;
  }

  UniqueFd listener_;
  ProcessId self_;
  RootProtocol protocol_;
  std::map<ConnectionId, Peer> peers_;
  ConnectionId last_id_ = 0;
  std::uint64_t accept_again_at_ = kNever;  // set while out of descriptors
  std::vector<pollfd> entries_;
  std::vector<ConnectionId> ids_;
};

}  // namespace

Result<JoinResult> run_root(ProtocolSettings settings) {
  auto listener = listen_for_job(settings.identity.job);
  if (!listener.is_ok())
    return Status(listener.status()).with_context("communicator \"" + settings.name + "\"").with_rank(0);
  return RootDriver(std::move(settings), std::move(listener).value()).run();
}

}  // namespace tutti::core
