// SPDX-License-Identifier: Apache-2.0
// What watchers say to each other on a liveness connection. A message is an 8-byte header and a short body.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/comm/bootstrap.h"

namespace tutti::core {

constexpr std::size_t kMaxLossText = 200;

struct WatcherMessage {
  enum class Type : std::uint16_t {
    hello = 1,    ///< first on every connection: which watcher speaks
    goodbye = 2,  ///< this process leaves; the connection's end is no loss
    surplus = 3,  ///< this connection is one too many and closes; another one remains
    lost = 4,     ///< another process has gone
  } type = Type::hello;
  std::uint64_t watcher = 0;  ///< hello
  ProcessId process{};        ///< lost
  std::string text;           ///< lost
};

std::string encode_hello(std::uint64_t watcher);
std::string encode_goodbye();
std::string encode_surplus();
/// The text is cut to kMaxLossText bytes.
std::string encode_lost(const ProcessId& process, std::string_view text);

/// Cuts a stream into messages. Types it does not know are skipped: a later version may add some.
class WatcherMessageReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  /// False: no whole message is there, or malformed().
  bool next(WatcherMessage& message);
  bool malformed() const { return malformed_; }

 private:
  std::string buffer_;
  bool malformed_ = false;
};

/// Random, never 0.
std::uint64_t random_watcher_id();

}  // namespace tutti::core
