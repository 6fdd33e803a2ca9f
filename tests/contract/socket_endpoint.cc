// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/socket_endpoint.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/unique_fd.h"

namespace tutti::core::contract {
namespace {

using Id = std::array<unsigned char, 16>;
constexpr std::string_view kMagic = "TSOK";

struct FrameHeader {
  std::uint64_t bytes;
  std::int32_t lane;
  std::int32_t reserved;
};

sockaddr_un socket_name(const Id& id, socklen_t* length) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "tutti-contract-";
  for (const unsigned char byte : id) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  std::memcpy(name.sun_path + 1, text.data(), text.size());  // a leading 0: the abstract name space
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

class SocketLink final : public Link {
 public:
  LinkState state() const override { return state_.load(std::memory_order_acquire); }
  Status status() const override {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  const MappedView* mapped() const override { return nullptr; }

  Status post_send(int lane, std::uint64_t token, const void* data, std::size_t bytes) override {
    if (state() == LinkState::failed) return status();
    sends_.push_back({{bytes, lane, 0}, static_cast<const char*>(data), token, 0});
    return {};
  }

  Status post_recv(int lane, std::uint64_t token, void* data, std::size_t capacity) override {
    std::deque<std::string>& early = early_[lane];
    if (state() == LinkState::failed && early.empty()) return status();
    recvs_[lane].push_back({token, data, capacity});
    if (!early.empty()) {
      deliver(lane, early.front());
      early.pop_front();
    }
    return {};
  }

  void abort(Status reason) override {
    const std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_relaxed) == LinkState::failed) return;
    reason_ = std::move(reason);
    if (out_) shutdown(out_.get(), SHUT_RDWR);
    state_.store(LinkState::failed, std::memory_order_release);  // pairs with state()
  }

  /// One socket for both directions, or the two ends of a pair for a link to oneself.
  void open(UniqueFd out, UniqueFd in) {
    const std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != LinkState::connecting) return;
    out_ = std::move(out);
    in_ = std::move(in);
    state_.store(LinkState::ready, std::memory_order_release);
  }

  void poll(std::vector<Completion>& completions) {
    if (state() == LinkState::ready) {
      send_some();
      receive_some();
    }
    if (state() == LinkState::failed) fail_posted();
    std::move(completions_.begin(), completions_.end(), std::back_inserter(completions));
    completions_.clear();
  }

 private:
  struct Send {
    FrameHeader header;
    const char* data;
    std::uint64_t token;
    std::size_t sent;  // of header and data together
  };
  struct Recv {
    std::uint64_t token;
    void* data;
    std::size_t capacity;
  };

  void send_some() {
    while (!sends_.empty()) {
      Send& send = sends_.front();
      const std::size_t whole = sizeof(FrameHeader) + send.header.bytes;
      while (send.sent < whole) {
        const bool in_header = send.sent < sizeof(FrameHeader);
        const char* const from = in_header ? reinterpret_cast<const char*>(&send.header) + send.sent
                                           : send.data + (send.sent - sizeof(FrameHeader));
        const std::size_t left = (in_header ? sizeof(FrameHeader) : whole) - send.sent;
        const ssize_t sent = ::send(out_.get(), from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (sent < 0) return;  // lost: the receiving side finds out, after what has arrived before
        send.sent += static_cast<std::size_t>(sent);
      }
      completions_.push_back({send.token, send.header.bytes, {}});
      sends_.pop_front();
    }
  }

  void receive_some() {
    char buffer[65536];
    for (int i = 0; i < 64; ++i) {  // then let others have a turn
      const int fd = in_ ? in_.get() : out_.get();
      const ssize_t got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
      if (got <= 0) return abort(Status::error(TUTTI_PEER_LOST, "socket: the peer closed the connection"));
      incoming_.append(buffer, static_cast<std::size_t>(got));
      take_messages();
    }
  }

  void take_messages() {
    std::size_t start = 0;
    for (;;) {
      FrameHeader header{};
      if (incoming_.size() - start < sizeof(header)) break;
      std::memcpy(&header, incoming_.data() + start, sizeof(header));
      if (incoming_.size() - start - sizeof(header) < header.bytes) break;
      std::string message = incoming_.substr(start + sizeof(header), header.bytes);
      start += sizeof(header) + header.bytes;
      if (recvs_[header.lane].empty())
        early_[header.lane].push_back(std::move(message));
      else
        deliver(header.lane, message);
    }
    incoming_.erase(0, start);
  }

  void deliver(int lane, const std::string& message) {
    const Recv recv = recvs_[lane].front();
    recvs_[lane].pop_front();
    if (message.size() > recv.capacity) {
      completions_.push_back(
          {recv.token, 0,
           Status::error(TUTTI_INVALID_ARGUMENT, "socket: a message of " + std::to_string(message.size()) +
                                                     " bytes for a buffer of " + std::to_string(recv.capacity))});
      return;
    }
    if (!message.empty()) std::memcpy(recv.data, message.data(), message.size());
    completions_.push_back({recv.token, message.size(), {}});
  }

  void fail_posted() {
    const Status reason = status();
    for (const Send& send : sends_) completions_.push_back({send.token, 0, reason});
    sends_.clear();
    for (auto& [lane, posted] : recvs_) {
      for (const Recv& recv : posted) completions_.push_back({recv.token, 0, reason});
      posted.clear();
    }
  }

  std::atomic<LinkState> state_{LinkState::connecting};
  mutable std::mutex mutex_;  // reason, and changes of state
  Status reason_;
  UniqueFd out_, in_;
  std::deque<Send> sends_;
  std::map<int, std::deque<Recv>> recvs_;
  std::map<int, std::deque<std::string>> early_;
  std::string incoming_;
  std::vector<Completion> completions_;
};

class SocketEndpoint final : public Endpoint {
 public:
  SocketEndpoint(UniqueFd listener, const Id& id) : listener_(std::move(listener)), id_(id) {}

