// SPDX-License-Identifier: Apache-2.0
// What holds for every transport, mapped or not.
#include "tests/contract/transport_contract.h"

#include <fcntl.h>

#include <atomic>
#include <thread>
#include <vector>

#include "src/base/random.h"

namespace tutti::core::contract {

void TransportContract::SetUp() {
  auto made = GetParam().make();
  if (!made.is_ok()) {
    // A state, not a crash; but without a reason nobody could act on it.
    ASSERT_FALSE(made.status().message().empty());
    GTEST_SKIP() << GetParam().name << " is not viable here: " << made.status().to_string();
  }
  endpoint_ = std::move(made).value();
}

std::unique_ptr<Endpoint> TransportContract::make_another() const {
  auto made = GetParam().make();
  require(made.is_ok(), made.status().to_string());
  return std::move(made).value();
}

namespace {

std::shared_ptr<Link> connect_to_self(Endpoint& endpoint) {
  return connect_ready(endpoint, duplicate(endpoint.address()));
}

/// True if `link` becomes ready within a number of polls that is ample for a good one.
bool becomes_ready(Endpoint& endpoint, const Link& link) {
  std::vector<Completion> completions;
  for (int i = 0; i < 1000 && link.state() == LinkState::connecting; ++i)
    if (!endpoint.poll(completions).is_ok()) return false;
  return link.state() == LinkState::ready;
}

TEST_P(TransportContract, has_a_name_and_at_least_one_way_to_move_bytes) {
  EXPECT_FALSE(endpoint_->name().empty());
  EXPECT_TRUE(endpoint_->capabilities().mapped || endpoint_->capabilities().messages);
}

TEST_P(TransportContract, address_is_stable_and_short_enough_for_an_introduction) {
  EXPECT_EQ(endpoint_->address().bytes, endpoint_->address().bytes);
  EXPECT_EQ(endpoint_->address().descriptors, endpoint_->address().descriptors);
  EXPECT_FALSE(endpoint_->address().bytes.empty());
  EXPECT_LE(endpoint_->address().bytes.size(), 1024U);
}

TEST_P(TransportContract, reaches_is_symmetric) {
  const auto other = make_another();
  EXPECT_NE(endpoint_->address().bytes, other->address().bytes);
  EXPECT_TRUE(endpoint_->reaches(endpoint_->address().bytes));
  EXPECT_EQ(endpoint_->reaches(other->address().bytes), other->reaches(endpoint_->address().bytes));
  EXPECT_TRUE(endpoint_->reaches(other->address().bytes));
}

TEST_P(TransportContract, reaches_nobody_through_garbage) {
  const std::string good = endpoint_->address().bytes;
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(endpoint_->reaches(good.substr(0, length)));
  EXPECT_FALSE(endpoint_->reaches(good + "x"));
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::string noise(round % 2 == 0 ? good.size() : random.below(200), '\0');
    for (char& c : noise) c = static_cast<char>(random());
    EXPECT_FALSE(endpoint_->reaches(noise));
  }
}

TEST_P(TransportContract, connecting_to_itself_works) {
  const auto link = connect_to_self(*endpoint_);
  EXPECT_TRUE(link->status().is_ok());
  EXPECT_EQ(link->mapped() != nullptr, endpoint_->capabilities().mapped);
}

TEST_P(TransportContract, connecting_to_its_own_address_as_it_is_keeps_its_descriptors) {
  connect_ready(*endpoint_, endpoint_->address());
  const auto other = make_another();
  const auto there = other->connect(duplicate(endpoint_->address()));
  EXPECT_TRUE(there.is_ok()) << there.status().to_string();
}

TEST_P(TransportContract, connecting_again_returns_the_same_link) {
  const auto first = connect_to_self(*endpoint_);
  EXPECT_EQ(first.get(), connect_to_self(*endpoint_).get());
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    channel.expect("done");
  });
  peer.channel().send(endpoint_->address());
  const PeerAddress address = peer.channel().receive();
  const auto to_peer = connect_ready(*endpoint_, duplicate(address));
  EXPECT_NE(to_peer.get(), first.get());
  EXPECT_EQ(to_peer.get(), connect_ready(*endpoint_, address).get());
  peer.channel().send_text("done");
  EXPECT_TRUE(peer.join());
}

