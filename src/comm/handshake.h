// SPDX-License-Identifier: Apache-2.0
// What two processes say to each other before anything else on a connection: who they are, and proof that both know the
// job's secret. Pure state machine: bytes in, bytes out; no socket, no clock.
//
//   connector                                listener
//      | hello (versions, job, member, nonce)   |
//      |--------------------------------------->|   both hellos leave at once
//      |<---------------------------------------|
//      | proof = HMAC(secret, role + both hellos)|
//      |--------------------------------------->|   both proofs leave once the other's hello is checked
//      |<---------------------------------------|
//
// The nonces make every proof good for one connection only; the role in it stops a proof being played back to its
// maker. The first 16 bytes of a hello never change, so that any two versions can refuse each other in one sentence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tutti::core {

constexpr std::uint16_t kProtocolVersion = 1;
constexpr std::size_t kHelloBytes = 128;
constexpr std::size_t kProofBytes = 32;

enum class HandshakeRole : std::uint16_t { connector = 1, listener = 2 };

/// One side of a handshake.
struct HandshakeIdentity {
  HandshakeRole role = HandshakeRole::connector;
  std::uint32_t member = 0;  ///< rank that this side claims; part of the proof
  std::array<unsigned char, 16> job{};
  std::array<unsigned char, 32> secret{};
  std::array<unsigned char, 32> nonce{};  ///< fresh random for every connection
  std::uint16_t min_version = kProtocolVersion;
  std::uint16_t max_version = kProtocolVersion;
  std::string build;  ///< for messages; cut to 56 bytes. Empty: this library's version
};

class Handshake {
 public:
  enum class State : std::uint8_t { exchanging, proved, refused };

  explicit Handshake(const HandshakeIdentity& self);

  /// To be sent first.
  const std::string& hello() const { return hello_; }
  /// Bytes still missing of the message being received; 0 once proved or refused. Read no more than this: what follows
  /// belongs to the next protocol.
  std::size_t want() const;
  /// Takes at most want() bytes; returns what is to be sent now (empty: nothing).
  std::string feed(std::string_view bytes);

  State state() const { return state_; }
  /// Why, when refused: one sentence.
  const Status& refusal() const { return refusal_; }
  /// Valid once proved.
  std::uint32_t peer_member() const { return peer_member_; }
  std::uint16_t version() const { return version_; }
  const std::string& peer_build() const { return peer_build_; }
  /// The other side has sent a whole hello of our protocol: it is some Tutti, if not of our job.
  bool peer_spoke() const { return peer_hello_.size() == kHelloBytes; }

 private:
  void refuse(tutti_code code, std::string text);
  bool check_preamble();
  bool check_hello();
  std::string proof(HandshakeRole role) const;

  HandshakeIdentity self_;
  State state_ = State::exchanging;
  std::string hello_, peer_hello_, peer_proof_;
  Status refusal_;
  std::uint32_t peer_member_ = 0;
  std::uint16_t version_ = 0;
  std::string peer_build_;
};

/// Text of another process made safe for a log line: unprintable bytes become '?', at most `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = 64);
/// "1a2b3c4d": enough of a job id to tell jobs apart.
std::string short_job_name(const std::array<unsigned char, 16>& job);

}  // namespace tutti::core