  std::string_view name() const override { return "socket"; }
  Capabilities capabilities() const override { return {.mapped = false, .messages = true}; }
  PeerAddress address() const override {
    return {std::string(kMagic) + std::string(reinterpret_cast<const char*>(id_.data()), id_.size()), {}};
  }
  bool reaches(std::string_view bytes) const override {
    return bytes.size() == kMagic.size() + sizeof(Id) && bytes.substr(0, kMagic.size()) == kMagic;
  }

  Result<std::shared_ptr<Link>> connect(PeerAddress peer) override {
    for (const int fd : peer.descriptors) close(fd);
    if (!reaches(peer.bytes) || !peer.descriptors.empty())
      return Status::error(TUTTI_INVALID_ARGUMENT, "socket: not an address of this transport");
    Id other{};
    std::memcpy(other.data(), peer.bytes.data() + kMagic.size(), other.size());
    if (auto known = links_[other].lock(); known && known->state() != LinkState::failed)
      return std::shared_ptr<Link>(known);
    const auto link = std::make_shared<SocketLink>();
    if (other == id_) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return Status::from_errno(errno, "socket: socketpair");
      link->open(UniqueFd(ends[0]), UniqueFd(ends[1]));
    } else if (id_ < other) {
      TUTTI_TRY(socket, call(other));
      link->open(std::move(socket), UniqueFd());
    } else if (const auto caller = callers_.find(other); caller != callers_.end()) {
      link->open(std::move(caller->second), UniqueFd());
      callers_.erase(caller);
    }
    links_[other] = link;
    return std::shared_ptr<Link>(link);
  }

  Status poll(std::vector<Completion>& completions) override {
    accept_callers();
    for (auto entry = links_.begin(); entry != links_.end();) {
      const auto link = entry->second.lock();
      if (link) link->poll(completions);
      entry = link ? std::next(entry) : links_.erase(entry);
    }
    return {};
  }

  Result<SharedBlock> allocate(std::size_t) override {
    return Status::error(TUTTI_UNSUPPORTED, "socket: no mapped memory");
  }
  void release(const SharedBlock&) override {}

 private:
  /// The smaller id calls, and says who it is.
  Result<UniqueFd> call(const Id& other) const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t length = 0;
    const sockaddr_un name = socket_name(other, &length);
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0)
      return Status::from_errno(errno, "socket: connect");
    if (::send(socket.get(), id_.data(), id_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(id_.size()))
      return Status::from_errno(errno, "socket: greeting");
    return socket;
  }

  void accept_callers() {
    for (;;) {
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) break;
      strangers_.emplace_back(fd);
    }
    for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
      Id other{};
      const ssize_t got = recv(stranger->get(), other.data(), other.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) {
        ++stranger;
        continue;
      }
      if (got == static_cast<ssize_t>(other.size())) welcome(other, std::move(*stranger));
      stranger = strangers_.erase(stranger);
    }
  }

  void welcome(const Id& other, UniqueFd socket) {
    const auto entry = links_.find(other);
    const auto link = entry == links_.end() ? nullptr : entry->second.lock();
    if (link && link->state() == LinkState::connecting)
      link->open(std::move(socket), UniqueFd());
    else
      callers_[other] = std::move(socket);
  }

  const UniqueFd listener_;
  const Id id_;
  std::map<Id, std::weak_ptr<SocketLink>> links_;
  std::map<Id, UniqueFd> callers_;  // before connect() asked for them
  std::vector<UniqueFd> strangers_;
};

}  // namespace

Result<std::unique_ptr<Endpoint>> make_socket_endpoint() {
  Id id{};
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
    return Status::from_errno(errno, "socket: getrandom");
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un name = socket_name(id, &length);
  if (!listener || bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 ||
      listen(listener.get(), 64) != 0)
    return Status::from_errno(errno, "socket: listening");
  return std::unique_ptr<Endpoint>(std::make_unique<SocketEndpoint>(std::move(listener), id));
}

}  // namespace tutti::core::contract
