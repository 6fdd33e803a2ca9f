// SPDX-License-Identifier: Apache-2.0
// Two processes for a test: a forked child with an endpoint of its own, and a channel between the two that carries
// addresses (with their descriptors) and short texts.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/transport.h"

namespace tutti::core::contract {

/// Nothing in these tests takes this long; what does is stuck.
constexpr std::int64_t kDeadlineNs = 30'000'000'000;

/// One end of a pair. Every receive has the deadline above; a failure is an exception, because a test that lost its
/// peer has nothing left to say (gtest and the child's main turn it into a failure).
class Channel {
 public:
  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}
  void send_text(const std::string& text) const { send({text, {}}); }
  std::string receive_text() const { return receive().bytes; }
  /// Throws unless the next text is `expected`.
  void expect(const std::string& expected) const;
  void send_number(std::uint64_t number) const { send_text(std::to_string(number)); }
  std::uint64_t receive_number() const { return std::stoull(receive_text()); }
  void send(const PeerAddress& address) const;
  PeerAddress receive() const;  ///< its descriptors are the caller's

 private:
  UniqueFd fd_;
};

/// The child's life: it makes an endpoint, runs `body`, and leaves with 0, or 1 after saying on stderr what was thrown.
class PeerProcess {
 public:
  using MakeEndpoint = std::function<Result<std::unique_ptr<Endpoint>>()>;
  using Body = std::function<void(Endpoint&, const Channel&)>;

  PeerProcess(const MakeEndpoint& make, const Body& body);
  ~PeerProcess();  ///< kills it if it still runs
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const Channel& channel() const { return *channel_; }
  /// SIGKILL, and waits until it is gone.
  void kill();
  /// True if it ended well.
  bool join();

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Channel> channel_;
};

/// Throws with `what` unless `condition`: for the child, where gtest's macros report to nobody.
void require(bool condition, const std::string& what);

/// Polls `endpoint` until `done` says so. Throws at the deadline.
void poll_until(Endpoint& endpoint, std::vector<Completion>& completions, const std::function<bool()>& done);

/// Yields until `done` says so. Throws at the deadline.
void wait_until(const std::function<bool()>& done);

/// Swaps addresses over the channel and connects; the link is ready.
std::shared_ptr<Link> connect_over(Endpoint& endpoint, const Channel& channel);

/// connect() and polls until the link is ready. Throws if it fails.
std::shared_ptr<Link> connect_ready(Endpoint& endpoint, PeerAddress address);

/// A copy that connect() may own: what SCM_RIGHTS does between processes.
PeerAddress duplicate(const PeerAddress& address);

/// Of this process, without those that counting opens.
int open_descriptors();
/// Lines of /proc/self/maps.
int memory_mappings();
/// Address space in use, also where neighbouring leaks count as one mapping.
std::int64_t address_space_bytes();

}  // namespace tutti::core::contract
