// SPDX-License-Identifier: Apache-2.0
// Protocol, over one mailbox lane per ordered pair:
//
//   EAGER {tag, bytes, data}   up to 4 KiB: the send is complete once the message lies in the mailbox; several that are
//                              ready together share one message, each on an 8-byte boundary
//   RTS {tag, bytes, id}       announces a larger message (or a small one when 64 KiB lie unmatched at the receiver)
//   CTS {id}                   from the receiver once a receive matches
//   DATA {id, piece}           pieces in order; the send is complete when the last one lies in the FIFO
//
// Every message that arrives is taken out of the mailbox at once and kept aside when no receive matches, so CTS and
// DATA never queue behind messages that nobody has asked for: no order of sends and receives that is free of cycles can
// get stuck here.
#include "src/comm/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::core {

namespace {

constexpr std::uint64_t kEagerBytes = 4096;
constexpr std::uint64_t kUnmatchedBytes = 64 * 1024;
/// A DATA piece: with four in the FIFO the copy in and the copy out overlap.
constexpr std::uint64_t kPieceDivisor = 8;
/// The line's fingerprint says how long a message of this lane is, and that it is one.
constexpr std::uint64_t kLengthTag = 0x7032000000000000;
constexpr std::uint64_t kLengthMask = 0x0000ffffffffffff;

enum class Kind : std::uint16_t { eager = 1, rts, cts, data };

struct Header {
  Kind kind;
  std::uint16_t type;  // tutti_dtype (EAGER, RTS)
  std::uint32_t tag;
  std::uint64_t bytes;  // of the whole message (EAGER, RTS) or of the piece (DATA)
  std::uint64_t id;     // RTS, CTS, DATA: number of the message at its sender
};
static_assert(sizeof(Header) == kInlineBytes / 2);

std::string describe_payload(const Header& header) {
  const auto type = static_cast<tutti_dtype>(header.type);
  const std::size_t element = header.type < TUTTI_DTYPE_COUNT ? dtype_bytes(type) : 0;
  if (element == 0) return std::to_string(header.bytes) + " bytes of an unknown type";
  return std::string(dtype_name(type)) + " x " + std::to_string(header.bytes / element) + " (" +
         std::to_string(header.bytes) + " bytes)";
}

std::uint64_t bytes_of(const Operation& operation) { return operation.call.count * dtype_bytes(operation.call.type); }

Header header_of(const Operation& operation, Kind kind, std::uint64_t id) {
  return {kind, static_cast<std::uint16_t>(operation.call.type), operation.call.match, bytes_of(operation), id};
}

class PointToPointImpl final : public PointToPoint {
 public:
  PointToPointImpl(ChannelSet& channels, std::uint64_t epoch_bits, std::size_t fifo_bytes, Finish finish)
      : channels_(channels),
        epoch_bits_(epoch_bits),
        fifo_bytes_(fifo_bytes),
        finish_(finish),
        peers_(static_cast<std::size_t>(channels.ranks())) {}

  void start(Operation* operation) override {
    ++unfinished_;
    if (operation->call.what == TUTTI_RECV) {
      post(operation);
    } else if (operation->call.peer == channels_.rank()) {
      send_to_self(operation);
    } else {
      peer(operation->call.peer).sends.push_back({operation, next_id_++});
    }
  }

  bool advance() override {
    bool moved = false;
    for (int rank = 0; rank < channels_.ranks(); ++rank) {
      if (rank == channels_.rank()) continue;
      moved |= take_arrivals(rank);
      moved |= push_out(rank);
    }
    return moved;
  }

