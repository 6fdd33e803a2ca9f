// SPDX-License-Identifier: Apache-2.0
// What holds for transports whose links carry messages: order, sizes, back-pressure, completion, and what a death or an
// abort does to posted operations.
#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "src/base/random.h"
#include "tests/contract/transport_contract.h"

namespace tutti::core::contract {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes pattern(std::size_t bytes, std::uint64_t seed) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(mix64(seed + i / 8) >> (8 * (i % 8)));
  return data;
}

/// Completions of an endpoint by token; a token must not complete twice.
class Completed {
 public:
  explicit Completed(Endpoint& endpoint) : endpoint_(endpoint) {}

  void wait_for(const std::vector<std::uint64_t>& tokens) {
    std::vector<Completion> fresh;
    poll_until(endpoint_, fresh, [&] {
      for (Completion& completion : fresh)
        require(by_token_.emplace(completion.token, completion).second,
                "completed twice: " + std::to_string(completion.token));
      fresh.clear();
      return std::all_of(tokens.begin(), tokens.end(),
                         [this](std::uint64_t token) { return by_token_.count(token) == 1; });
    });
  }
  const Completion& at(std::uint64_t token) const { return by_token_.at(token); }

 private:
  Endpoint& endpoint_;
  std::map<std::uint64_t, Completion> by_token_;
};

void check(const Status& status) { require(status.is_ok(), status.to_string()); }

/// Sends messages of `sizes` and receives as many, all posted before the first is waited for: neither side may block in
/// a post, and each must take in while it gives out.
void swap_messages(Endpoint& endpoint, Link& link, const std::vector<std::size_t>& sizes, int self) {
  Completed completed(endpoint);
  std::vector<Bytes> out, in;
  std::vector<std::uint64_t> tokens;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.push_back(pattern(sizes[i], i * 2 + static_cast<std::size_t>(self)));
    in.emplace_back(sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    check(link.post_send(0, 2 * i, out[i].data(), sizes[i]));
    check(link.post_recv(0, 2 * i + 1, in[i].data(), sizes[i]));
    tokens.push_back(2 * i);
    tokens.push_back(2 * i + 1);
  }
  completed.wait_for(tokens);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    check(completed.at(2 * i).status);
    check(completed.at(2 * i + 1).status);
    require(completed.at(2 * i).bytes == sizes[i] && completed.at(2 * i + 1).bytes == sizes[i],
            "wrong length in a completion");
    require(in[i] == pattern(sizes[i], i * 2 + static_cast<std::size_t>(1 - self)),
            "wrong bytes in message " + std::to_string(i) + " of " + std::to_string(sizes[i]));
  }
}

void swap_over(Endpoint& endpoint, const Channel& channel, const std::vector<std::size_t>& sizes, int self) {
  const auto link = connect_over(endpoint, channel);
  swap_messages(endpoint, *link, sizes, self);
  channel.send_text("done");
  channel.expect("done");
}

void run_swap(const TransportCase& transport, Endpoint& endpoint, const std::vector<std::size_t>& sizes) {
  PeerProcess peer(transport.make,
                   [&sizes](Endpoint& other, const Channel& channel) { swap_over(other, channel, sizes, 1); });
  swap_over(endpoint, peer.channel(), sizes, 0);
  EXPECT_TRUE(peer.join());
}

TEST_P(MessageTransportContract, messages_of_a_lane_arrive_in_order) {
  std::vector<std::size_t> sizes;
  Random random(2);
  for (int i = 0; i < 1000; ++i) sizes.push_back(random.below(i % 50 == 0 ? 100000 : 300));
  run_swap(GetParam(), *endpoint_, sizes);
}

TEST_P(MessageTransportContract, zero_bytes_are_a_message_too) { run_swap(GetParam(), *endpoint_, {0, 0, 5, 0, 1, 0}); }

TEST_P(MessageTransportContract, large_messages_both_ways_at_once) {
  run_swap(GetParam(), *endpoint_, {64 << 20, 1, (5 << 20) + 3});
}

TEST_P(MessageTransportContract, a_link_to_oneself_carries_messages) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  const Bytes out = pattern(300000, 4);
  Bytes in(out.size());
  check(link->post_send(0, 1, out.data(), out.size()));
  check(link->post_recv(0, 2, in.data(), in.size()));
  Completed completed(*endpoint_);
  completed.wait_for({1, 2});
  EXPECT_EQ(in, out);
}

TEST_P(MessageTransportContract, a_message_may_be_shorter_than_the_buffer) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  const Bytes out = pattern(10, 4);
  Bytes in(100, 0xee);
  check(link->post_recv(0, 2, in.data(), in.size()));
  check(link->post_send(0, 1, out.data(), out.size()));
  Completed completed(*endpoint_);
  completed.wait_for({1, 2});
  EXPECT_TRUE(completed.at(2).status.is_ok());
  EXPECT_EQ(completed.at(2).bytes, 10U);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), in.begin()));
  EXPECT_TRUE(std::all_of(in.begin() + 10, in.end(), [](unsigned char c) { return c == 0xee; }));
}

