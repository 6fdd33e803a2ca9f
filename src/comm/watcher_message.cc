// SPDX-License-Identifier: Apache-2.0
#include "src/comm/watcher_message.h"

#include <cstring>

#include "src/base/bytes.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/comm/bootstrap_digest.h"
#include "src/comm/handshake.h"

namespace tutti::core {

namespace {

// Header, little-endian: magic u32 | type u16 | bytes of the body u16.
constexpr std::uint32_t kMagic = 0x57545554;  // "TUTW"
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kMaxBodyBytes = 256;

std::string encode(WatcherMessage::Type type, std::string_view body) {
  ByteWriter out;
  out.write(kMagic);
  out.write(static_cast<std::uint16_t>(type));
  out.write(static_cast<std::uint16_t>(body.size()));
  out.write_bytes(body.data(), body.size());
  return out.take();
}

}  // namespace

std::string encode_hello(std::uint64_t watcher) {
  ByteWriter body;
  body.write(watcher);
  return encode(WatcherMessage::Type::hello, body.buffer());
}

std::string encode_goodbye() { return encode(WatcherMessage::Type::goodbye, {}); }
std::string encode_surplus() { return encode(WatcherMessage::Type::surplus, {}); }

std::string encode_lost(const ProcessId& process, std::string_view text) {
  ByteWriter body;
  body.write_bytes(process.data(), process.size());
  body.write_text(text.substr(0, kMaxLossText));
  return encode(WatcherMessage::Type::lost, body.buffer());
}

bool WatcherMessageReader::next(WatcherMessage& message) {
  while (!malformed_ && buffer_.size() >= kHeaderBytes) {
    ByteReader header{std::string_view(buffer_)};
    const auto magic = header.read<std::uint32_t>();
    const auto type = static_cast<WatcherMessage::Type>(header.read<std::uint16_t>());
    const std::size_t bytes = header.read<std::uint16_t>();
    malformed_ = magic != kMagic || bytes > kMaxBodyBytes;
    if (malformed_ || buffer_.size() < kHeaderBytes + bytes) return false;
    const std::string body = buffer_.substr(kHeaderBytes, bytes);
    buffer_.erase(0, kHeaderBytes + bytes);
    if (type < WatcherMessage::Type::hello || type > WatcherMessage::Type::lost) continue;
    ByteReader in{std::string_view(body)};
    message = WatcherMessage();
    message.type = type;
    if (type == WatcherMessage::Type::hello) message.watcher = in.read<std::uint64_t>();
    if (type == WatcherMessage::Type::lost) {
      in.read_bytes(message.process.data(), message.process.size());
      message.text = printable(in.read_text(kMaxLossText), kMaxLossText);
    }
    malformed_ = !in.finished();
    return !malformed_;
  }
  return false;
}

std::uint64_t random_watcher_id() {
  unsigned char bytes[sizeof(std::uint64_t)];
  std::uint64_t id = 0;
  if (fill_random(bytes).is_ok()) std::memcpy(&id, bytes, sizeof id);
  // Without random numbers: different enough, since equal ids only mean that a surplus connection stays open.
  if (id == 0) id = mix64(static_cast<std::uint64_t>(monotonic_ns()) + 1) | 1;
  return id;
}

}  // namespace tutti::core
