// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "src/exec/mailbox.h"

namespace tutti::core {

/// What a member knows of another: its control page and how to reach its memory.
struct PeerEnd {
  ControlPage* control = nullptr;
  MappedView view;
};

/// All mailboxes of one member of a communicator. Channels come into being on first use, without a word to the peer:
/// the sender allocates and publishes offsets, the receiver finds them. Used by the holder of the drive token only.
class ChannelSet {
 public:
  /// `own` and `peers[rank]` describe this rank itself. `arena` is the base of the endpoint's memory in this process.
  ChannelSet(Endpoint& endpoint, std::byte* arena, int rank, std::vector<PeerEnd> peers, FifoBudget* budget = nullptr);
  ~ChannelSet();

  /// Null only on failure, which stays in status().
  SendChannel* send(int peer, int lane) {
    SendChannel* channel = send_[index(peer, lane)].get();
    return channel ? channel : make_send(peer, lane);
  }
  /// Null while the peer has not sent anything on this lane yet, or on failure (status()).
  ReceiveChannel* receive(int peer, int lane) {
    ReceiveChannel* channel = receive_[index(peer, lane)].get();
    return channel ? channel : find_receive(peer, lane);
  }
  /// Gives the memory of FIFOs back that nobody reads any more.
  void drop_idle_fifos();
  /// Messages sent so far, over all peers and lanes.
  std::uint64_t messages_sent() const;
  const Status& status() const { return status_; }
  ControlPage& own() const { return *peers_[static_cast<std::size_t>(rank_)].control; }
  const PeerEnd& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(peers_.size()); }

 private:
  static std::size_t index(int peer, int lane) {
    return static_cast<std::size_t>(peer) * (kMaxLanes + 1) + static_cast<std::size_t>(lane);
  }
  SendChannel* make_send(int peer, int lane);
  ReceiveChannel* find_receive(int peer, int lane);
  const std::byte* remote_block(int peer, std::uint64_t offset, std::size_t bytes);

  Endpoint& endpoint_;
  std::byte* arena_;
  int rank_;
  FifoBudget* budget_;
  std::vector<PeerEnd> peers_;
  std::vector<SharedBlock> boxes_;  // of this rank, by peer
  std::vector<std::unique_ptr<SendChannel>> send_;
  std::vector<std::unique_ptr<ReceiveChannel>> receive_;
  Status status_;
};

}  // namespace tutti::core
