// SPDX-License-Identifier: Apache-2.0
// The abstract UNIX sockets of the rendezvous: naming, listening, connecting, and moving bytes with descriptors beside
// them. Every descriptor is close-on-exec and non-blocking.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "src/comm/bootstrap_frame.h"

namespace tutti::core {

using JobId = std::array<unsigned char, 16>;

/// "tutti-" and 32 hexadecimal digits of SHA-256(job): the abstract name, without its leading zero byte.
std::string socket_name(const JobId& job);
/// Errors: unavailable; when the name is taken, the text says by which process.
Result<UniqueFd> listen_for_job(const JobId& job);
/// 0 and `connection`, or errno. ECONNREFUSED: nobody listens; EAGAIN: the listener's queue is full.
int connect_to_job(const JobId& job, UniqueFd& connection);
/// Who holds the other end, from SO_PEERCRED; 0: a process that has no number in this pid namespace.
int peer_pid(int socket);
/// "process 4711".
std::string peer_text(int socket);
/// The two ends of a connection between two other processes.
Result<std::pair<UniqueFd, UniqueFd>> make_connection_pair();
/// Raises the soft limit on open files to `wanted` or the hard limit, if it is lower.
void want_open_files(std::uint64_t wanted);

/// What waits to be sent on one connection.
class Outbox {
 public:
  enum class Flush : std::uint8_t {
    done,    ///< nothing is left
    full,    ///< wait for POLLOUT
    later,   ///< the kernel has too many descriptors in flight: POLLOUT does not tell, try again in a millisecond
    broken,  ///< the other end has gone; everything was discarded
  };
  void push(std::shared_ptr<const std::string> bytes, std::vector<DescriptorPtr> descriptors);
  Flush flush(int socket);
  bool empty() const { return queue_.empty(); }

 private:
  struct Piece {
    std::shared_ptr<const std::string> bytes;
    std::vector<DescriptorPtr> descriptors;
    std::size_t sent = 0;
  };
  std::deque<Piece> queue_;
};

/// One read.
struct Received {
  enum class State : std::uint8_t { data, nothing, end } state = State::nothing;
  std::string_view bytes;  ///< in the caller's buffer
  std::vector<DescriptorPtr> descriptors;
};
/// Descriptors that arrive while `take_descriptors` is false are closed by the kernel.
Received receive_some(int socket, char* buffer, std::size_t bytes, bool take_descriptors);

}  // namespace tutti::core
