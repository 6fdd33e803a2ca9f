// SPDX-License-Identifier: Apache-2.0
// The root's side of the rendezvous. See bootstrap_protocol.h.
#include "src/comm/bootstrap_protocol.h"

#include <algorithm>

namespace tutti::core {

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
// An honest peer proves itself in two messages that it sends without thinking: 5 s is a stopped or hostile process.
constexpr std::uint64_t kHandshakeLimit = 5000 * kMillisecond;
// More unproved connections than this wait in the listener's queue; when it is full of silent ones, those older than
// kShedAge make room, so a crowd of strangers costs honest peers time but not their place (they try again).
constexpr std::size_t kMaxUnproved = 256;
constexpr std::uint64_t kShedAge = 250 * kMillisecond;
constexpr int kMaxRefusalLines = 20;
// A root that has failed stays this long for ranks that are just starting: they then hear the reason at once, instead
// of waiting for a rank 0 that does not come back. Well below the second in which a death must be reported.
constexpr std::uint64_t kLinger = 300 * kMillisecond;

std::string_view line_value(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line.substr(0, key.size()) == key && line[key.size()] == '=')
      return line.substr(key.size() + 1);
    at = end + 1;
  }
  return "(not set)";
}

// First key of `text` whose value differs in `other`.
std::string_view differing_key(std::string_view text, std::string_view other) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::string_view key = line.substr(0, line.find('='));
    if (!line.empty() && line_value(text, key) != line_value(other, key)) return key;
    at = end + 1;
  }
  return {};
}

}  // namespace

std::string first_difference(std::string_view ours, std::string_view theirs, int their_rank) {
  if (ours == theirs) return {};
  std::string_view key = differing_key(ours, theirs);
  if (key.empty()) key = differing_key(theirs, ours);
  if (key.empty())
    return "the settings of rank 0 and rank " + std::to_string(their_rank) + " are listed in another order";
  return "setting " + printable(key) + " is " + printable(line_value(ours, key)) + " on rank 0 and " +
         printable(line_value(theirs, key)) + " on rank " + std::to_string(their_rank);
}

RootProtocol::RootProtocol(ProtocolSettings settings, std::function<Result<DescriptorPair>()> make_pair)
    : settings_(std::move(settings)), make_pair_(std::move(make_pair)) {
  const auto ranks = static_cast<std::size_t>(settings_.ranks);
  settings_.identity.role = HandshakeRole::listener;
  settings_.identity.member = 0;
  connection_of_.resize(ranks);
  members_.resize(ranks);
  descriptors_.resize(ranks);
  members_[0] = settings_.self;
  members_[0].address.descriptors.clear();
  descriptors_[0] = std::move(settings_.descriptors);
}

std::string RootProtocol::who(const Connection& connection) const {
  const std::string rank = "rank " + std::to_string(connection.rank);
  if (connection.state == Connection::State::proved) return rank + " (" + connection.peer + ")";
  const Introduction& member = members_[static_cast<std::size_t>(connection.rank)];
  return rank + " (process " + std::to_string(member.pid) +
         (member.host.empty() ? "" : " on " + printable(member.host)) + ")";
}

void RootProtocol::send(ConnectionId id, std::shared_ptr<const std::string> bytes,
                        std::vector<DescriptorPtr> descriptors) {
  ProtocolAction action;
  action.connection = id;
  action.bytes = std::move(bytes);
  action.descriptors = std::move(descriptors);
  actions_.push_back(std::move(action));
}

bool RootProtocol::has_room(std::uint64_t now) const {
  if (finished()) return false;
  if (unproved_.size() < kMaxUnproved) return true;
  return now - connections_.at(*unproved_.begin()).since >= kShedAge;
}

void RootProtocol::connected(ConnectionId id, const Nonce& nonce, const std::string& peer, std::uint64_t now) {
  now_ = now;
  if (finished()) return;
  if (unproved_.size() >= kMaxUnproved) drop_stranger(*unproved_.begin(), "made room for newer connections");
  HandshakeIdentity identity = settings_.identity;
  identity.nonce = nonce;
  const auto [place, fresh] = connections_.emplace(id, Connection(identity, peer, now));
  TUTTI_CHECK(fresh);
  unproved_.insert(id);
  send(id, std::make_shared<const std::string>(place->second.handshake.hello()));
}

void RootProtocol::drop_stranger(ConnectionId id, const std::string& why) {
  ProtocolAction action;
  const auto place = connections_.find(id);
  if (++refusals_ <= kMaxRefusalLines) {
    action.kind = ProtocolAction::Kind::log;
    action.text = "dropped a connection from " + place->second.peer + ": " + why;
    if (refusals_ == kMaxRefusalLines) action.text += "; further ones are dropped without a line";
    actions_.push_back(action);
  }
  last_refusal_ = place->second.peer + ": " + why;
  close(id);
  connections_.erase(place);
  unproved_.erase(id);
}

