// SPDX-License-Identifier: Apache-2.0
#include "src/exec/channels.h"

#include <string>

namespace tutti::core {

ChannelSet::ChannelSet(Endpoint& endpoint, std::byte* arena, int rank, std::vector<PeerEnd> peers, FifoBudget* budget)
    : endpoint_(endpoint), arena_(arena), rank_(rank), budget_(budget), peers_(std::move(peers)) {
  boxes_.resize(peers_.size());
  send_.resize(peers_.size() * (kMaxLanes + 1));
  receive_.resize(peers_.size() * (kMaxLanes + 1));
}

ChannelSet::~ChannelSet() {
  send_.clear();
  for (const SharedBlock& box : boxes_)
    if (box.pointer) endpoint_.release(box);
}

SendChannel* ChannelSet::make_send(int peer, int lane) {
  const auto to = static_cast<std::size_t>(peer);
  if (!boxes_[to].pointer) {
    auto box = endpoint_.allocate(sizeof(PairBox));
    if (!box.is_ok()) {
      status_ = box.status();
      return nullptr;
    }
    boxes_[to] = *box;
    // Pairs with the acquire in find_receive.
    own().outbox[to].store(box->offset, std::memory_order_release);
  }
  auto block = endpoint_.allocate(sizeof(ChannelBlock));
  if (!block.is_ok()) {
    status_ = block.status();
    return nullptr;
  }
  auto& channel = send_[index(peer, lane)];
  channel = std::make_unique<SendChannel>(endpoint_, *block, arena_, peers_[to].control, budget_);
  reinterpret_cast<PairBox*>(boxes_[to].pointer)->channel[lane].store(block->offset, std::memory_order_release);
  return channel.get();
}

void ChannelSet::drop_idle_fifos() {
  for (const auto& channel : send_)
    if (channel) channel->drop_idle_fifo();
}

std::uint64_t ChannelSet::messages_sent() const {
  std::uint64_t messages = 0;
  for (const auto& channel : send_)
    if (channel) messages += channel->sequence();
  return messages;
}

const std::byte* ChannelSet::remote_block(int peer, std::uint64_t offset, std::size_t bytes) {
  const MappedView& view = peers_[static_cast<std::size_t>(peer)].view;
  if (offset % kLineStride == 0 && offset < view.remote_bytes && bytes <= view.remote_bytes - offset)
    return view.remote + offset;
  status_ = Status::error(TUTTI_INTERNAL,
                          "rank " + std::to_string(peer) + " published a mailbox outside its memory (offset " +
                              std::to_string(offset) + ")",
                          peer);
  return nullptr;
}

ReceiveChannel* ChannelSet::find_receive(int peer, int lane) {
  const auto from = static_cast<std::size_t>(peer);
  const std::uint64_t box_offset = peers_[from].control->outbox[rank_].load(std::memory_order_acquire);
  if (box_offset == 0) return nullptr;
  const std::byte* box = remote_block(peer, box_offset, sizeof(PairBox));
  if (!box) return nullptr;
  const std::uint64_t offset = reinterpret_cast<const PairBox*>(box)->channel[lane].load(std::memory_order_acquire);
  if (offset == 0) return nullptr;
  const std::byte* block = remote_block(peer, offset, sizeof(ChannelBlock));
  if (!block) return nullptr;
  auto& channel = receive_[index(peer, lane)];
  channel = std::make_unique<ReceiveChannel>(reinterpret_cast<ChannelBlock*>(const_cast<std::byte*>(block)),
                                             peers_[from].view, peers_[from].control);
  return channel.get();
}

}  // namespace tutti::core
