// SPDX-License-Identifier: Apache-2.0
// Frames of the rendezvous, spoken on a connection after its handshake. A frame is a 12-byte header and a body; open
// descriptors travel beside its first byte. Everything is bounded and checked before it is believed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/comm/bootstrap.h"

namespace tutti::core {

/// An open descriptor on its way: closed with its last holder if owned. Protocol tests use numbers that are not open.
class Descriptor {
 public:
  Descriptor(int number, bool owned) : number_(number), owned_(owned) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int number() const { return number_; }
  int release() {
    owned_ = false;
    return number_;
  }

 private:
  int number_;
  bool owned_;
};
using DescriptorPtr = std::shared_ptr<Descriptor>;

/// Largest number of descriptors beside one frame; SCM_MAX_FD is 253 (linux/net/scm.h).
constexpr std::size_t kMaxFrameDescriptors = 250;
constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxAgreedBytes = 64 * 1024;
constexpr std::size_t kMaxPayloadBytes = 4 * 1024;
constexpr std::size_t kMaxAddressBytes = 16 * 1024;
constexpr std::size_t kMaxFailureBytes = 4 * 1024;
constexpr int kMaxRanks = 1 << 16;

enum class FrameType : std::uint16_t {
  introduction = 1,  // member -> root: who I am
  welcome = 2,       // root -> member: you are counted as present
  member = 3,        // root -> member: one row of the table, with its process's descriptors
  neighbour = 4,     // root -> member: one end of a liveness connection to another process
  table_end = 5,     // root -> member: that was all
  ready = 6,         // member -> root: I have it all
  go = 7,            // root -> member: so has everybody; the next bytes are the watcher's
  failure = 8,       // root -> member: the verdict
  expired = 9,       // member -> root: my deadline has passed
};

/// What a frame carries besides its type.
struct Frame {
  FrameType type = FrameType::welcome;
  std::string body;
  std::vector<DescriptorPtr> descriptors;
};

constexpr std::size_t kFrameHeaderBytes = 12;
/// Largest body of a frame; 0 for types without one and for unknown types.
std::size_t max_body_bytes(FrameType type);
/// Header and body.
std::string encode_frame(FrameType type, std::string_view body, std::size_t descriptors);

/// Cuts a stream of bytes and descriptors into frames.
class FrameReader {
 public:
  /// How many bytes complete the frame being received (or its header).
  std::size_t want() const;
  void feed(std::string_view bytes, std::vector<DescriptorPtr> descriptors);
  /// The next whole frame; nullopt: more bytes are needed. Errors: internal (malformed); nothing is readable after one.
  Result<std::optional<Frame>> next();

 private:
  std::string_view unread() const { return std::string_view(buffer_).substr(taken_); }

  std::string buffer_;
  std::size_t taken_ = 0;  // bytes of buffer_ that next() has handed out
  std::vector<DescriptorPtr> descriptors_;
};

/// A rank's own report: its introduction plus what it believes of the job.
struct RankReport {
  std::uint32_t rank = 0, ranks = 0;
  Introduction self;  ///< descriptors are not part of the encoding
};
std::string encode_report(const RankReport& report);
Result<RankReport> decode_report(std::string_view body);
/// Bounds of an introduction. Errors: invalid_argument naming the field and its limit.
Status check_introduction(const Introduction& self);

struct Neighbour {
  std::uint32_t rank = 0;
  ProcessId process{};
};
std::string encode_neighbour(const Neighbour& neighbour);
Result<Neighbour> decode_neighbour(std::string_view body);

std::string encode_failure(const Status& failure);
/// Never ok: the failure that was sent, or that it was malformed.
Status decode_failure(std::string_view body);

/// "2, 5-9, 12 and 30 more": ranks in ascending order.
std::string rank_list(std::span<const int> ranks);

}  // namespace tutti::core
