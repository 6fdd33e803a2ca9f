// SPDX-License-Identifier: Apache-2.0
// All ranks of a communicator without the communicator: mailboxes of one endpoint, driven by the test itself.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "src/exec/channels.h"
#include "transports/registry.h"

namespace tutti::core {

constexpr std::uint64_t kTestEpoch = std::uint64_t{3} << 48;

class World {
 public:
  explicit World(int ranks) {
    auto made = find_transport("shm")->make();
    if (!made.is_ok()) ADD_FAILURE() << made.status().to_string();
    endpoint_ = std::move(*made);
    link_ = std::move(*endpoint_->connect(endpoint_->address()));
    for (int r = 0; r < ranks; ++r) {
      pages_.push_back(allocate(ControlPage::bytes_for(ranks)));
      ends_.push_back({reinterpret_cast<ControlPage*>(pages_.back().pointer), view()});
    }
    for (int r = 0; r < ranks; ++r)
      sets_.push_back(std::make_unique<ChannelSet>(*endpoint_, arena(), r, ends_, &budget_));
  }

  SharedBlock allocate(std::size_t bytes) { return std::move(endpoint_->allocate(bytes)).value(); }
  Endpoint& endpoint() { return *endpoint_; }
  const MappedView& view() const { return *link_->mapped(); }
  std::byte* arena() const { return view().local; }
  ControlPage& page(int rank) { return *ends_[static_cast<std::size_t>(rank)].control; }
  ChannelSet& channels(int rank) { return *sets_[static_cast<std::size_t>(rank)]; }
  const FifoBudget& budget() const { return budget_; }
  int ranks() const { return static_cast<int>(sets_.size()); }

 private:
  std::unique_ptr<Endpoint> endpoint_;
  std::shared_ptr<Link> link_;
  std::vector<SharedBlock> pages_;
  std::vector<PeerEnd> ends_;
  FifoBudget budget_;
  std::vector<std::unique_ptr<ChannelSet>> sets_;
};

}  // namespace tutti::core
