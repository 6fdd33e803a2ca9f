// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/two_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "src/base/clock.h"

namespace tutti::core::contract {
namespace {

constexpr std::size_t kMostDescriptors = 8;

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

void Channel::send(const PeerAddress& address) const {
  require(address.descriptors.size() <= kMostDescriptors, "too many descriptors for a test channel");
  iovec part{const_cast<char*>(address.bytes.data()), address.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (const std::size_t bytes = address.descriptors.size() * sizeof(int); bytes > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), address.descriptors.data(), bytes);
  }
  require(sendmsg(fd_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(address.bytes.size()),
          "the peer is gone (send)");
}

PeerAddress Channel::receive() const {
  PeerAddress address;
  address.bytes.resize(8192);
  iovec part{address.bytes.data(), address.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  require(got > 0, got == 0 ? "the peer is gone (receive)" : std::string("receive: ") + strerror(errno));
  address.bytes.resize(static_cast<std::size_t>(got));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_type != SCM_RIGHTS) continue;
    address.descriptors.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(address.descriptors.data(), CMSG_DATA(header), address.descriptors.size() * sizeof(int));
  }
  return address;
}

void Channel::expect(const std::string& expected) const {
  const std::string got = receive_text();
  require(got == expected, "expected \"" + expected + "\" from the peer, got \"" + got + "\"");
}

PeerProcess::PeerProcess(const MakeEndpoint& make, const Body& body) {
  int ends[2];
  // SEQPACKET keeps texts apart, and a lost peer is an end of file.
  require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  const timeval deadline{kDeadlineNs / 1'000'000'000, 0};
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
  pid_ = fork();
  require(pid_ >= 0, "fork");
  if (pid_ > 0) {
    close(ends[1]);
    channel_ = std::make_unique<Channel>(UniqueFd(ends[0]));
    return;
  }
  close(ends[0]);
  int code = 0;
  try {
    const Channel channel{UniqueFd(ends[1])};
    auto endpoint = make();
    require(endpoint.is_ok(), endpoint.status().to_string());
    body(**endpoint, channel);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    code = 1;
  }
  _exit(code);
}

PeerProcess::~PeerProcess() {
  if (pid_ > 0) kill();
}

void PeerProcess::kill() {
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool PeerProcess::join() {
  // A child that is stuck runs into the deadline of its own waits.
  int status = 0;
  const bool reaped = waitpid(pid_, &status, 0) == pid_;
  pid_ = -1;
  return reaped && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void poll_until(Endpoint& endpoint, std::vector<Completion>& completions, const std::function<bool()>& done) {
  wait_until([&] {
    const Status polled = endpoint.poll(completions);
    require(polled.is_ok(), polled.to_string());
    return done();
  });
}

void wait_until(const std::function<bool()>& done) {
  const std::int64_t deadline = monotonic_ns() + kDeadlineNs;
  while (!done()) {
    require(monotonic_ns() < deadline, "stuck: deadline of a test wait");
    sched_yield();
  }
}

std::shared_ptr<Link> connect_ready(Endpoint& endpoint, PeerAddress address) {
  auto connected = endpoint.connect(std::move(address));
  require(connected.is_ok(), connected.status().to_string());
  const std::shared_ptr<Link> link = *connected;
  std::vector<Completion> completions;
  poll_until(endpoint, completions, [&link] { return link->state() != LinkState::connecting; });
  require(link->state() == LinkState::ready, link->status().to_string());
  return link;
}

std::shared_ptr<Link> connect_over(Endpoint& endpoint, const Channel& channel) {
  channel.send(endpoint.address());
  return connect_ready(endpoint, channel.receive());
}

PeerAddress duplicate(const PeerAddress& address) {
  PeerAddress copy = address;
  for (int& fd : copy.descriptors) fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return copy;
}

int open_descriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  require(directory != nullptr, "opendir /proc/self/fd");
  int count = 0;
  while (const dirent* entry = readdir(directory))
    if (entry->d_name[0] != '.') ++count;
  closedir(directory);
  return count - 1;
}

int memory_mappings() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

std::int64_t address_space_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace tutti::core::contract