void RootProtocol::close(ConnectionId id) {
  ProtocolAction action;
  action.kind = ProtocolAction::Kind::close;
  action.connection = id;
  actions_.push_back(std::move(action));
}

std::size_t RootProtocol::want(ConnectionId id) const {
  const auto place = connections_.find(id);
  if (finished() || place == connections_.end()) return 0;
  const Connection& connection = place->second;
  return connection.state == Connection::State::handshaking ? connection.handshake.want() : connection.reader.want();
}

bool RootProtocol::takes_descriptors(ConnectionId id) const {
  const auto place = connections_.find(id);
  return place != connections_.end() && place->second.state != Connection::State::handshaking;
}

void RootProtocol::received(ConnectionId id, std::string_view bytes, std::vector<DescriptorPtr> descriptors,
                            std::uint64_t now) {
  now_ = now;
  const auto place = connections_.find(id);
  if (finished() || place == connections_.end()) return;
  Connection& connection = place->second;
  if (connection.state == Connection::State::handshaking) return feed_handshake(id, connection, bytes);
  connection.reader.feed(bytes, std::move(descriptors));
  while (stage_ < Stage::failing) {  // from then on `connection` is gone
    auto frame = connection.reader.next();
    if (!frame.is_ok())
      return fail(Status(frame.status()).with_context("from " + who(connection)).with_rank(connection.rank));
    if (!frame->has_value()) return;
    handle_frame(id, connection, std::move(**frame));
  }
}

void RootProtocol::feed_handshake(ConnectionId id, Connection& connection, std::string_view bytes) {
  const std::string answer = connection.handshake.feed(bytes);
  if (!answer.empty()) send(id, std::make_shared<const std::string>(answer));
  if (connection.handshake.state() == Handshake::State::refused)
    return drop_stranger(id, connection.handshake.refusal().message());
  if (connection.handshake.state() != Handshake::State::proved) return;
  unproved_.erase(id);
  connection.state = Connection::State::proved;
  connection.rank = static_cast<int>(std::min<std::uint32_t>(connection.handshake.peer_member(), kMaxRanks));
  if (stage_ != Stage::failing) return;
  tell(id);
  finish_if_all_told();
}

void RootProtocol::handle_frame(ConnectionId id, Connection& connection, Frame frame) {
  using State = Connection::State;
  if (frame.type == FrameType::introduction && connection.state == State::proved)
    return introduce(id, connection, std::move(frame));
  if (frame.type == FrameType::expired && connection.state != State::proved) return fail(timeout_verdict());
  if (frame.type == FrameType::ready && connection.state == State::introduced && stage_ == Stage::distributing) {
    connection.state = State::ready;
    ++ready_;
    return finish_if_all_ready();
  }
  fail(Status::error(TUTTI_INTERNAL,
                     who(connection) + " sent a rendezvous message of type " +
                         std::to_string(static_cast<int>(frame.type)) + " out of turn",
                     connection.rank));
}

void RootProtocol::introduce(ConnectionId id, Connection& connection, Frame frame) {
  auto report = decode_report(frame.body);
  Status status = report.is_ok() ? check_report(*report, connection) : Status(report.status());
  if (!status.is_ok()) return fail(std::move(status).with_rank(connection.rank));
  const auto rank = report->rank;
  connection.state = Connection::State::introduced;
  connection_of_[rank] = id;
  members_[rank] = std::move(report->self);
  descriptors_[rank] = std::move(frame.descriptors);
  send(id, std::make_shared<const std::string>(encode_frame(FrameType::welcome, {}, 0)));
  if (++present_ == settings_.ranks) distribute();
}

Status RootProtocol::check_report(const RankReport& report, const Connection& connection) const {
  const std::string rank = "rank " + std::to_string(report.rank);
  const std::string newcomer = rank + " (process " + std::to_string(report.self.pid) + ")";
  if (report.rank != connection.handshake.peer_member())
    return Status::error(TUTTI_INTERNAL,
                         newcomer + " proved to be rank " + std::to_string(connection.handshake.peer_member()));
  if (report.ranks != static_cast<std::uint32_t>(settings_.ranks))
    return Status::error(TUTTI_INVALID_ARGUMENT, newcomer + " joined with " + std::to_string(report.ranks) +
                                                     " ranks, rank 0 with " + std::to_string(settings_.ranks))
        .with_remedy("pass the same number of ranks everywhere (WORLD_SIZE)");
  if (report.rank >= report.ranks)
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         newcomer + " is not among ranks 0 to " + std::to_string(settings_.ranks - 1));
  if (report.rank == 0 || connection_of_[report.rank] != 0)
    return Status::error(TUTTI_INVALID_ARGUMENT, rank + " came twice: process " +
                                                     std::to_string(members_[report.rank].pid) + " and process " +
                                                     std::to_string(report.self.pid))
        .with_remedy("give every rank its own number (RANK)");
  const std::string difference =
      first_difference(settings_.self.agreed, report.self.agreed, static_cast<int>(report.rank));
  if (!difference.empty()) return Status::error(TUTTI_MISMATCH, difference).with_remedy("set it alike on all ranks");
  return Status::ok();
}

