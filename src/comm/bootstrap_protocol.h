// SPDX-License-Identifier: Apache-2.0
// The rendezvous as two state machines, one for rank 0 (the root) and one for every other rank: (state, event, now) ->
// (state, actions). Sockets and clocks stay outside (bootstrap_root.cc, bootstrap.cc); tests drive these in virtual
// time.
//
//   member                       root (rank 0)
//     | handshake (handshake.h)    |   strangers end here
//     | introduction ------------->|   checked: ranks, rank, twice, agreed settings
//     |<------------------ welcome |   from here on a closed connection is a lost peer, on both sides
//     |      (all ranks there)     |
//     |<--- member x ranks,        |   descriptors beside the row of each foreign process's lowest rank
//     |     neighbour*, table_end  |
//     | ready -------------------->|
//     |       (all ranks ready)    |
//     |<----------------------- go |   the connection now belongs to the watcher, or closes
//
// At any time before go the root may send `failure`: the same verdict to everybody who is present, and to those who
// come within 0.3 s.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/comm/bootstrap_frame.h"
#include "src/comm/handshake.h"

namespace tutti::core {

using Nonce = std::array<unsigned char, 32>;
using ConnectionId = std::uint64_t;  ///< given by the driver; rising

struct ProtocolAction {
  enum class Kind : std::uint8_t {
    send,   ///< bytes, with the descriptors beside the first of them
    close,  ///< once everything before it is sent
    log,    ///< text: a stranger was dropped
  };
  Kind kind = Kind::send;
  ConnectionId connection = 0;
  std::shared_ptr<const std::string> bytes;
  std::vector<DescriptorPtr> descriptors;
  std::string text;
};

/// What both machines know of their own rank.
struct ProtocolSettings {
  HandshakeIdentity identity;  ///< role, member and nonce are filled in per connection
  int rank = 0, ranks = 1;
  std::string name;                        ///< of the communicator, for messages
  Introduction self;                       ///< address.descriptors is not looked at:
  std::vector<DescriptorPtr> descriptors;  ///< these are
  std::uint64_t start_ns = 0, deadline_ns = 0;
};

using DescriptorPair = std::pair<DescriptorPtr, DescriptorPtr>;

/// Names the first setting that differs between two texts of "key=value\n" lines, with both values; empty: none does.
std::string first_difference(std::string_view ours, std::string_view theirs, int their_rank);

class RootProtocol {
 public:
  /// `make_pair` makes the two ends of a liveness connection between two other processes.
  RootProtocol(ProtocolSettings settings, std::function<Result<DescriptorPair>()> make_pair);

  // Events. `peer` describes the process at the other end for messages ("process 4711").
  void connected(ConnectionId id, const Nonce& nonce, const std::string& peer, std::uint64_t now);
  void received(ConnectionId id, std::string_view bytes, std::vector<DescriptorPtr> descriptors, std::uint64_t now);
  void closed(ConnectionId id, std::uint64_t now);
  void tick(std::uint64_t now);

  /// At most this many bytes may be read from the connection now; 0: read nothing, only watch for its end.
  std::size_t want(ConnectionId id) const;
  /// Descriptors are accepted from proved peers only.
  bool takes_descriptors(ConnectionId id) const;
  /// Whether a new connection may be accepted (the number of unproved ones is bounded).
  bool has_room(std::uint64_t now) const;
  /// When tick is due, or has_room may have changed.
  std::uint64_t next_tick(std::uint64_t now) const;
  std::vector<ProtocolAction> take_actions() { return std::exchange(actions_, {}); }

  bool finished() const { return stage_ >= Stage::complete; }
  const Status& verdict() const { return verdict_; }
  /// After success: by rank; descriptors()[r] is filled for the lowest rank of each process.
  const std::vector<Introduction>& members() const { return members_; }
  const std::vector<std::vector<DescriptorPtr>>& descriptors() const { return descriptors_; }
  /// After success: the connections to keep, with the lowest rank of the process at the other end.
  std::vector<std::pair<ConnectionId, int>> liveness() const;

 private:
  enum class Stage : std::uint8_t { gathering, distributing, failing, complete, failed };
  struct Connection {
    enum class State : std::uint8_t { handshaking, proved, introduced, ready };
    Connection(const HandshakeIdentity& identity, std::string peer_text, std::uint64_t now)
        : handshake(identity), peer(std::move(peer_text)), since(now) {}
    State state = State::handshaking;
    Handshake handshake;
    FrameReader reader;
    std::string peer;
    int rank = -1;
    std::uint64_t since;
  };

