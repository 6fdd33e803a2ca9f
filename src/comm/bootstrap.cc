// SPDX-License-Identifier: Apache-2.0
#include "src/comm/bootstrap.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/comm/bootstrap_digest.h"
#include "src/comm/bootstrap_driver.h"

namespace tutti::core {

namespace {

constexpr std::size_t kSecretAt = 16;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status check_request(const JoinRequest& request) {
  if (request.ranks < 1 || request.ranks > kMaxRanks)
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "ranks is " + std::to_string(request.ranks) + ", allowed: 1 to " + std::to_string(kMaxRanks));
  if (request.rank < 0 || request.rank >= request.ranks)
    return Status::error(TUTTI_INVALID_ARGUMENT, "rank is " + std::to_string(request.rank) + ", allowed: 0 to " +
                                                     std::to_string(request.ranks - 1));
  return check_introduction(request.self);
}

ProtocolSettings settings_of(JoinRequest& request) {
  ProtocolSettings settings;
  std::memcpy(settings.identity.job.data(), request.id.data(), settings.identity.job.size());
  std::memcpy(settings.identity.secret.data(), request.id.data() + kSecretAt, settings.identity.secret.size());
  settings.rank = request.rank;
  settings.ranks = request.ranks;
  settings.name = printable(request.name);
  settings.self = std::move(request.self);
  for (const int number : settings.self.address.descriptors)
    settings.descriptors.push_back(std::make_shared<Descriptor>(number, false));  // borrowed
  settings.start_ns = now_ns();
  settings.deadline_ns = request.deadline_ns;
  return settings;
}

// One rank alone needs nobody.
JoinResult join_alone(ProtocolSettings settings) {
  JoinResult joined;
  joined.members.push_back(std::move(settings.self));
  joined.members.front().address.descriptors.clear();
  return joined;
}

class MemberDriver {
 public:
  explicit MemberDriver(ProtocolSettings settings)
      : job_(settings.identity.job), self_(settings.self.process), protocol_(std::move(settings)) {}

  Result<JoinResult> run() {
    while (!protocol_.finished()) {
      if (protocol_.wants_connection(now_ns())) TUTTI_TRY(attempt());
      apply_actions();
      TUTTI_TRY(step());
      protocol_.tick(now_ns());
      apply_actions();
    }
    if (!protocol_.verdict().is_ok()) return protocol_.verdict();
    return result();
  }

 private:
  Status attempt() {
    TUTTI_TRY(nonce, make_nonce());
    outbox_ = Outbox();
    const int error = connect_to_job(job_, socket_);
    if (error == 0) {
      listener_pid_ = peer_pid(socket_.get());
      protocol_.connected(nonce, peer_text(socket_.get()), now_ns());
    } else if (error == ECONNREFUSED || error == EAGAIN || error == EINTR) {
      protocol_.not_connected(refusal(error), now_ns());
    } else {
      return Status::from_errno(error, "rendezvous: cannot connect to socket @" + socket_name(job_));
    }
    return Status::ok();
  }

  MemberProtocol::Refusal refusal(int error) const {
    if (error != ECONNREFUSED) return MemberProtocol::Refusal::busy;
    const bool gone = listener_pid_ > 0 && ::kill(listener_pid_, 0) != 0 && errno == ESRCH;
    return gone ? MemberProtocol::Refusal::nobody_left : MemberProtocol::Refusal::nobody;
  }

  void apply_actions() {
    for (ProtocolAction& action : protocol_.take_actions())
      if (action.kind == ProtocolAction::Kind::send)
        outbox_.push(std::move(action.bytes), std::move(action.descriptors));
  }

  Status step() {
    std::uint64_t until = protocol_.next_tick();
    std::vector<pollfd> entries;
    if (socket_) {
      short events = POLLIN;
      const Outbox::Flush flushed = outbox_.flush(socket_.get());
      if (flushed == Outbox::Flush::full) events |= POLLOUT;
      if (flushed == Outbox::Flush::later) until = std::min(until, now_ns() + 1'000'000);
      entries.push_back({socket_.get(), events, 0});
    }
    if (protocol_.finished()) return Status::ok();
    if (!poll_until(entries, until)) return Status::from_errno(errno, "rendezvous: ppoll");
    if (!entries.empty() && entries.front().revents != 0) read();
    return Status::ok();
  }

