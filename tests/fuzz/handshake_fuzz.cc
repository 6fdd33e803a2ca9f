// SPDX-License-Identifier: Apache-2.0
// Everything a stranger or a broken peer can say to the rendezvous and to the watcher, from arbitrary bytes. The first
// byte picks the listener: a handshake of either role, the root or a member behind a proved handshake, the watcher.
// Beyond "does not crash": a handshake is never proved, want() is kept, a verdict is never empty, and what a watcher
// accepts reads back from its own encoding.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/comm/bootstrap_protocol.h"
#include "src/comm/watcher_message.h"

namespace tutti::core {
namespace {

ProtocolSettings settings(int rank) {
  ProtocolSettings settings;
  settings.identity.job.fill(1);
  settings.identity.secret.fill(2);
  settings.rank = rank;
  settings.ranks = 3;
  settings.name = "fuzz";
  settings.self.process.fill(static_cast<unsigned char>(rank));
  settings.self.agreed = "a=1\n";
  settings.deadline_ns = 60'000'000'000;
  return settings;
}

Nonce nonce(unsigned char value) {
  Nonce nonce;
  nonce.fill(value);
  return nonce;
}

void fuzz_handshake(HandshakeRole role, std::string_view input) {
  HandshakeIdentity identity = settings(1).identity;
  identity.role = role;
  identity.nonce = nonce(3);
  Handshake handshake(identity);
  while (handshake.want() > 0 && !input.empty()) {
    const std::size_t bytes = std::min(handshake.want(), input.size());
    handshake.feed(input.substr(0, bytes));
    input.remove_prefix(bytes);
  }
  // The secret is not in the input (a proof that is would be a collision of SHA-256).
  TUTTI_CHECK(handshake.state() != Handshake::State::proved);
  TUTTI_CHECK(handshake.state() != Handshake::State::refused || !handshake.refusal().message().empty());
}

// Pieces of up to 64 KiB, as sockets deliver them; some with a descriptor.
template <class Protocol>
void feed(std::string_view input, Protocol&& next) {
  for (std::uint64_t now = 1; !input.empty(); ++now) {
    std::vector<DescriptorPtr> descriptors;
    if (input.front() & 1) descriptors.push_back(std::make_shared<Descriptor>(-1, false));
    const std::size_t bytes = next(input, std::move(descriptors), now);
    if (bytes == 0) return;
    input.remove_prefix(bytes);
  }
}

std::string bytes_of(std::vector<ProtocolAction> actions) {
  std::string bytes;
  for (const ProtocolAction& action : actions)
    if (action.kind == ProtocolAction::Kind::send) bytes += *action.bytes;
  return bytes;
}

void fuzz_root(std::string_view input) {
  RootProtocol root(settings(0), []() -> Result<DescriptorPair> {
    return DescriptorPair(std::make_shared<Descriptor>(-1, false), std::make_shared<Descriptor>(-1, false));
  });
  for (unsigned rank = 1; rank < 3; ++rank) {
    HandshakeIdentity identity = settings(1).identity;
    identity.member = rank;
    identity.nonce = nonce(static_cast<unsigned char>(10 + rank));
    Handshake honest(identity);
    root.connected(rank, nonce(static_cast<unsigned char>(20 + rank)), "process 1", 0);
    std::string from_root = bytes_of(root.take_actions());
    root.received(rank, honest.hello().substr(0, 16), {}, 0);
    root.received(rank, honest.hello().substr(16), {}, 0);
    from_root += bytes_of(root.take_actions());
    honest.feed(from_root.substr(0, 16));
    root.received(rank, honest.feed(from_root.substr(16, kHelloBytes - 16)), {}, 0);
    TUTTI_CHECK(root.takes_descriptors(rank));
  }
  feed(input, [&](std::string_view rest, std::vector<DescriptorPtr> descriptors, std::uint64_t now) {
    const ConnectionId id = 1 + now % 2;
    const std::size_t bytes = std::min(root.want(id), rest.size());
    root.received(id, rest.substr(0, bytes), std::move(descriptors), now);
    return bytes;
  });
  root.tick(61'000'000'000);
  root.tick(62'000'000'000);
  TUTTI_CHECK(root.finished());
  TUTTI_CHECK(root.verdict().is_ok() || !root.verdict().message().empty());
}

void fuzz_member(std::string_view input) {
  MemberProtocol member(settings(1));
  member.connected(nonce(1), "process 2", 0);
  HandshakeIdentity identity = settings(0).identity;
  identity.role = HandshakeRole::listener;
  identity.nonce = nonce(2);
  Handshake honest(identity);
  const std::string hello = bytes_of(member.take_actions());
  honest.feed(hello.substr(0, 16));
  const std::string proof = honest.feed(hello.substr(16));
  member.received(honest.hello().substr(0, 16), {}, 0);
  member.received(honest.hello().substr(16), {}, 0);
  member.received(proof, {}, 0);
  TUTTI_CHECK(member.takes_descriptors());
  feed(input, [&](std::string_view rest, std::vector<DescriptorPtr> descriptors, std::uint64_t now) {
    const std::size_t bytes = std::min(member.want(), rest.size());
    member.received(rest.substr(0, bytes), std::move(descriptors), now);
    return bytes;
  });
  if (!member.finished()) member.closed(1'000'000);
  member.tick(61'000'000'000);
  member.tick(62'000'000'000);
  TUTTI_CHECK(member.finished());
  TUTTI_CHECK(!member.verdict().is_ok() || member.members().size() == 3);
}

void fuzz_watcher(std::string_view input) {
  WatcherMessageReader reader;
  WatcherMessage message;
  while (!input.empty() && !reader.malformed()) {
    const std::size_t bytes = std::min<std::size_t>(input.size(), 7);
    reader.feed(input.substr(0, bytes));
    input.remove_prefix(bytes);
    while (reader.next(message)) {
      TUTTI_CHECK(message.text.size() <= kMaxLossText);
      if (message.type != WatcherMessage::Type::lost) continue;
      WatcherMessageReader again;
      WatcherMessage copy;
      again.feed(encode_lost(message.process, message.text));
      TUTTI_CHECK(again.next(copy) && copy.process == message.process && copy.text == message.text);
    }
  }
}

void run(std::string_view input) {
  if (input.empty()) return;
  const int pick = static_cast<unsigned char>(input.front()) % 5;
  input.remove_prefix(1);
  if (pick == 0) fuzz_handshake(HandshakeRole::listener, input);
  if (pick == 1) fuzz_handshake(HandshakeRole::connector, input);
  if (pick == 2) fuzz_root(input);
  if (pick == 3) fuzz_member(input);
  if (pick == 4) fuzz_watcher(input);
}

}  // namespace
}  // namespace tutti::core

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tutti::core::run(std::string_view(reinterpret_cast<const char*>(data), bytes));
  return 0;
}
