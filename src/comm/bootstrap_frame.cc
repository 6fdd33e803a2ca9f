// SPDX-License-Identifier: Apache-2.0
#include "src/comm/bootstrap_frame.h"

#include <unistd.h>

#include <utility>

#include "src/base/bytes.h"

namespace tutti::core {

namespace {

// Header, little-endian: magic u32 | type u16 | descriptors u16 | bytes of the body u32.
constexpr std::uint32_t kFrameMagic = 0x46545554;  // "TUTF"

Status malformed(const std::string& what) {
  return Status::error(TUTTI_INTERNAL, "malformed rendezvous message: " + what);
}

}  // namespace

Descriptor::~Descriptor() {
  if (owned_ && number_ >= 0) ::close(number_);
}

std::size_t max_body_bytes(FrameType type) {
  constexpr std::size_t kFixed = 64, kTexts = kMaxHostBytes + kMaxPayloadBytes + kMaxAddressBytes;
  switch (type) {
    case FrameType::introduction: return kFixed + kTexts + kMaxAgreedBytes;
    case FrameType::member: return kFixed + kTexts;
    case FrameType::neighbour: return kFixed;
    case FrameType::failure: return kFixed + 2 * kMaxFailureBytes;
    default: return 0;
  }
}

std::string encode_frame(FrameType type, std::string_view body, std::size_t descriptors) {
  TUTTI_CHECK(body.size() <= max_body_bytes(type) && descriptors <= kMaxFrameDescriptors);
  ByteWriter out;
  out.write(kFrameMagic);
  out.write(static_cast<std::uint16_t>(type));
  out.write(static_cast<std::uint16_t>(descriptors));
  out.write(static_cast<std::uint32_t>(body.size()));
  out.write_bytes(body.data(), body.size());
  return out.take();
}

std::size_t FrameReader::want() const {
  const std::string_view have = unread();
  if (have.size() < kFrameHeaderBytes) return kFrameHeaderBytes - have.size();
  ByteReader in(have.substr(8, 4));
  const std::size_t whole = kFrameHeaderBytes + in.read<std::uint32_t>();
  return whole > have.size() ? whole - have.size() : 0;
}

void FrameReader::feed(std::string_view bytes, std::vector<DescriptorPtr> descriptors) {
  if (taken_ > buffer_.size() / 2) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  buffer_ += bytes;
  for (DescriptorPtr& descriptor : descriptors) descriptors_.push_back(std::move(descriptor));
}

Result<std::optional<Frame>> FrameReader::next() {
  // A read ends behind the first bytes that carry descriptors: an unfinished frame's and one more can be waiting.
  if (descriptors_.size() > 2 * kMaxFrameDescriptors) return malformed("descriptors that belong to no frame");
  const std::string_view have = unread();
  if (have.size() < kFrameHeaderBytes) return std::optional<Frame>();
  ByteReader in(have);
  const auto magic = in.read<std::uint32_t>();
  const auto type = static_cast<FrameType>(in.read<std::uint16_t>());
  const std::size_t descriptors = in.read<std::uint16_t>();
  const std::size_t bytes = in.read<std::uint32_t>();
  if (magic != kFrameMagic) return malformed("no frame starts here");
  if (type < FrameType::introduction || type > FrameType::expired)
    return malformed("unknown type " + std::to_string(static_cast<int>(type)));
  if (bytes > max_body_bytes(type))
    return malformed("type " + std::to_string(static_cast<int>(type)) + " with " + std::to_string(bytes) + " bytes");
  if (descriptors > descriptors_.size())
    return malformed(std::to_string(descriptors) + " descriptors announced, " + std::to_string(descriptors_.size()) +
                     " received (is the limit on open files reached? ulimit -n)");
  if (have.size() < kFrameHeaderBytes + bytes) return std::optional<Frame>();
  Frame frame;
  frame.type = type;
  frame.body = have.substr(kFrameHeaderBytes, bytes);
  const auto first = descriptors_.begin(), last = first + static_cast<std::ptrdiff_t>(descriptors);
  frame.descriptors.assign(std::make_move_iterator(first), std::make_move_iterator(last));
  descriptors_.erase(first, last);
  taken_ += kFrameHeaderBytes + bytes;
  return std::optional<Frame>(std::move(frame));
}

std::string encode_report(const RankReport& report) {
  const Introduction& self = report.self;
  ByteWriter out;
  out.write(report.rank);
  out.write(report.ranks);
  out.write_bytes(self.process.data(), self.process.size());
  out.write(self.pid);
  out.write(self.member_id);
  out.write_text(self.host);
  out.write_text(self.agreed);
  out.write_text(self.payload);
  out.write_text(self.address.bytes);
  return out.take();
}

Result<RankReport> decode_report(std::string_view body) {
  ByteReader in(body);
  RankReport report;
  Introduction& self = report.self;
  report.rank = in.read<std::uint32_t>();
  report.ranks = in.read<std::uint32_t>();
  in.read_bytes(self.process.data(), self.process.size());
  self.pid = in.read<std::int32_t>();
  self.member_id = in.read<std::uint64_t>();
  self.host = in.read_text(kMaxHostBytes);
  self.agreed = in.read_text(kMaxAgreedBytes);
  self.payload = in.read_text(kMaxPayloadBytes);
  self.address.bytes = in.read_text(kMaxAddressBytes);
  if (!in.finished()) return malformed("introduction of " + std::to_string(body.size()) + " bytes");
  return report;
}

Status check_introduction(const Introduction& self) {
  const auto too_long = [](const char* field, std::size_t bytes, std::size_t limit) {
    return Status::error(TUTTI_INVALID_ARGUMENT, std::string("introduction: ") + field + " has " +
                                                     std::to_string(bytes) + ", at most " + std::to_string(limit) +
                                                     " are possible");
  };
  if (self.host.size() > kMaxHostBytes) return too_long("host bytes", self.host.size(), kMaxHostBytes);
  if (self.agreed.size() > kMaxAgreedBytes) return too_long("agreed bytes", self.agreed.size(), kMaxAgreedBytes);
  if (self.payload.size() > kMaxPayloadBytes) return too_long("payload bytes", self.payload.size(), kMaxPayloadBytes);
  if (self.address.bytes.size() > kMaxAddressBytes)
    return too_long("address bytes", self.address.bytes.size(), kMaxAddressBytes);
  if (self.address.descriptors.size() > kMaxFrameDescriptors)
    return too_long("address descriptors", self.address.descriptors.size(), kMaxFrameDescriptors);
  return Status::ok();
}

std::string encode_neighbour(const Neighbour& neighbour) {
  ByteWriter out;
  out.write(neighbour.rank);
  out.write_bytes(neighbour.process.data(), neighbour.process.size());
  return out.take();
}

Result<Neighbour> decode_neighbour(std::string_view body) {
  ByteReader in(body);
  Neighbour neighbour;
  neighbour.rank = in.read<std::uint32_t>();
  in.read_bytes(neighbour.process.data(), neighbour.process.size());
  if (!in.finished()) return malformed("neighbour of " + std::to_string(body.size()) + " bytes");
  return neighbour;
}

std::string encode_failure(const Status& failure) {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(failure.code()));
  out.write(static_cast<std::int32_t>(failure.failing_rank()));
  out.write_text(std::string_view(failure.message()).substr(0, kMaxFailureBytes));
  out.write_text(std::string_view(failure.remedy()).substr(0, kMaxFailureBytes));
  return out.take();
}

Status decode_failure(std::string_view body) {
  ByteReader in(body);
  const auto code = in.read<std::uint32_t>();
  const auto rank = in.read<std::int32_t>();
  const std::string_view message = in.read_text(kMaxFailureBytes), remedy = in.read_text(kMaxFailureBytes);
  if (!in.finished() || code == TUTTI_OK || code > TUTTI_INTERNAL) return malformed("failure");
  return Status::error(static_cast<tutti_code>(code), std::string(message), rank).with_remedy(std::string(remedy));
}

std::string rank_list(std::span<const int> ranks) {
  constexpr std::size_t kMaxPieces = 16;  // keeps a message about thousands of ranks on one line
  std::string out;
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < ranks.size(); ++pieces) {
    if (pieces == kMaxPieces) return out + " and " + std::to_string(ranks.size() - i) + " more";
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += std::to_string(ranks[i]);
    if (last > i) out += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace tutti::core