// Everybody is present: who shares a process, and then the table to all.
void RootProtocol::distribute() {
  stage_ = Stage::distributing;
  std::map<ProcessId, int> lowest;
  for (int rank = 0; rank < settings_.ranks; ++rank) {
    const auto place = lowest.emplace(members_[static_cast<std::size_t>(rank)].process, rank).first;
    leader_.push_back(place->second);
    // Every rank of a process sends the same descriptors; one set of them is enough.
    if (place->second != rank) descriptors_[static_cast<std::size_t>(rank)].clear();
  }
  send_rows();
  if (Status status = send_neighbours(); !status.is_ok()) return fail(std::move(status));
  const auto end = std::make_shared<const std::string>(encode_frame(FrameType::table_end, {}, 0));
  for (std::size_t rank = 1; rank < connection_of_.size(); ++rank) send(connection_of_[rank], end);
  finish_if_all_ready();
}

// Rows without descriptors are gathered in shared blocks, so that 512 ranks cost a few sends each and not 512.
void RootProtocol::send_rows() {
  constexpr std::size_t kBlockBytes = 64 * 1024;
  std::vector<std::shared_ptr<const std::string>> blocks;
  std::map<int, std::pair<std::shared_ptr<const std::string>, std::shared_ptr<const std::string>>> leaders;
  std::string block;
  for (int rank = 0; rank < settings_.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankReport report;
    report.rank = static_cast<std::uint32_t>(rank);
    report.ranks = static_cast<std::uint32_t>(settings_.ranks);
    report.self = members_[at];
    report.self.agreed.clear();
    const std::string body = encode_report(report);
    std::string plain = encode_frame(FrameType::member, body, 0);
    if (!descriptors_[at].empty()) {
      leaders[rank] = {
          std::make_shared<const std::string>(encode_frame(FrameType::member, body, descriptors_[at].size())),
          std::make_shared<const std::string>(std::move(plain))};
      continue;
    }
    block += plain;
    if (block.size() >= kBlockBytes) blocks.push_back(std::make_shared<const std::string>(std::exchange(block, {})));
  }
  if (!block.empty()) blocks.push_back(std::make_shared<const std::string>(std::move(block)));
  for (std::size_t rank = 1; rank < connection_of_.size(); ++rank) {
    for (const auto& shared : blocks) send(connection_of_[rank], shared);
    for (const auto& [leader, frames] : leaders) {
      if (leader == leader_[rank])
        send(connection_of_[rank], frames.second);  // its own process: nothing to map
      else
        send(connection_of_[rank], frames.first, descriptors_[static_cast<std::size_t>(leader)]);
    }
  }
}

// A liveness connection between the processes of rank k and rank k + 1, for all k: once per pair of processes, none to
// the root's process (the star has it) and none within a process.
Status RootProtocol::send_neighbours() {
  std::set<std::pair<int, int>> done;
  for (int rank = 0; rank < settings_.ranks; ++rank) {
    const int a = leader_[static_cast<std::size_t>(rank)];
    const int b = leader_[static_cast<std::size_t>((rank + 1) % settings_.ranks)];
    if (a == b || a == 0 || b == 0 || !done.insert(std::minmax(a, b)).second) continue;
    TUTTI_TRY(ends, make_pair_());
    const auto give = [&](int to, int other, DescriptorPtr end) {
      const Neighbour neighbour{static_cast<std::uint32_t>(other), members_[static_cast<std::size_t>(other)].process};
      send(connection_of_[static_cast<std::size_t>(to)],
           std::make_shared<const std::string>(encode_frame(FrameType::neighbour, encode_neighbour(neighbour), 1)),
           {std::move(end)});
    };
    give(a, b, std::move(ends.first));
    give(b, a, std::move(ends.second));
  }
  return Status::ok();
}

void RootProtocol::finish_if_all_ready() {
  if (finished() || stage_ != Stage::distributing || ready_ < settings_.ranks) return;
  stage_ = Stage::complete;
  const auto go = std::make_shared<const std::string>(encode_frame(FrameType::go, {}, 0));
  for (std::size_t rank = 1; rank < connection_of_.size(); ++rank) {
    send(connection_of_[rank], go);
    if (leader_[rank] != static_cast<int>(rank)) close(connection_of_[rank]);
  }
}