  void read() {
    while (const std::size_t want = protocol_.want()) {
      Received got =
          receive_some(socket_.get(), buffer_.data(), std::min(want, buffer_.size()), protocol_.takes_descriptors());
      if (got.state == Received::State::nothing) return;
      if (got.state == Received::State::end) {
        socket_.reset();
        return protocol_.closed(now_ns());
      }
      protocol_.received(got.bytes, std::move(got.descriptors), now_ns());
    }
  }

  JoinResult result() {
    JoinResult joined;
    if (protocol_.keeps_connection())
      joined.connections.push_back({std::move(socket_), protocol_.members().front().process, 0});
    for (const auto& [neighbour, descriptor] : protocol_.neighbours())
      joined.connections.push_back(
          {UniqueFd(descriptor->release()), neighbour.process, static_cast<int>(neighbour.rank)});
    joined.members = hand_over_members(protocol_.members(), protocol_.descriptors(), self_);
    return joined;
  }

  std::array<unsigned char, 16> job_;
  ProcessId self_;
  MemberProtocol protocol_;
  UniqueFd socket_;
  int listener_pid_ = 0;  // of the latest connection; 0: none, or not visible from here
  Outbox outbox_;
  std::vector<char> buffer_ = std::vector<char>(64 * 1024);
};

}  // namespace

Result<JoinResult> run_member(ProtocolSettings settings) { return MemberDriver(std::move(settings)).run(); }

std::uint64_t now_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

bool poll_until(std::vector<pollfd>& entries, std::uint64_t until_ns) {
  const std::uint64_t now = now_ns();
  const std::uint64_t wait = until_ns > now ? until_ns - now : 0;
  timespec timeout{static_cast<time_t>(std::min<std::uint64_t>(wait / 1'000'000'000, 3600)),
                   static_cast<long>(wait % 1'000'000'000)};
  if (::ppoll(entries.data(), entries.size(), &timeout, nullptr) >= 0) return true;
  for (pollfd& entry : entries) entry.revents = 0;
  return errno == EINTR;
}

Result<Nonce> make_nonce() {
  Nonce nonce;
  TUTTI_TRY(fill_random(nonce));
  return nonce;
}

std::vector<Introduction> hand_over_members(const std::vector<Introduction>& members,
                                            const std::vector<std::vector<DescriptorPtr>>& descriptors,
                                            const ProcessId& self) {
  std::vector<Introduction> result = members;
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    result[rank].address.descriptors.clear();
    if (result[rank].process == self) continue;
    for (const DescriptorPtr& descriptor : descriptors[rank])
      result[rank].address.descriptors.push_back(descriptor->release());
  }
  return result;
}

Result<UniqueIdBytes> make_unique_id() {
  UniqueIdBytes id{};
  TUTTI_TRY(fill_random(std::span(id).first(kSecretAt + 32)));
  return id;
}

Result<UniqueIdBytes> parse_unique_id(std::string_view text) {
  UniqueIdBytes id{};
  if (text.size() != 2 * id.size())
    return Status::error(TUTTI_INVALID_ARGUMENT, "unique id: " + std::to_string(text.size()) + " characters, needed " +
                                                     std::to_string(2 * id.size()) + " hexadecimal digits");
  for (std::size_t i = 0; i < id.size(); ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return Status::error(TUTTI_INVALID_ARGUMENT, "unique id: no hexadecimal digit at character " +
                                                       std::to_string(2 * i + (high < 0 ? 0 : 1)));
    id[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return id;
}

std::string format_unique_id(const UniqueIdBytes& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : id) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

Result<JoinResult> join(JoinRequest request) {
  if (Status status = check_request(request); !status.is_ok())
    return std::move(status).with_context("communicator \"" + printable(request.name) + "\"");
  const std::uint64_t ranks = static_cast<std::uint64_t>(request.ranks);
  ProtocolSettings settings = settings_of(request);
  if (ranks == 1) return join_alone(std::move(settings));
  // Worst case of one process: every rank's connection (both ends, if all are threads of this process), every rank's
  // descriptors, and as many again for the host application.
  want_open_files(1024 + ranks * (4 + settings.descriptors.size()));
  return settings.rank == 0 ? run_root(std::move(settings)) : run_member(std::move(settings));
}

}  // namespace tutti::core
