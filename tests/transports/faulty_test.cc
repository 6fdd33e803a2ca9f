// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/contract/socket_endpoint.h"
#include "tests/contract/transport_contract.h"
#include "transports/faulty/faulty_endpoint.h"
#include "transports/shm/shm_endpoint.h"

namespace tutti::core::contract {

Result<std::unique_ptr<Endpoint>> make_faultless_socket() {
  TUTTI_TRY(inner, make_socket_endpoint());
  return make_faulty_endpoint(std::move(inner), {});
}

const TransportCase kSocket{"socket", make_socket_endpoint}, kFaultless{"faultless_socket", make_faultless_socket};
TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(TransportContract, socket, kSocket, kFaultless);
TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(MessageTransportContract, socket, kSocket, kFaultless);

namespace {

std::unique_ptr<Endpoint> faulty_shm(const FaultPlan& plan) {
  auto inner = make_shm_endpoint();
  require(inner.is_ok(), inner.status().to_string());
  return make_faulty_endpoint(std::move(inner).value(), plan);
}

/// A faulty message endpoint and its link to itself.
struct SelfSocket {
  explicit SelfSocket(const FaultPlan& plan) {
    auto inner = make_socket_endpoint();
    require(inner.is_ok(), inner.status().to_string());
    endpoint = make_faulty_endpoint(std::move(inner).value(), plan);
    link = connect_ready(*endpoint, endpoint->address());
  }
  void send(std::uint64_t token, const std::string& text) {
    ASSERT_TRUE(link->post_send(0, token, text.data(), text.size()).is_ok());
  }
  std::vector<Completion> poll(int times) {
    std::vector<Completion> completions;
    for (int i = 0; i < times; ++i) EXPECT_TRUE(endpoint->poll(completions).is_ok());
    return completions;
  }

  std::unique_ptr<Endpoint> endpoint;
  std::shared_ptr<Link> link;
};

TEST(Faulty, the_planned_number_of_connects_fails_and_leaks_nothing) {
  const auto endpoint = faulty_shm({.fail_connects = 2});
  const auto peer = faulty_shm({});
  const int before = open_descriptors();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(endpoint->connect(duplicate(peer->address())).status().code(), TUTTI_UNAVAILABLE);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_TRUE(endpoint->connect(duplicate(peer->address())).is_ok());
}

TEST(Faulty, a_link_becomes_ready_after_the_planned_polls) {
  const auto endpoint = faulty_shm({.ready_after_polls = 3});
  auto connected = endpoint->connect(duplicate(endpoint->address()));
  ASSERT_TRUE(connected.is_ok());
  const auto link = *connected;
  std::vector<Completion> completions;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(link->state(), LinkState::connecting);
    EXPECT_EQ(link->mapped(), nullptr);
    ASSERT_TRUE(endpoint->poll(completions).is_ok());
  }
  EXPECT_EQ(link->state(), LinkState::ready);
  EXPECT_NE(link->mapped(), nullptr);
}

TEST(Faulty, every_link_breaks_at_the_planned_poll) {
  const auto endpoint = faulty_shm({.abort_after_polls = 6});
  const auto peer = faulty_shm({});
  const auto self = connect_ready(*endpoint, endpoint->address());
  const auto other = connect_ready(*endpoint, duplicate(peer->address()));
  std::vector<Completion> completions;
  while (self->state() == LinkState::ready) ASSERT_TRUE(endpoint->poll(completions).is_ok());
  EXPECT_EQ(self->status().code(), TUTTI_PEER_LOST);
  EXPECT_EQ(other->state(), LinkState::failed);
  EXPECT_NE(self->mapped(), nullptr);
}

TEST(Faulty, allocate_is_refused) {
  const auto endpoint = faulty_shm({.refuse_allocate = true});
  EXPECT_EQ(endpoint->allocate(4096).status().code(), TUTTI_UNAVAILABLE);
}

TEST(Faulty, a_dropped_send_completes_and_never_arrives) {
  SelfSocket self({.drop_send = 1});
  const std::string first = "first", second = "second", third = "third";
  self.send(1, first);
  self.send(2, second);
  self.send(3, third);
  char in[2][16] = {};
  ASSERT_TRUE(self.link->post_recv(0, 11, in[0], 16).is_ok());
  ASSERT_TRUE(self.link->post_recv(0, 12, in[1], 16).is_ok());
  EXPECT_EQ(self.poll(3).size(), 5U);
  EXPECT_STREQ(in[0], "first");
  EXPECT_STREQ(in[1], "third");
}

TEST(Faulty, a_truncated_send_arrives_short) {
  SelfSocket self({.truncate_send = 0, .truncate_to = 3});
  const std::string text = "first";
  self.send(1, text);
  char in[16] = {};
  ASSERT_TRUE(self.link->post_recv(0, 2, in, 16).is_ok());
  for (const Completion& completion : self.poll(3)) EXPECT_EQ(completion.bytes, completion.token == 1 ? 5U : 3U);
  EXPECT_STREQ(in, "fir");
}

TEST(Faulty, completions_come_late_by_the_planned_polls) {
  SelfSocket self({.hold_completions = 4});
  const std::string text = "x";
  self.send(1, text);
  EXPECT_TRUE(self.poll(4).empty());
  EXPECT_EQ(self.poll(1).size(), 1U);
}

}  // namespace
}  // namespace tutti::core::contract
