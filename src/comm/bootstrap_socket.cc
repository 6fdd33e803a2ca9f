// SPDX-License-Identifier: Apache-2.0
#include "src/comm/bootstrap_socket.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/log.h"
#include "src/comm/bootstrap_digest.h"

namespace tutti::core {

namespace {

constexpr int kBacklog = 4096;  // net.core.somaxconn's default since Linux 5.4; the kernel takes the smaller

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Abstract: a zero byte, then the name without a terminator. Lives as long as the listener, in its network namespace.
Address address_of(const JobId& job) {
  Address address;
  const std::string name = socket_name(job);
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd make_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxFrameDescriptors)];
};

}  // namespace

std::string socket_name(const JobId& job) {
  constexpr char kDigits[] = "0123456789abcdef";
  const Digest digest = sha256(std::string_view(reinterpret_cast<const char*>(job.data()), job.size()));
  std::string name = "tutti-";
  for (std::size_t i = 0; i < 16; ++i) {
    name.push_back(kDigits[digest[i] >> 4]);
    name.push_back(kDigits[digest[i] & 15]);
  }
  return name;
}

Result<UniqueFd> listen_for_job(const JobId& job) {
  UniqueFd listener = make_socket();
  if (!listener) return Status::from_errno(errno, "rendezvous: no socket");
  const Address address = address_of(job);
  if (::bind(listener.get(), address.get(), address.bytes) != 0) {
    const int error = errno;
    if (error != EADDRINUSE) return Status::from_errno(error, "rendezvous: cannot bind socket @" + socket_name(job));
    UniqueFd probe;
    const std::string holder = connect_to_job(job, probe) == 0 ? peer_text(probe.get()) : "another process";
    return Status::error(TUTTI_UNAVAILABLE,
                         "a rank 0 of this job is already there: " + holder + " holds socket @" + socket_name(job))
        .with_remedy("start each job with a fresh unique id, and one rank 0");
  }
  if (::listen(listener.get(), kBacklog) != 0) return Status::from_errno(errno, "rendezvous: cannot listen");
  return listener;
}

int connect_to_job(const JobId& job, UniqueFd& connection) {
  UniqueFd fresh = make_socket();
  if (!fresh) return errno;
  const Address address = address_of(job);
  if (::connect(fresh.get(), address.get(), address.bytes) != 0) return errno;
  connection = std::move(fresh);
  return 0;
}

int peer_pid(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

std::string peer_text(int socket) {
  const int pid = peer_pid(socket);
  return pid > 0 ? "process " + std::to_string(pid) : "a process of another pid namespace";
}

Result<std::pair<UniqueFd, UniqueFd>> make_connection_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return Status::from_errno(errno, "rendezvous: no socket pair (ulimit -n?)");
  return std::pair<UniqueFd, UniqueFd>(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void want_open_files(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur > before && ::setrlimit(RLIMIT_NOFILE, &limit) == 0)
    TUTTI_LOG(debug, -1, "raised the limit on open files", {"from", before}, {"to", limit.rlim_cur});
}

void Outbox::push(std::shared_ptr<const std::string> bytes, std::vector<DescriptorPtr> descriptors) {
  queue_.push_back({std::move(bytes), std::move(descriptors)});
}

Outbox::Flush Outbox::flush(int socket) {
  while (!queue_.empty()) {
    Piece& piece = queue_.front();
    iovec data{const_cast<char*>(piece.bytes->data()) + piece.sent, piece.bytes->size() - piece.sent};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    ControlBuffer control{};
    if (!piece.descriptors.empty()) {
      const std::size_t bytes = sizeof(int) * piece.descriptors.size();
      message.msg_control = control.bytes;
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(bytes);
      for (std::size_t i = 0; i < piece.descriptors.size(); ++i) {
        const int number = piece.descriptors[i]->number();
        std::memcpy(CMSG_DATA(header) + i * sizeof(int), &number, sizeof(int));
      }
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Flush::full;
      if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) return Flush::later;
      queue_.clear();
      return Flush::broken;
    }
    piece.descriptors.clear();  // they went beside the first byte
    piece.sent += static_cast<std::size_t>(sent);
    if (piece.sent == piece.bytes->size()) queue_.pop_front();
  }
  return Flush::done;
}

Received receive_some(int socket, char* buffer, std::size_t bytes, bool take_descriptors) {
  Received result;
  ControlBuffer control{};
  iovec data{buffer, bytes};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (take_descriptors) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
  }
  ssize_t got;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return result;
  if (take_descriptors && got >= 0) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int number;
        std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
        result.descriptors.push_back(std::make_shared<Descriptor>(number, true));
      }
    }
  }
  result.state = got > 0 ? Received::State::data : Received::State::end;
  if (got > 0) result.bytes = std::string_view(buffer, static_cast<std::size_t>(got));
  return result;
}

}  // namespace tutti::core