std::vector<std::pair<ConnectionId, int>> RootProtocol::liveness() const {
  std::vector<std::pair<ConnectionId, int>> kept;
  for (std::size_t rank = 1; rank < leader_.size(); ++rank)
    if (leader_[rank] == static_cast<int>(rank)) kept.emplace_back(connection_of_[rank], static_cast<int>(rank));
  return kept;
}

void RootProtocol::closed(ConnectionId id, std::uint64_t now) {
  now_ = now;
  const auto place = connections_.find(id);
  if (finished() || place == connections_.end()) return;
  Connection& connection = place->second;
  if (connection.state == Connection::State::handshaking)
    return drop_stranger(id, "closed before it had proved to know the job's secret");
  fail(Status::error(TUTTI_PEER_LOST, who(connection) + " ended before all ranks had joined", connection.rank));
}

void RootProtocol::tick(std::uint64_t now) {
  now_ = now;
  if (finished()) return;
  if (stage_ == Stage::failing) return finish_if_all_told();
  if (now >= settings_.deadline_ns) return fail(timeout_verdict());
  while (!unproved_.empty() && now - connections_.at(*unproved_.begin()).since >= kHandshakeLimit)
    drop_stranger(*unproved_.begin(), "did not prove within 5 s to know the job's secret");
}

std::uint64_t RootProtocol::next_tick(std::uint64_t now) const {
  if (stage_ == Stage::failing) return linger_until_;
  if (unproved_.empty()) return settings_.deadline_ns;
  const std::uint64_t oldest = connections_.at(*unproved_.begin()).since;
  return std::min(settings_.deadline_ns, oldest + (has_room(now) ? kHandshakeLimit : kShedAge));
}

Status RootProtocol::timeout_verdict() const {
  std::vector<int> waited_for;
  for (int rank = 1; rank < settings_.ranks; ++rank) {
    const ConnectionId id = connection_of_[static_cast<std::size_t>(rank)];
    const bool awaited = stage_ == Stage::gathering ? id == 0 : connections_.at(id).state != Connection::State::ready;
    if (awaited) waited_for.push_back(rank);
  }
  std::string text = std::to_string(present_) + " of " + std::to_string(settings_.ranks) + " ranks present; ";
  text += (stage_ == Stage::gathering ? "missing: " : "present but not answering: ") + rank_list(waited_for);
  text += " (after " + std::to_string((now_ - settings_.start_ns + 500 * kMillisecond) / (1000 * kMillisecond)) + " s)";
  if (!last_refusal_.empty()) text += "; last connection refused: " + last_refusal_;
  return Status::error(TUTTI_TIMEOUT, std::move(text), waited_for.empty() ? -1 : waited_for.front())
      .with_remedy(stage_ == Stage::gathering
                       ? "did they start, on this machine, with the same TUTTI_UNIQUE_ID? init_timeout sets the wait"
                       : "are they stopped?");
}

// The same words to everybody who has proved to belong to the job.
void RootProtocol::fail(Status verdict) {
  if (stage_ >= Stage::failing) return;
  stage_ = Stage::failing;
  verdict_ = std::move(verdict).with_context("communicator \"" + settings_.name + "\"");
  // After a timeout nobody else is awaited.
  linger_until_ = verdict_.code() == TUTTI_TIMEOUT ? now_ : std::min(now_ + kLinger, settings_.deadline_ns);
  std::vector<ConnectionId> proved;
  for (const auto& [id, connection] : connections_)
    if (connection.state != Connection::State::handshaking) proved.push_back(id);
  for (const ConnectionId id : proved) tell(id);
  finish_if_all_told();
}

void RootProtocol::tell(ConnectionId id) {
  send(id, std::make_shared<const std::string>(encode_frame(FrameType::failure, encode_failure(verdict_), 0)));
  close(id);
  const auto place = connections_.find(id);
  told_.insert(place->second.rank);
  connections_.erase(place);
}

void RootProtocol::finish_if_all_told() {
  const int culprit = verdict_.failing_rank();
  const bool culprit_counts = culprit > 0 && culprit < settings_.ranks && told_.count(culprit) == 0;
  const std::size_t known = told_.size() + (culprit_counts ? 1 : 0);
  if (now_ < linger_until_ && known + 1 < static_cast<std::size_t>(settings_.ranks)) return;
  stage_ = Stage::failed;
  for (const auto& [id, connection] : connections_) close(id);
  connections_.clear();
  unproved_.clear();
}

}  // namespace tutti::core