TEST_P(TransportContract, malformed_addresses_are_refused_with_a_text) {
  const auto other = make_another();
  const std::string good = other->address().bytes;
  const int before = open_descriptors();
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    PeerAddress bad = duplicate(other->address());
    if (round < 100)
      for (char& c : bad.bytes) c = static_cast<char>(random());
    else
      bad.bytes.resize(random.below(good.size()));
    const auto link = endpoint_->connect(std::move(bad));
    if (link.is_ok())
      EXPECT_FALSE(becomes_ready(*endpoint_, *link.value()));
    else
      EXPECT_FALSE(link.status().message().empty());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(TransportContract, one_flipped_byte_never_crashes) {
  const auto other = make_another();
  const std::string good = other->address().bytes;
  const int before = open_descriptors();
  for (std::size_t i = 0; i < good.size(); ++i) {
    PeerAddress bad = duplicate(other->address());
    bad.bytes[i] = static_cast<char>(bad.bytes[i] ^ 0x41);
    endpoint_->reaches(bad.bytes);
    const auto link = endpoint_->connect(std::move(bad));
    EXPECT_TRUE(link.is_ok() || !link.status().message().empty());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(TransportContract, too_many_descriptors_are_refused_and_closed) {
  const auto other = make_another();
  const int before = open_descriptors();
  PeerAddress crowded = duplicate(other->address());
  for (int i = 0; i < 3; ++i) crowded.descriptors.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto link = endpoint_->connect(std::move(crowded));
  EXPECT_FALSE(link.is_ok());
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(TransportContract, abort_fails_the_link_with_the_first_reason) {
  const auto link = connect_to_self(*endpoint_);
  link->abort(Status::error(TUTTI_PEER_LOST, "rank 7 went away", 7));
  link->abort(Status::error(TUTTI_ABORTED, "a later reason"));
  EXPECT_EQ(link->state(), LinkState::failed);
  EXPECT_EQ(link->status().code(), TUTTI_PEER_LOST);
  EXPECT_EQ(link->status().failing_rank(), 7);
  EXPECT_NE(link->status().message().find("rank 7 went away"), std::string::npos);
  std::vector<Completion> completions;
  EXPECT_TRUE(endpoint_->poll(completions).is_ok());
}

TEST_P(TransportContract, a_new_link_follows_an_aborted_one) {
  const auto first = connect_to_self(*endpoint_);
  first->abort(Status::error(TUTTI_ABORTED, "enough"));
  const auto second = connect_to_self(*endpoint_);
  EXPECT_NE(first.get(), second.get());
  EXPECT_EQ(second->state(), LinkState::ready);
  EXPECT_EQ(first->state(), LinkState::failed);
}

TEST_P(TransportContract, abort_is_seen_by_a_thread_that_polls_the_state) {
  const auto link = connect_to_self(*endpoint_);
  std::atomic<bool> polling{false};
  std::atomic<bool> named{false};
  std::thread waiter([&] {
    wait_until([&] {
      polling.store(true, std::memory_order_release);
      return link->state() == LinkState::failed;
    });
    named.store(link->status().message().find("from outside") != std::string::npos);
  });
  wait_until([&] { return polling.load(std::memory_order_acquire); });
  link->abort(Status::error(TUTTI_ABORTED, "from outside"));
  waiter.join();
  EXPECT_TRUE(named.load());
}

TEST_P(TransportContract, post_to_an_aborted_or_wrong_kind_of_link_is_refused) {
  const auto link = connect_to_self(*endpoint_);
  char byte = 0;
  if (!endpoint_->capabilities().messages) {
    EXPECT_EQ(link->post_send(0, 1, &byte, 1).code(), TUTTI_UNSUPPORTED);
    EXPECT_EQ(link->post_recv(0, 1, &byte, 1).code(), TUTTI_UNSUPPORTED);
    return;
  }
  link->abort(Status::error(TUTTI_ABORTED, "the reason"));
  EXPECT_NE(link->post_send(0, 1, &byte, 1).message().find("the reason"), std::string::npos);
  EXPECT_NE(link->post_recv(0, 1, &byte, 1).message().find("the reason"), std::string::npos);
}

TEST_P(TransportContract, allocate_works_exactly_where_links_are_mapped) {
  const auto block = endpoint_->allocate(4096);
  if (endpoint_->capabilities().mapped)
    EXPECT_TRUE(block.is_ok());
  else
    EXPECT_EQ(block.status().code(), TUTTI_UNSUPPORTED);
}

// Both sides come and go 200 times: nothing piles up.
TEST_P(TransportContract, descriptors_and_mappings_are_as_before_after_200_connects) {
  constexpr int kCycles = 200;
  const auto cycle = [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    // Neither closes before the other is ready.
    channel.send_text("ready");
    channel.expect("ready");
  };
  PeerProcess peer(GetParam().make, [&cycle](Endpoint& endpoint, const Channel& channel) {
    for (int i = 0; i < kCycles; ++i) cycle(endpoint, channel);
  });
  cycle(*endpoint_, peer.channel());
  std::vector<Completion> completions;
  ASSERT_TRUE(endpoint_->poll(completions).is_ok());
  const int descriptors = open_descriptors(), mappings = memory_mappings();
  const std::int64_t address_space = address_space_bytes();
  for (int i = 1; i < kCycles; ++i) cycle(*endpoint_, peer.channel());
  EXPECT_TRUE(peer.join());
  ASSERT_TRUE(endpoint_->poll(completions).is_ok());
  EXPECT_LE(open_descriptors(), descriptors);
  // The heap may have grown by a map or two; one map a cycle would be 199.
  EXPECT_LE(memory_mappings(), mappings + 4);
  EXPECT_LE(address_space_bytes(), address_space + kCycles * (std::int64_t{1} << 20));
}

TEST_P(TransportContract, endpoints_come_and_go_without_a_trace) {
  endpoint_.reset();
  const auto life = [this] {
    const auto endpoint = make_another();
    const auto link = connect_to_self(*endpoint);
  };
  life();
  const int descriptors = open_descriptors(), mappings = memory_mappings();
  for (int i = 0; i < 50; ++i) life();
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_LE(memory_mappings(), mappings + 4);
}

}  // namespace
}  // namespace tutti::core::contract