TEST_P(MessageTransportContract, a_message_longer_than_the_buffer_is_an_error_and_never_overruns) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  const Bytes out = pattern(5000, 4);
  Bytes in(100, 0xee);
  check(link->post_recv(0, 2, in.data(), 50));
  check(link->post_send(0, 1, out.data(), out.size()));
  Completed completed(*endpoint_);
  completed.wait_for({2});
  EXPECT_FALSE(completed.at(2).status.is_ok());
  EXPECT_FALSE(completed.at(2).status.message().empty());
  EXPECT_TRUE(std::all_of(in.begin() + 50, in.end(), [](unsigned char c) { return c == 0xee; }));
}

// The receiver asks for lane 1 first although lane 0 was sent first: lanes must not wait for each other.
TEST_P(MessageTransportContract, lanes_are_independent) {
  constexpr std::size_t kBytes = 200000;
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    const Bytes first = pattern(kBytes, 10), second = pattern(kBytes, 11);
    check(link->post_send(0, 1, first.data(), kBytes));
    check(link->post_send(1, 2, second.data(), kBytes));
    Completed completed(endpoint);
    completed.wait_for({1, 2});
    channel.send_text("sent");
    channel.expect("done");
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  Completed completed(*endpoint_);
  Bytes in(kBytes);
  check(link->post_recv(1, 1, in.data(), kBytes));
  completed.wait_for({1});
  EXPECT_EQ(in, pattern(kBytes, 11));
  check(link->post_recv(0, 2, in.data(), kBytes));
  completed.wait_for({2});
  EXPECT_EQ(in, pattern(kBytes, 10));
  peer.channel().expect("sent");
  peer.channel().send_text("done");
  EXPECT_TRUE(peer.join());
}

// 64 MiB towards a peer that does not post a receive for now: posts return, and what is not posted for waits.
TEST_P(MessageTransportContract, back_pressure_blocks_nobody_and_loses_nothing) {
  constexpr std::size_t kMessages = 64, kBytes = 1 << 20;
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    std::vector<Bytes> out;
    for (std::size_t i = 0; i < kMessages; ++i) {
      out.push_back(pattern(kBytes, i));
      check(link->post_send(0, i, out[i].data(), kBytes));
    }
    channel.send_text("posted");
    Completed completed(endpoint);
    for (std::size_t i = 0; i < kMessages; ++i) completed.wait_for({i});
    channel.expect("done");
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  peer.channel().expect("posted");
  Completed completed(*endpoint_);
  Bytes in(kBytes);
  for (std::size_t i = 0; i < kMessages; ++i) {
    check(link->post_recv(0, i, in.data(), kBytes));
    completed.wait_for({i});
    ASSERT_EQ(in, pattern(kBytes, i));
  }
  peer.channel().send_text("done");
  EXPECT_TRUE(peer.join());
}

TEST_P(MessageTransportContract, abort_completes_what_is_posted_with_the_reason) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  Bytes in(100);
  check(link->post_recv(0, 7, in.data(), in.size()));
  link->abort(Status::error(TUTTI_ABORTED, "the user said stop"));
  Completed completed(*endpoint_);
  completed.wait_for({7});
  EXPECT_EQ(completed.at(7).status.code(), TUTTI_ABORTED);
  EXPECT_NE(completed.at(7).status.message().find("the user said stop"), std::string::npos);
}

TEST_P(MessageTransportContract, a_killed_peer_fails_what_is_posted_and_the_link) {
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    channel.send_text("ready");
    channel.expect("never sent");
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  Bytes in(100);
  check(link->post_recv(0, 7, in.data(), in.size()));
  peer.channel().expect("ready");
  peer.kill();
  Completed completed(*endpoint_);
  completed.wait_for({7});
  EXPECT_EQ(completed.at(7).status.code(), TUTTI_PEER_LOST);
  EXPECT_EQ(link->state(), LinkState::failed);
  EXPECT_EQ(link->status().code(), TUTTI_PEER_LOST);
  EXPECT_FALSE(link->post_send(0, 8, in.data(), in.size()).is_ok());
}

TEST_P(MessageTransportContract, what_a_peer_sent_before_it_left_still_arrives) {
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    channel.expect("connected");
    const Bytes out = pattern(1000, 3);
    check(link->post_send(0, 1, out.data(), out.size()));
    Completed completed(endpoint);
    completed.wait_for({1});
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  peer.channel().send_text("connected");
  EXPECT_TRUE(peer.join());
  Bytes in(1000);
  check(link->post_recv(0, 1, in.data(), in.size()));
  Completed completed(*endpoint_);
  completed.wait_for({1});
  EXPECT_TRUE(completed.at(1).status.is_ok()) << completed.at(1).status.to_string();
  EXPECT_EQ(in, pattern(1000, 3));
}

}  // namespace
}  // namespace tutti::core::contract