  void send(ConnectionId id, std::shared_ptr<const std::string> bytes, std::vector<DescriptorPtr> descriptors = {});
  void drop_stranger(ConnectionId id, const std::string& why);
  void feed_handshake(ConnectionId id, Connection& connection, std::string_view bytes);
  void handle_frame(ConnectionId id, Connection& connection, Frame frame);
  void introduce(ConnectionId id, Connection& connection, Frame frame);
  Status check_report(const RankReport& report, const Connection& connection) const;
  void distribute();
  Status send_neighbours();
  void send_rows();
  void finish_if_all_ready();
  void fail(Status verdict);
  void tell(ConnectionId id);
  void finish_if_all_told();
  void close(ConnectionId id);
  Status timeout_verdict() const;
  std::string who(const Connection& connection) const;

  ProtocolSettings settings_;
  std::function<Result<DescriptorPair>()> make_pair_;
  Stage stage_ = Stage::gathering;
  Status verdict_;
  std::set<int> told_;              // ranks that know the verdict
  std::uint64_t linger_until_ = 0;  // while failing
  std::uint64_t now_ = 0;           // of the latest event
  std::vector<ProtocolAction> actions_;
  std::map<ConnectionId, Connection> connections_;
  std::set<ConnectionId> unproved_;
  std::string last_refusal_;
  int refusals_ = 0;
  int present_ = 1, ready_ = 1;              // rank 0 is both
  std::vector<ConnectionId> connection_of_;  // by rank; 0: not introduced
  std::vector<Introduction> members_;        // by rank
  std::vector<std::vector<DescriptorPtr>> descriptors_;
  std::vector<int> leader_;  // by rank: the lowest rank of its process
};

class MemberProtocol {
 public:
  explicit MemberProtocol(ProtocolSettings settings);

  // Events.
  void connected(const Nonce& nonce, const std::string& peer, std::uint64_t now);
  enum class Refusal : std::uint8_t {
    busy,         ///< the listener's queue is full
    nobody,       ///< nobody listens
    nobody_left,  ///< nobody listens, and the process that did has gone
  };
  void not_connected(Refusal refusal, std::uint64_t now);
  void received(std::string_view bytes, std::vector<DescriptorPtr> descriptors, std::uint64_t now);
  void closed(std::uint64_t now);
  void tick(std::uint64_t now);

  /// Whether a connection should be tried now.
  bool wants_connection(std::uint64_t now) const { return state_ == State::apart && now >= next_attempt_ns_; }
  std::size_t want() const;
  bool takes_descriptors() const { return state_ > State::handshaking; }
  std::uint64_t next_tick() const;
  std::vector<ProtocolAction> take_actions() { return std::exchange(actions_, {}); }

  bool finished() const { return state_ >= State::complete; }
  const Status& verdict() const { return verdict_; }
  /// After success.
  const std::vector<Introduction>& members() const { return members_; }
  const std::vector<std::vector<DescriptorPtr>>& descriptors() const { return descriptors_; }
  const std::vector<std::pair<Neighbour, DescriptorPtr>>& neighbours() const { return neighbours_; }
  /// Whether this rank keeps the connection to the root: it is the lowest of a process that is not the root's.
  bool keeps_connection() const;

 private:
  // Only ever rising, but for the way back to `apart`.
  enum class State : std::uint8_t { apart, handshaking, introducing, welcomed, ready, expired, complete, failed };

  void send(std::string bytes, std::vector<DescriptorPtr> descriptors = {});
  void feed_handshake(std::string_view bytes);
  void handle_frame(Frame frame);
  Status take_row(Frame frame);
  Status take_neighbour(Frame frame);
  Status check_table() const;
  void part(std::uint64_t now);
  void fail(Status verdict);
  Status timeout_verdict(std::uint64_t now) const;
  std::string here() const;

  ProtocolSettings settings_;
  State state_ = State::apart;
  Status verdict_;
  std::vector<ProtocolAction> actions_;
  std::optional<Handshake> handshake_;
  FrameReader reader_;
  std::string peer_;
  bool root_proved_ = false;  // in this or an earlier connection
  int lost_connections_ = 0;
  std::uint64_t next_attempt_ns_ = 0, attempt_wait_ns_ = 0;
  std::vector<Introduction> members_;
  std::vector<bool> has_row_;
  std::vector<std::vector<DescriptorPtr>> descriptors_;
  std::vector<std::pair<Neighbour, DescriptorPtr>> neighbours_;
};

}  // namespace tutti::core
