// SPDX-License-Identifier: Apache-2.0
// Groups from inside: how operations of several communicators are handed over.
#include "src/comm/group.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/comm/thread_ranks.h"

namespace tutti::core {
namespace {

using testing::all_reduce_of;
using testing::Rank;
using testing::spawn;
using testing::TestGroup;

Call transfer(tutti_collective what, int peer, std::vector<std::int32_t>& data) {
  Call call;
  call.what = what;
  call.type = TUTTI_INT32;
  call.count = data.size();
  call.peer = peer;
  call.in = call.out = data.data();
  return call;
}

// Issued alternately; each communicator still gets all of its own at once.
TEST(Group, operations_of_two_communicators_fuse_within_each) {
  spawn(2, [](Rank comm) {
    Rank other = std::move(comm->split(0, 0, nullptr)).value();
    const std::uint64_t before = comm->messages_sent(), other_before = other->messages_sent();
    std::vector<std::vector<std::int32_t>> data(8, std::vector<std::int32_t>(5, 1));
    TestGroup group;
    for (std::size_t i = 0; i < data.size(); ++i) group.add(i % 2 ? *other : *comm, all_reduce_of(data[i]));
    ASSERT_TRUE(group.run().is_ok());
    for (const auto& each : data) EXPECT_EQ(each, std::vector<std::int32_t>(5, 2));
    EXPECT_EQ(group.operation(0).exchange, pack_exchange(1, 4)) << "operation 0 was the split's";
    EXPECT_EQ(group.operation(1).exchange, pack_exchange(0, 4));
    EXPECT_EQ(comm->messages_sent() - before, 1u);
    EXPECT_EQ(other->messages_sent() - other_before, 1u);
  });
}

TEST(Group, sends_and_receives_between_collectives_do_not_part_them) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> a(3, 1), b(4, 1), out(6, comm->rank()), in(6, -1);
    TestGroup group;
    group.add(*comm, all_reduce_of(a));
    group.add(*comm, transfer(TUTTI_RECV, 1 - comm->rank(), in));
    group.add(*comm, all_reduce_of(b));
    group.add(*comm, transfer(TUTTI_SEND, 1 - comm->rank(), out));
    ASSERT_TRUE(group.run().is_ok());
    EXPECT_EQ(group.operation(0).exchange, pack_exchange(0, 2));
    EXPECT_EQ(group.operation(2).exchange, pack_exchange(0, 2));
    EXPECT_EQ(in, std::vector<std::int32_t>(6, 1 - comm->rank()));
    // Sends and receives have records and numbers of their own.
    for (const std::size_t i : {std::size_t{1}, std::size_t{3}}) {
      const Record* record = group.operation(i).record;
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(record->sequence.load(), i == 1 ? 1u : 2u);
      EXPECT_EQ(record->what, i == 1 ? TUTTI_RECV : TUTTI_SEND);
      EXPECT_EQ(record->bytes, 24u);
      EXPECT_EQ(record->peer, 1 - comm->rank());
      EXPECT_EQ(record->code, TUTTI_OK);
      EXPECT_NE(record->done.load(), 0u);
    }
    EXPECT_EQ(b, std::vector<std::int32_t>(4, 2));
  });
}

// Small messages to one peer travel together: 64 of 4 bytes fit into one line ring's worth of mailbox messages.
TEST(Group, small_sends_to_one_peer_share_messages) {
  spawn(2, [](Rank comm) {
    constexpr std::size_t kMessages = 64;
    std::vector<std::vector<std::int32_t>> data(kMessages, std::vector<std::int32_t>(1));
    const std::uint64_t before = comm->messages_sent();
    TestGroup group;
    for (std::size_t i = 0; i < kMessages; ++i) {
      if (comm->rank() == 0) data[i][0] = static_cast<std::int32_t>(i);
      group.add(*comm, transfer(comm->rank() == 0 ? TUTTI_SEND : TUTTI_RECV, 1 - comm->rank(), data[i]));
    }
    ASSERT_TRUE(group.run().is_ok());
    for (std::size_t i = 0; i < kMessages; ++i) EXPECT_EQ(data[i][0], static_cast<std::int32_t>(i));
    if (comm->rank() == 0) {
      EXPECT_EQ(comm->messages_sent() - before, 1u);
    }
  });
}

TEST(Group, an_error_of_one_communicator_leaves_the_others_alone) {
  spawn(2, [](Rank comm) {
    Rank other = std::move(comm->split(0, 0, nullptr)).value();
    std::vector<std::int32_t> a(3, 1), b(4, 1), c(4, 1);
    if (comm->rank() == 0) other->abort("on purpose");
    ASSERT_TRUE(testing::eventually([&] { return !other->status().is_ok(); }));
    TestGroup group;
    group.add(*other, all_reduce_of(b));
    group.add(*comm, all_reduce_of(a));
    group.add(*other, all_reduce_of(c));
    EXPECT_EQ(group.run().code(), TUTTI_ABORTED);
    EXPECT_EQ(group.operation(0).status().code(), TUTTI_ABORTED);
    EXPECT_TRUE(group.operation(1).status().is_ok());
    EXPECT_EQ(a, std::vector<std::int32_t>(3, 2));
  });
}

}  // namespace
}  // namespace tutti::core
