// SPDX-License-Identifier: Apache-2.0
// The side of every rank but 0 of the rendezvous. See bootstrap_protocol.h.
#include <algorithm>

#include "src/comm/bootstrap_protocol.h"

namespace tutti::core {

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
// Attempts to connect start 1 ms apart and end 50 ms apart: 500 waiting ranks then cost 10,000 refused connects a
// second, some 2 % of one core, and a rank 0 that comes late is found at once.
constexpr std::uint64_t kFirstWait = 1 * kMillisecond, kLastWait = 50 * kMillisecond;
// How long a rank whose deadline has passed waits for the root's verdict, which says who is missing.
constexpr std::uint64_t kVerdictGrace = 1000 * kMillisecond;
constexpr std::size_t kBulkRead = 64 * 1024;

std::string seconds_text(std::uint64_t ns) {
  const std::uint64_t tenths = (ns + 50 * kMillisecond) / (100 * kMillisecond);
  return std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") + " s";
}

}  // namespace

MemberProtocol::MemberProtocol(ProtocolSettings settings) : settings_(std::move(settings)) {
  const auto ranks = static_cast<std::size_t>(settings_.ranks);
  members_.resize(ranks);
  has_row_.resize(ranks);
  descriptors_.resize(ranks);
  settings_.identity.role = HandshakeRole::connector;
  settings_.identity.member = static_cast<std::uint32_t>(settings_.rank);
  next_attempt_ns_ = settings_.start_ns;
  attempt_wait_ns_ = kFirstWait;
}

std::string MemberProtocol::here() const {
  return "communicator \"" + settings_.name + "\": rank " + std::to_string(settings_.rank);
}

void MemberProtocol::send(std::string bytes, std::vector<DescriptorPtr> descriptors) {
  ProtocolAction action;
  action.bytes = std::make_shared<const std::string>(std::move(bytes));
  action.descriptors = std::move(descriptors);
  actions_.push_back(std::move(action));
}

void MemberProtocol::fail(Status verdict) {
  if (finished()) return;
  verdict_ = std::move(verdict);
  state_ = State::failed;
  ProtocolAction action;
  action.kind = ProtocolAction::Kind::close;
  actions_.push_back(std::move(action));
}

// Back to looking for rank 0.
void MemberProtocol::part(std::uint64_t now) {
  state_ = State::apart;
  handshake_.reset();
  reader_ = FrameReader();
  next_attempt_ns_ = now + attempt_wait_ns_;
  attempt_wait_ns_ = std::min(2 * attempt_wait_ns_, kLastWait);
}

void MemberProtocol::connected(const Nonce& nonce, const std::string& peer, std::uint64_t) {
  if (state_ != State::apart) return;
  state_ = State::handshaking;
  peer_ = peer;
  HandshakeIdentity identity = settings_.identity;
  identity.nonce = nonce;
  handshake_.emplace(identity);
  send(handshake_->hello());
}

void MemberProtocol::not_connected(Refusal refusal, std::uint64_t now) {
  if (state_ != State::apart) return;
  // A proved root would still listen if it lived. An unproved one may be the former life of this id, about to begin
  // again: only its death counts.
  if ((refusal != Refusal::busy && root_proved_) || (refusal == Refusal::nobody_left && lost_connections_ > 0))
    return fail(
        Status::error(TUTTI_PEER_LOST, here() + ": rank 0 (" + peer_ + ") has gone before all ranks had joined", 0));
  part(now);
}

std::size_t MemberProtocol::want() const {
  switch (state_) {
    case State::handshaking: return handshake_->want();
    case State::introducing: return reader_.want();
    // Nothing follows the table before this rank has answered it, so reading ahead takes nothing from the watcher.
    case State::welcomed: return kBulkRead;
    case State::ready:
    case State::expired: return reader_.want();
    default: return 0;
  }
}

void MemberProtocol::feed_handshake(std::string_view bytes) {
  const std::string answer = handshake_->feed(bytes);
  if (!answer.empty()) send(answer);
  if (handshake_->state() == Handshake::State::refused) {
    Status refusal = handshake_->refusal();
    const bool version = refusal.code() == TUTTI_UNSUPPORTED;
    return fail(std::move(refusal)
                    .with_context(here() + " cannot join at rank 0's socket (" + peer_ + ")")
                    .with_rank(0)
                    .with_remedy(version ? "run the same version of Tutti on all ranks"
                                         : "is TUTTI_UNIQUE_ID the same on all ranks?"));
  }
  if (handshake_->state() != Handshake::State::proved) return;
  root_proved_ = true;
  state_ = State::introducing;
  RankReport report;
  report.rank = static_cast<std::uint32_t>(settings_.rank);
  report.ranks = static_cast<std::uint32_t>(settings_.ranks);
  report.self = settings_.self;
  send(encode_frame(FrameType::introduction, encode_report(report), settings_.descriptors.size()),
       settings_.descriptors);
}

void MemberProtocol::received(std::string_view bytes, std::vector<DescriptorPtr> descriptors, std::uint64_t) {
  if (finished() || state_ == State::apart) return;
  if (state_ == State::handshaking) return feed_handshake(bytes);
  reader_.feed(bytes, std::move(descriptors));
  while (!finished()) {
    auto frame = reader_.next();
    if (!frame.is_ok()) return fail(Status(frame.status()).with_context(here() + ": from rank 0").with_rank(0));
    if (!frame->has_value()) return;
    handle_frame(std::move(**frame));
  }
}

