// SPDX-License-Identifier: Apache-2.0
#include "src/comm/handshake.h"

#include <algorithm>
#include <cstring>

#include "src/comm/bootstrap_digest.h"
#include "tutti/tutti.h"

namespace tutti::core {

namespace {

// A hello, little-endian:
//   0 magic[8] | 8 min version u16 | 10 max version u16 | 12 role u16 | 14 bytes of the hello u16     (fixed for ever)
//   16 member u32 | 20 zero u32 | 24 job[16] | 40 nonce[32] | 72 build[56], filled with zeros
// The magic starts with a byte that is no text and ends in a line feed, so that text protocols fail at once.
constexpr char kMagic[8] = {'\x89', 'T', 'U', 'T', 'T', 'I', '\r', '\n'};
constexpr std::size_t kPreambleBytes = 16;
constexpr std::size_t kJobAt = 24, kNonceAt = 40, kBuildAt = 72;
constexpr std::string_view kProofLabel = "tutti handshake 1";

void put_u16(std::string& out, std::uint16_t value) {
  out.push_back(static_cast<char>(value & 0xff));
  out.push_back(static_cast<char>(value >> 8));
}

std::uint16_t get_u16(std::string_view in, std::size_t at) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(in[at]) | static_cast<unsigned char>(in[at + 1]) << 8);
}

void append(std::string& out, const unsigned char* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<char>(bytes[i]));
}

std::string version_range(std::uint16_t low, std::uint16_t high) {
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

std::string own_build() {
  return "tutti " + std::to_string(TUTTI_VERSION_MAJOR) + "." + std::to_string(TUTTI_VERSION_MINOR) + "." +
         std::to_string(TUTTI_VERSION_PATCH);
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out(text.substr(0, limit));
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

std::string short_job_name(const std::array<unsigned char, 16>& job) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < 4; ++i) {
    out.push_back(kDigits[job[i] >> 4]);
    out.push_back(kDigits[job[i] & 15]);
  }
  return out;
}

Handshake::Handshake(const HandshakeIdentity& self) : self_(self) {
  if (self_.build.empty()) self_.build = own_build();
  self_.build.resize(std::min<std::size_t>(self_.build.size(), kHelloBytes - kBuildAt));
  hello_.assign(kMagic, sizeof kMagic);
  put_u16(hello_, self_.min_version);
  put_u16(hello_, self_.max_version);
  put_u16(hello_, static_cast<std::uint16_t>(self_.role));
  put_u16(hello_, kHelloBytes);
  put_u16(hello_, static_cast<std::uint16_t>(self_.member & 0xffff));
  put_u16(hello_, static_cast<std::uint16_t>(self_.member >> 16));
  hello_.append(4, '\0');
  append(hello_, self_.job.data(), self_.job.size());
  append(hello_, self_.nonce.data(), self_.nonce.size());
  hello_ += self_.build;
  hello_.resize(kHelloBytes, '\0');
}

std::size_t Handshake::want() const {
  if (state_ != State::exchanging) return 0;
  if (peer_hello_.size() < kPreambleBytes) return kPreambleBytes - peer_hello_.size();
  if (peer_hello_.size() < kHelloBytes) return kHelloBytes - peer_hello_.size();
  return kProofBytes - peer_proof_.size();
}

std::string Handshake::feed(std::string_view bytes) {
  if (state_ != State::exchanging) return {};
  TUTTI_CHECK(bytes.size() <= want());
  if (peer_hello_.size() < kHelloBytes) {
    const bool had_preamble = peer_hello_.size() >= kPreambleBytes;
    peer_hello_ += bytes;
    if (!had_preamble && !check_preamble()) return {};
    if (peer_hello_.size() < kHelloBytes || !check_hello()) return {};
    return proof(self_.role);
  }
  peer_proof_ += bytes;
  if (peer_proof_.size() < kProofBytes) return {};
  const auto peer_role = self_.role == HandshakeRole::connector ? HandshakeRole::listener : HandshakeRole::connector;
  const std::string wanted = proof(peer_role);
  Digest expected, received;
  std::memcpy(expected.data(), wanted.data(), expected.size());
  std::memcpy(received.data(), peer_proof_.data(), received.size());
  if (equal_in_constant_time(expected, received))
    state_ = State::proved;
  else
    refuse(TUTTI_UNAVAILABLE, "the other process does not know the secret of job " + short_job_name(self_.job));
  return {};
}

void Handshake::refuse(tutti_code code, std::string text) {
  state_ = State::refused;
  refusal_ = Status::error(code, std::move(text));
}

// Garbage is refused at its first wrong byte, without waiting for the rest.
bool Handshake::check_preamble() {
  const std::size_t magic_seen = std::min(peer_hello_.size(), sizeof kMagic);
  if (std::memcmp(peer_hello_.data(), kMagic, magic_seen) != 0) {
    refuse(TUTTI_UNAVAILABLE, "the other process does not speak Tutti's protocol (it began with \"" +
                                  printable(peer_hello_, kPreambleBytes) + "\")");
    return false;
  }
  if (peer_hello_.size() < kPreambleBytes) return true;
  const std::uint16_t peer_min = get_u16(peer_hello_, 8), peer_max = get_u16(peer_hello_, 10);
  version_ = std::min(self_.max_version, peer_max);
  if (peer_min > peer_max || version_ < std::max(self_.min_version, peer_min)) {
    refuse(TUTTI_UNSUPPORTED, "protocol versions do not meet: this process speaks " +
                                  version_range(self_.min_version, self_.max_version) + " (" + self_.build +
                                  "), the other " + version_range(peer_min, peer_max));
    return false;
  }
  const std::uint16_t role = get_u16(peer_hello_, 12);
  const bool opposite =
      role == static_cast<std::uint16_t>(self_.role == HandshakeRole::connector ? HandshakeRole::listener
                                                                                : HandshakeRole::connector);
  if (!opposite || get_u16(peer_hello_, 14) != kHelloBytes) {
    refuse(TUTTI_UNAVAILABLE, "the other process sent a malformed hello (role " + std::to_string(role) + ", " +
                                  std::to_string(get_u16(peer_hello_, 14)) + " bytes)");
    return false;
  }
  return true;
}

bool Handshake::check_hello() {
  std::array<unsigned char, 16> job;
  std::memcpy(job.data(), peer_hello_.data() + kJobAt, job.size());
  if (job != self_.job) {
    refuse(TUTTI_UNAVAILABLE,
           "the other process belongs to job " + short_job_name(job) + ", not to job " + short_job_name(self_.job));
    return false;
  }
  if (std::memcmp(peer_hello_.data() + kNonceAt, self_.nonce.data(), self_.nonce.size()) == 0) {
    refuse(TUTTI_UNAVAILABLE, "the other process plays our own hello back");
    return false;
  }
  peer_member_ = get_u16(peer_hello_, 16) | static_cast<std::uint32_t>(get_u16(peer_hello_, 18)) << 16;
  const std::string_view build = std::string_view(peer_hello_).substr(kBuildAt);
  peer_build_ = printable(build.substr(0, build.find('\0')));
  return true;
}

std::string Handshake::proof(HandshakeRole role) const {
  const bool connector = self_.role == HandshakeRole::connector;
  std::string text(kProofLabel);
  text.push_back(static_cast<char>(role));
  text += connector ? hello_ : peer_hello_;
  text += connector ? peer_hello_ : hello_;
  const Digest digest = hmac_sha256(self_.secret, text);
  std::string out;
  append(out, digest.data(), digest.size());
  return out;
}

}  // namespace tutti::core