  bool idle() const override {
    return unfinished_ == 0 &&
           std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.clears.empty(); });
  }

  void fail(const Status& status) override {
    std::vector<Operation*> all;
    for (Peer& p : peers_) {
      for (const Send& send : p.sends) all.push_back(send.operation);
      for (const Send& send : p.announced) all.push_back(send.operation);
      for (const Stream& stream : p.streams) all.push_back(stream.send.operation);
      for (const Incoming& incoming : p.incoming) all.push_back(incoming.operation);
      for (const Arrival& arrival : p.unmatched)
        if (arrival.self) all.push_back(arrival.self);
      p = Peer{};
    }
    all.insert(all.end(), posted_.begin(), posted_.end());
    posted_.clear();
    for (Operation* operation : all) finish(operation, status);
  }

  bool waits_for(int rank) const override {
    const Peer& p = peers_[static_cast<std::size_t>(rank)];
    return !p.sends.empty() || !p.announced.empty() || !p.streams.empty() || !p.incoming.empty() ||
           std::any_of(posted_.begin(), posted_.end(),
                       [rank](const Operation* operation) { return operation->call.peer == rank; });
  }

  bool waits_for_any() const override {
    return std::any_of(posted_.begin(), posted_.end(),
                       [](const Operation* operation) { return operation->call.peer == TUTTI_ANY_SOURCE; });
  }

  const Operation* overdue(std::uint64_t now) const override {
    const auto late = [now](const Operation* operation) { return operation && now >= operation->deadline_ticks; };
    for (const Operation* operation : posted_)
      if (late(operation)) return operation;
    for (const Peer& p : peers_) {
      for (const Send& send : p.sends)
        if (late(send.operation)) return send.operation;
      for (const Send& send : p.announced)
        if (late(send.operation)) return send.operation;
      for (const Stream& stream : p.streams)
        if (late(stream.send.operation)) return stream.send.operation;
      for (const Incoming& incoming : p.incoming)
        if (late(incoming.operation)) return incoming.operation;
      for (const Arrival& arrival : p.unmatched)
        if (late(arrival.self)) return arrival.self;
    }
    return nullptr;
  }

 private:
  struct Send {
    Operation* operation;
    std::uint64_t id;
  };
  struct Stream {
    Send send;
    std::uint64_t offset;
  };
  struct Incoming {
    Operation* operation;
    std::uint64_t id;
    std::uint64_t offset;
  };
  /// A message without a receive so far.
  struct Arrival {
    std::uint64_t order = 0;  // of arrival over all senders
    Header header{};
    std::vector<std::byte> data;  // EAGER
    Operation* self = nullptr;    // a large send to oneself, data still at the sender
  };
  struct Peer {
    std::deque<Send> sends;            // not yet in the mailbox, in order
    std::list<Send> announced;         // RTS sent
    std::deque<Stream> streams;        // cleared: pieces go out, one message after the other
    std::deque<std::uint64_t> clears;  // CTS to send
    std::list<Incoming> incoming;
    std::list<Arrival> unmatched;
    std::uint64_t eager_sent = 0;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void finish(Operation* operation, Status status) {
    --unfinished_;
    finish_.call(finish_.context, operation, std::move(status));
  }

  // ---- matching --------------------------------------------------------------------------------------------------

  static bool matches(const Operation& receive, int source, std::uint32_t tag) {
    return receive.call.match == tag && (receive.call.peer == TUTTI_ANY_SOURCE || receive.call.peer == source);
  }

  Operation* take_posted(int source, std::uint32_t tag) {
    const auto found = std::find_if(posted_.begin(), posted_.end(),
                                    [&](const Operation* receive) { return matches(*receive, source, tag); });
    if (found == posted_.end()) return nullptr;
    Operation* receive = *found;
    posted_.erase(found);
    return receive;
  }

  /// A receive takes the message that came first; among equals the lowest rank's.
  void post(Operation* receive) {
    int best = -1;
    std::list<Arrival>::iterator chosen;
    for (int rank = 0; rank < channels_.ranks(); ++rank) {
      if (receive->call.peer != TUTTI_ANY_SOURCE && receive->call.peer != rank) continue;
      auto& unmatched = peer(rank).unmatched;
      const auto found = std::find_if(unmatched.begin(), unmatched.end(), [&](const Arrival& arrival) {
        return matches(*receive, rank, arrival.header.tag);
      });
      if (found == unmatched.end() || (best >= 0 && chosen->order <= found->order)) continue;
      best = rank;
      chosen = found;
    }
    if (best < 0) {
      posted_.push_back(receive);
      return;
    }
    Arrival arrival = std::move(*chosen);
    peer(best).unmatched.erase(chosen);
    const std::byte* data = arrival.self ? static_cast<const std::byte*>(arrival.self->call.in) : arrival.data.data();
    if (arrival.header.kind == Kind::eager && best != channels_.rank())
      channels_.receive(best, kPointToPointLane)->add_eager_matched(arrival.header.bytes);
    accept(receive, best, arrival.header, data);
    if (arrival.self) finish(arrival.self, {});
  }

  /// Joins a receive with the message that matches it.
  void accept(Operation* receive, int source, const Header& header, const std::byte* data) {
    receive->source = source;
    if (header.bytes != bytes_of(*receive) || header.type != receive->call.type) {
      finish(receive,
             Status::error(TUTTI_MISMATCH,
                           "rank " + std::to_string(source) + " sent " + describe_payload(header) + " with tag " +
                               std::to_string(header.tag) + ", rank " + std::to_string(channels_.rank()) +
                               " receives " + describe_payload(header_of(*receive, Kind::eager, 0)),
                           source)
                 .with_remedy("count and type must be equal on both sides"));
      return;
    }
    if (header.kind == Kind::rts) {
      peer(source).clears.push_back(header.id);
      peer(source).incoming.push_back({receive, header.id, 0});
      return;
    }
    if (header.bytes) std::memcpy(receive->call.out, data, header.bytes);
    finish(receive, {});
  }

  void send_to_self(Operation* send) {
    const Header header = header_of(*send, Kind::eager, 0);
    const auto* data = static_cast<const std::byte*>(send->call.in);
    if (Operation* receive = take_posted(channels_.rank(), header.tag)) {
      accept(receive, channels_.rank(), header, data);
      finish(send, {});
      return;
    }
    Arrival arrival{arrivals_++, header, {}, nullptr};
    const bool eager = header.bytes <= kEagerBytes;
    if (eager && header.bytes) arrival.data.assign(data, data + header.bytes);
    if (!eager) arrival.self = send;
    peer(channels_.rank()).unmatched.push_back(std::move(arrival));
    if (eager) finish(send, {});
  }

  // ---- receiving -------------------------------------------------------------------------------------------------

  bool take_arrivals(int rank) {
    bool moved = false;
    for (;;) {
      ReceiveChannel* channel = channels_.receive(rank, kPointToPointLane);
      if (!channel && !channels_.status().is_ok()) fail(channels_.status());
      if (!channel || !channel->ready(epoch_bits_)) return moved;
      const std::uint64_t length = channel->fingerprint() & kLengthMask;
      const std::byte* message =
          (channel->fingerprint() & ~kLengthMask) == kLengthTag ? channel->data(length) : nullptr;
      Header header{};
      if (message && length >= sizeof header) std::memcpy(&header, message, sizeof header);
      if (length < sizeof header || !message) {
        malformed(rank);
        return moved;
      }
      if (header.kind == Kind::eager) {
        if (!take_eager(rank, message, length, *channel)) return moved;
      } else {
        if (header.kind == Kind::data && header.bytes != length - sizeof header) {
          malformed(rank);
          return moved;
        }
        handle(rank, header, message + sizeof header, *channel);
      }
      channel->release(length);
      moved = true;
    }
  }

  /// One or several eager messages; false if they are malformed.
  bool take_eager(int rank, const std::byte* message, std::uint64_t length, ReceiveChannel& channel) {
    for (std::uint64_t at = 0; at < length;) {
      Header header{};
      if (length - at >= sizeof header) std::memcpy(&header, message + at, sizeof header);
      at += sizeof header;
      // The last one ends the message: what is left over belongs to nobody.
      if (header.kind != Kind::eager || header.bytes > length - at) {
        malformed(rank);
        return false;
      }
      handle(rank, header, message + at, channel);
      at += header.bytes;
      if (at < length) at = padded(at);
    }
    return true;
  }

  void malformed(int rank) {
    // Whoever waits for this rank learns of it; with nobody waiting there is nothing to fail yet.
    const Status status = Status::error(
        TUTTI_INTERNAL, "rank " + std::to_string(rank) + " sent a malformed point-to-point message", rank);
    fail(status);
  }

  void handle(int rank, const Header& header, const std::byte* data, ReceiveChannel& channel) {
    switch (header.kind) {
      case Kind::eager:
      case Kind::rts: {
        if (Operation* receive = take_posted(rank, header.tag)) {
          if (header.kind == Kind::eager) channel.add_eager_matched(header.bytes);
          accept(receive, rank, header, data);
          return;
        }
        Arrival arrival{arrivals_++, header, {}, nullptr};
        if (header.kind == Kind::eager && header.bytes) arrival.data.assign(data, data + header.bytes);
        peer(rank).unmatched.push_back(std::move(arrival));
        return;
      }
      case Kind::cts: {
        auto& announced = peer(rank).announced;
        const auto found =
            std::find_if(announced.begin(), announced.end(), [&](const Send& send) { return send.id == header.id; });
        if (found == announced.end()) return malformed(rank);
        peer(rank).streams.push_back({*found, 0});
        announced.erase(found);
        return;
      }
      case Kind::data: {
        auto& incoming = peer(rank).incoming;
        const auto found =
            std::find_if(incoming.begin(), incoming.end(), [&](const Incoming& i) { return i.id == header.id; });
        if (found == incoming.end() || header.bytes > bytes_of(*found->operation) - found->offset)
          return malformed(rank);
        std::memcpy(static_cast<std::byte*>(found->operation->call.out) + found->offset, data, header.bytes);
        found->offset += header.bytes;
        if (found->offset == bytes_of(*found->operation)) {
          Operation* receive = found->operation;
          incoming.erase(found);
          finish(receive, {});
        }
        return;
      }
    }
    malformed(rank);
  }

  // ---- sending ---------------------------------------------------------------------------------------------------

  /// Puts one message into the mailbox; false while there is no room.
  bool put(int rank, const Header& header, const void* data, std::uint64_t bytes) {
    SendChannel* channel = channels_.send(rank, kPointToPointLane);
    const std::size_t length = sizeof header + bytes;
    std::byte* place = channel ? channel->reserve(length, fifo_bytes_) : nullptr;
    if (!place) {
      const Status& status = channel ? channel->failure() : channels_.status();
      if (!status.is_ok()) fail(status);
      return false;
    }
    std::memcpy(place, &header, sizeof header);
    if (bytes) std::memcpy(place + sizeof header, data, bytes);
    channel->commit(length, kLengthTag | length, epoch_bits_);
    return true;
  }

  static std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

  bool is_eager(const Peer& p, const SendChannel& channel, std::uint64_t bytes) const {
    return bytes <= kEagerBytes && p.eager_sent - channel.eager_matched() + bytes <= kUnmatchedBytes;
  }

  /// Puts the first sends into one message if two or more fit.
  bool push_together(int rank, Peer& p) {
    SendChannel* channel = channels_.send(rank, kPointToPointLane);
    if (!channel || p.sends.size() < 2) return false;
    std::size_t count = 0;
    std::uint64_t length = 0, data = 0;
    for (const Send& send : p.sends) {
      const std::uint64_t bytes = bytes_of(*send.operation);
      const std::uint64_t end = padded(length) + sizeof(Header) + bytes;
      if (end > kSmallMessage || !is_eager(p, *channel, data + bytes)) break;
      length = end;
      data += bytes;
      ++count;
    }
    if (count < 2) return false;
    std::byte* place = channel->reserve(length, fifo_bytes_);
    if (!place) return false;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Send& send = p.sends[i];
      const Header header = header_of(*send.operation, Kind::eager, send.id);
      at = padded(at);
      std::memcpy(place + at, &header, sizeof header);
      at += sizeof header;
      if (header.bytes) std::memcpy(place + at, send.operation->call.in, header.bytes);
      at += header.bytes;
    }
    channel->commit(length, kLengthTag | length, epoch_bits_);
    p.eager_sent += data;
    for (; count > 0; --count) {
      Operation* operation = p.sends.front().operation;
      p.sends.pop_front();
      finish(operation, {});
    }
    return true;
  }

  bool push_out(int rank) {
    Peer& p = peer(rank);
    bool moved = false;
    while (!p.clears.empty() && put(rank, {Kind::cts, 0, 0, 0, p.clears.front()}, nullptr, 0)) {
      p.clears.pop_front();
      moved = true;
    }
    while (!p.sends.empty() && (push_together(rank, p) || push_first(rank, p))) moved = true;
    const std::uint64_t piece = std::max<std::uint64_t>(fifo_bytes_ / kPieceDivisor, kEagerBytes) - sizeof(Header);
    while (!p.streams.empty()) {
      Stream& stream = p.streams.front();
      Operation* operation = stream.send.operation;
      const std::uint64_t bytes = std::min(piece, bytes_of(*operation) - stream.offset);
      if (!put(rank, {Kind::data, 0, 0, bytes, stream.send.id},
               static_cast<const std::byte*>(operation->call.in) + stream.offset, bytes))
        break;
      moved = true;
      stream.offset += bytes;
      if (stream.offset < bytes_of(*operation)) continue;
      p.streams.pop_front();
      finish(operation, {});
    }
    return moved;
  }

  bool push_first(int rank, Peer& p) {
    const Send send = p.sends.front();
    const std::uint64_t bytes = bytes_of(*send.operation);
    SendChannel* channel = channels_.send(rank, kPointToPointLane);
    const bool eager = channel && is_eager(p, *channel, bytes);
    const Header header = header_of(*send.operation, eager ? Kind::eager : Kind::rts, send.id);
    if (!put(rank, header, send.operation->call.in, eager ? bytes : 0)) return false;
    p.sends.pop_front();
    if (eager) {
      p.eager_sent += bytes;
      finish(send.operation, {});
    } else {
      p.announced.push_back(send);
    }
    return true;
  }

  ChannelSet& channels_;
  std::uint64_t epoch_bits_;
  std::size_t fifo_bytes_;
  Finish finish_;
  std::vector<Peer> peers_;
  std::list<Operation*> posted_;
  std::size_t unfinished_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t arrivals_ = 0;
};

}  // namespace

std::unique_ptr<PointToPoint> PointToPoint::make(ChannelSet& channels, std::uint64_t epoch_bits, std::size_t fifo_bytes,
                                                 Finish finish) {
  return std::make_unique<PointToPointImpl>(channels, epoch_bits, fifo_bytes, finish);
}

}  // namespace tutti::core