void MemberProtocol::handle_frame(Frame frame) {
  if (frame.type == FrameType::failure) return fail(decode_failure(frame.body));
  // The verdict of a rank that has said "expired" can only be a failure; whatever was on its way before is moot.
  if (state_ == State::expired) return;
  Status status;
  if (frame.type == FrameType::welcome && state_ == State::introducing) {
    state_ = State::welcomed;
  } else if (frame.type == FrameType::member && state_ == State::welcomed) {
    status = take_row(std::move(frame));
  } else if (frame.type == FrameType::neighbour && state_ == State::welcomed) {
    status = take_neighbour(std::move(frame));
  } else if (frame.type == FrameType::table_end && state_ == State::welcomed) {
    status = check_table();
    if (status.is_ok()) {
      state_ = State::ready;
      send(encode_frame(FrameType::ready, {}, 0));
    }
  } else if (frame.type == FrameType::go && state_ == State::ready) {
    state_ = State::complete;
  } else {
    status = Status::error(
        TUTTI_INTERNAL, "rendezvous message of type " + std::to_string(static_cast<int>(frame.type)) + " out of turn");
  }
  if (!status.is_ok()) fail(std::move(status).with_context(here() + ": from rank 0").with_rank(0));
}

Status MemberProtocol::take_row(Frame frame) {
  TUTTI_TRY(report, decode_report(frame.body));
  if (report.ranks != static_cast<std::uint32_t>(settings_.ranks) || report.rank >= report.ranks ||
      has_row_[report.rank])
    return Status::error(TUTTI_INTERNAL, "table row for rank " + std::to_string(report.rank) + " of " +
                                             std::to_string(report.ranks) + " is out of range or comes twice");
  has_row_[report.rank] = true;
  members_[report.rank] = std::move(report.self);
  // Equal on all ranks, or the root would have refused: not sent again.
  members_[report.rank].agreed = settings_.self.agreed;
  descriptors_[report.rank] = std::move(frame.descriptors);
  return Status::ok();
}

Status MemberProtocol::take_neighbour(Frame frame) {
  TUTTI_TRY(neighbour, decode_neighbour(frame.body));
  constexpr std::size_t kMaxNeighbours = 1 << 10;  // two for each rank of this process, at most
  if (neighbour.rank >= static_cast<std::uint32_t>(settings_.ranks) || frame.descriptors.size() != 1 ||
      neighbours_.size() >= kMaxNeighbours)
    return Status::error(TUTTI_INTERNAL, "neighbour rank " + std::to_string(neighbour.rank) + " with " +
                                             std::to_string(frame.descriptors.size()) + " descriptors");
  neighbours_.emplace_back(neighbour, std::move(frame.descriptors.front()));
  return Status::ok();
}

Status MemberProtocol::check_table() const {
  const auto first_hole = std::find(has_row_.begin(), has_row_.end(), false);
  if (first_hole != has_row_.end())
    return Status::error(TUTTI_INTERNAL, "the table lacks rank " + std::to_string(first_hole - has_row_.begin()));
  if (members_[static_cast<std::size_t>(settings_.rank)].process != settings_.self.process)
    return Status::error(TUTTI_INTERNAL, "the table holds another process in this rank's place");
  return Status::ok();
}

bool MemberProtocol::keeps_connection() const {
  const ProcessId& process = settings_.self.process;
  if (state_ != State::complete || members_.front().process == process) return false;
  const auto lowest = std::find_if(members_.begin(), members_.end(),
                                   [&](const Introduction& member) { return member.process == process; });
  return lowest - members_.begin() == settings_.rank;
}

void MemberProtocol::closed(std::uint64_t now) {
  if (finished() || state_ == State::apart) return;
  ++lost_connections_;
  // Before the welcome the root may have shed an unproved connection under load: try again. A root that is really gone
  // refuses the next attempt, and not_connected() says so.
  if (state_ == State::handshaking || state_ == State::introducing) return part(now);
  fail(Status::error(TUTTI_PEER_LOST,
                     here() + ": rank 0 (" + peer_ + ") closed its connection before all ranks had joined", 0));
}

void MemberProtocol::tick(std::uint64_t now) {
  if (finished() || now < settings_.deadline_ns) return;
  if (state_ >= State::introducing && state_ < State::expired) {
    state_ = State::expired;
    send(encode_frame(FrameType::expired, {}, 0));
    return;
  }
  if (state_ == State::expired && now < settings_.deadline_ns + kVerdictGrace) return;
  fail(timeout_verdict(now));
}

std::uint64_t MemberProtocol::next_tick() const {
  if (state_ == State::apart) return std::min(next_attempt_ns_, settings_.deadline_ns);
  if (state_ == State::expired) return settings_.deadline_ns + kVerdictGrace;
  return settings_.deadline_ns;
}

Status MemberProtocol::timeout_verdict(std::uint64_t now) const {
  const std::string within = " within " + seconds_text(now - settings_.start_ns);
  const std::string job = short_job_name(settings_.identity.job);
  std::string text = here();
  std::string remedy;
  if (state_ == State::expired) {
    text += ": rank 0 (" + peer_ + ") has not said who is missing" + within;
    remedy = "is rank 0's process stopped or its machine overloaded?";
  } else if (state_ == State::apart && lost_connections_ == 0) {
    text += ": rank 0 has not come: no socket for job " + job + within;
    remedy = "did rank 0 start, on this machine and in this network namespace, with the same TUTTI_UNIQUE_ID?";
  } else if (lost_connections_ > 0) {
    text += ": rank 0 (" + peer_ + ") closed the connection " + std::to_string(lost_connections_) +
            " times and has not taken this rank in" + within;
    remedy = "see rank 0's log";
  } else {
    text += ": rank 0's socket (" + peer_ + ") took the connection and did not answer" + within;
    remedy = "is rank 0's process stopped or its machine overloaded?";
  }
  return Status::error(TUTTI_TIMEOUT, std::move(text), 0).with_remedy(std::move(remedy));
}

}  // namespace tutti::core
