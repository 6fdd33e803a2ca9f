// SPDX-License-Identifier: Apache-2.0
// The point-to-point protocol over mailboxes, all ranks driven by the test.
#include "src/comm/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "src/base/random.h"
#include "tests/exec/world.h"

namespace tutti::core {
namespace {

constexpr std::size_t kFifo = 64 << 10;

/// An operation and what became of it.
struct Posted {
  Operation operation;
  std::vector<std::byte> data;
  int finished = 0;
  Status status;
};

class PointToPointTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  PointToPointTest() {
    for (int r = 0; r < kRanks; ++r)
      ends_.push_back(PointToPoint::make(world_.channels(r), kTestEpoch, kFifo, {&PointToPointTest::on_finish, this}));
  }

  static void on_finish(void* self, Operation* operation, Status status) {
    auto& all = static_cast<PointToPointTest*>(self)->all_;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Posted& posted) { return &posted.operation == operation; });
    ASSERT_NE(found, all.end());
    ++found->finished;
    found->status = std::move(status);
  }

  static std::byte byte_of(std::uint64_t seed, std::size_t i) { return static_cast<std::byte>(mix64(seed) + i); }

  Posted& send(int from, int to, std::size_t bytes, std::uint32_t tag = 0, std::uint64_t seed = 1) {
    Posted& posted = all_.emplace_back();
    posted.data.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) posted.data[i] = byte_of(seed, i);
    return start(posted, from,
                 {TUTTI_SEND, TUTTI_INT8, TUTTI_SUM, to, bytes, posted.data.data(), nullptr, 0, tag, 0, {}});
  }
  Posted& receive(int at, int from, std::size_t bytes, std::uint32_t tag = 0) {
    Posted& posted = all_.emplace_back();
    posted.data.assign(bytes, std::byte{0xcc});
    return start(posted, at,
                 {TUTTI_RECV, TUTTI_INT8, TUTTI_SUM, from, bytes, nullptr, posted.data.data(), 0, tag, 0, {}});
  }
  Posted& start(Posted& posted, int rank, const Call& call) {
    posted.operation.call = call;
    posted.operation.deadline_ticks = 1000;
    end(rank).start(&posted.operation);
    return posted;
  }
  PointToPoint& end(int rank) { return *ends_[static_cast<std::size_t>(rank)]; }
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& each : ends_) moved |= each->advance();
    }
  }
  static void expect_received(const Posted& posted, std::uint64_t seed, int source) {
    ASSERT_EQ(posted.finished, 1) << "from " << source;
    EXPECT_TRUE(posted.status.is_ok()) << posted.status.to_string();
    EXPECT_EQ(posted.operation.source, source);
    for (std::size_t i = 0; i < posted.data.size(); ++i) ASSERT_EQ(posted.data[i], byte_of(seed, i)) << i;
  }
  void expect_all_idle() {
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(end(r).idle()) << r;
      for (int peer = 0; peer < kRanks; ++peer) EXPECT_FALSE(end(r).waits_for(peer)) << r << " " << peer;
    }
  }
  /// Puts a message of the test's own making into the mailbox from rank 0 to rank 1.
  void forge(const void* bytes, std::size_t length, std::uint64_t fingerprint) {
    SendChannel* channel = world_.channels(0).send(1, kPointToPointLane);
    std::byte* place = channel->reserve(length, kFifo);
    ASSERT_NE(place, nullptr);
    std::memcpy(place, bytes, length);
    channel->commit(length, fingerprint, kTestEpoch);
  }

  World world_{kRanks};
  std::deque<Posted> all_;
  std::vector<std::unique_ptr<PointToPoint>> ends_;
};

TEST_F(PointToPointTest, carries_every_size_in_either_order_of_calls) {
  std::uint64_t seed = 0;
  for (const std::size_t bytes :
       std::initializer_list<std::size_t>{0, 1, 24, 25, 4095, 4096, 4097, 8192, 100'000, 1'000'000})
    for (const bool sender_first : {true, false}) {
      ++seed;
      Posted* sent = sender_first ? &send(0, 1, bytes, 7, seed) : nullptr;
      if (sender_first) settle();
      Posted& received = receive(1, 0, bytes, 7);
      if (!sender_first) {
        settle();
        EXPECT_EQ(received.finished, 0);
        EXPECT_TRUE(end(1).waits_for(0));
        EXPECT_FALSE(end(1).waits_for(2));
        sent = &send(0, 1, bytes, 7, seed);
      }
      settle();
      EXPECT_EQ(sent->finished, 1) << bytes;
      expect_received(received, seed, 0);
      expect_all_idle();
    }
}

TEST_F(PointToPointTest, small_sends_are_complete_before_their_receive_and_large_ones_are_not) {
  Posted& small = send(0, 1, 4096);
  settle();
  EXPECT_EQ(small.finished, 1);
  Posted& large = send(0, 1, 4097);
  settle();
  EXPECT_EQ(large.finished, 0);
  EXPECT_TRUE(end(0).waits_for(1));
  EXPECT_EQ(end(0).overdue(999), nullptr);
  EXPECT_EQ(end(0).overdue(1000), &large.operation);
  receive(1, 0, 4096);
  receive(1, 0, 4097);
  settle();
  EXPECT_EQ(large.finished, 1);
  expect_all_idle();
}

TEST_F(PointToPointTest, tags_select_and_messages_of_one_tag_keep_their_order) {
  // Eager, announced, eager: the order of one tag holds across the kinds.
  const std::size_t sizes[] = {100, 50'000, 8, 4096, 4097};
  for (std::uint64_t i = 0; i < 5; ++i) send(0, 1, sizes[i], 1, i + 1);
  send(0, 1, 64, 2, 99);
  settle();
  Posted& other = receive(1, 0, 64, 2);
  settle();
  expect_received(other, 99, 0);
  for (std::uint64_t i = 0; i < 5; ++i) {
    Posted& received = receive(1, 0, sizes[i], 1);
    settle();
    expect_received(received, i + 1, 0);
  }
  expect_all_idle();
}

TEST_F(PointToPointTest, any_source_takes_what_came_first_and_says_from_whom) {
  send(2, 1, 10, 0, 22);
  settle();
  send(0, 1, 10, 0, 11);
  settle();
  Posted& first = receive(1, TUTTI_ANY_SOURCE, 10);
  Posted& second = receive(1, TUTTI_ANY_SOURCE, 10);
  settle();
  expect_received(first, 22, 2);
  expect_received(second, 11, 0);
  // Posted first: the receive waits for nobody in particular.
  Posted& third = receive(1, TUTTI_ANY_SOURCE, 10'000);
  for (int peer = 0; peer < kRanks; ++peer) EXPECT_FALSE(end(1).waits_for(peer));
  send(2, 1, 10'000, 0, 33);
  settle();
  expect_received(third, 33, 2);
}

TEST_F(PointToPointTest, sends_to_oneself_work_in_either_order) {
  for (const std::size_t bytes : std::initializer_list<std::size_t>{0, 10, 4096, 4097, 100'000}) {
    Posted& sent = send(1, 1, bytes, 3, bytes + 1);
    EXPECT_EQ(sent.finished, bytes <= 4096 ? 1 : 0);
    Posted& received = receive(1, bytes % 2 ? 1 : TUTTI_ANY_SOURCE, bytes, 3);
    expect_received(received, bytes + 1, 1);
    EXPECT_EQ(sent.finished, 1);
    Posted& early = receive(1, 1, bytes, 3);
    EXPECT_EQ(early.finished, 0);
    EXPECT_EQ(send(1, 1, bytes, 3, bytes + 2).finished, 1);
    expect_received(early, bytes + 2, 1);
  }
  expect_all_idle();
}

TEST_F(PointToPointTest, both_ways_at_once_and_in_the_wrong_order_cannot_deadlock) {
  std::vector<Posted*> received;
  std::vector<std::uint64_t> seeds;
  Random random(5);
  std::uint64_t seed = 0;
  constexpr std::uint32_t kTags = 12;
  std::size_t bytes[kRanks][kRanks][kTags];
  for (int from = 0; from < kRanks; ++from)
    for (int to = 0; to < kRanks; ++to)
      for (std::uint32_t tag = 0; tag < kTags; ++tag) {
        bytes[from][to][tag] = random.below(3) == 0 ? random.below(200'000) : random.below(4200);
        send(from, to, bytes[from][to][tag], tag, ++seed);
      }
  settle();
  for (int to = 0; to < kRanks; ++to)
    for (std::uint32_t tag = kTags; tag-- > 0;)
      for (int from = kRanks; from-- > 0;) {
        received.push_back(&receive(to, from, bytes[from][to][tag], tag));
        seeds.push_back(static_cast<std::uint64_t>((from * kRanks + to)) * kTags + tag + 1);
        if (random.below(2)) end(static_cast<int>(random.below(kRanks))).advance();
      }
  settle();
  for (std::size_t i = 0; i < received.size(); ++i)
    ASSERT_NO_FATAL_FAILURE(expect_received(*received[i], seeds[i], received[i]->operation.call.peer));
  for (const Posted& posted : all_) EXPECT_EQ(posted.finished, 1);
  expect_all_idle();
}

// 64 KiB may lie unmatched at a receiver; what comes on top waits at the sender.
TEST_F(PointToPointTest, unmatched_messages_are_bounded) {
  std::vector<Posted*> sent;
  for (int i = 0; i < 40; ++i) {
    sent.push_back(&send(0, 1, 4096, 0, static_cast<std::uint64_t>(i + 1)));
    settle();
  }
  int complete = 0;
  for (const Posted* each : sent) complete += each->finished;
  EXPECT_EQ(complete, 16);
  for (int i = 0; i < 40; ++i) {
    Posted& received = receive(1, 0, 4096);
    settle();
    expect_received(received, static_cast<std::uint64_t>(i + 1), 0);
  }
  expect_all_idle();
  // The window is open again.
  Posted& again = send(0, 1, 4096);
  settle();
  EXPECT_EQ(again.finished, 1);
}

TEST_F(PointToPointTest, another_count_is_a_mismatch_that_names_both) {
  for (const std::size_t bytes : std::initializer_list<std::size_t>{100, 10'000}) {
    send(0, 1, bytes, 4);
    Posted& received = receive(1, 0, bytes + 8, 4);
    settle();
    ASSERT_EQ(received.finished, 1);
    EXPECT_EQ(received.status.code(), TUTTI_MISMATCH);
    EXPECT_EQ(received.status.failing_rank(), 0);
    const std::string text = received.status.message();
    EXPECT_NE(text.find("sent int8 x " + std::to_string(bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("receives int8 x " + std::to_string(bytes + 8)), std::string::npos) << text;
    EXPECT_NE(text.find("tag 4"), std::string::npos) << text;
  }
}

TEST_F(PointToPointTest, failing_ends_every_unfinished_operation_once) {
  send(0, 1, 100'000, 1);  // announced, cleared, streaming
  receive(1, 0, 100'000, 1);
  send(0, 1, 100'000, 2);  // announced
  send(0, 2, 100'000, 3);  // announced to another
  receive(0, 2, 10, 9);    // posted
  receive(0, TUTTI_ANY_SOURCE, 10, 9);
  send(0, 0, 10'000, 8);  // to itself
  end(0).advance();
  end(1).advance();
  end(0).advance();
  send(0, 1, 10'000, 5);  // not yet in the mailbox
  const Status reason = Status::error(TUTTI_PEER_LOST, "gone", 2);
  end(0).fail(reason);
  end(1).fail(reason);
  EXPECT_TRUE(end(0).idle());
  EXPECT_TRUE(end(1).idle());
  for (const Posted& posted : all_) {
    EXPECT_EQ(posted.finished, 1);
    EXPECT_EQ(posted.status.code(), TUTTI_PEER_LOST);
  }
  end(0).fail(reason);
  for (const Posted& posted : all_) EXPECT_EQ(posted.finished, 1);
}

struct Malformed {
  const char* what;
  struct {
    std::uint32_t kind, tag;
    std::uint64_t bytes, id;
  } header;
  std::size_t length;
  std::uint64_t fingerprint;
};
constexpr std::uint64_t kTag = 0x7032000000000000;
constexpr Malformed kMalformed[] = {
    {"not of this lane", {1, 0, 0, 0}, 24, 24},
    {"shorter than a header", {1, 0, 0, 0}, 8, kTag | 8},
    {"another length", {1, 0, 0, 0}, 24, kTag | 4000},
    {"more than it carries", {1, 0, 1, 0}, 24, kTag | 24},
    {"unknown kind", {9, 0, 0, 0}, 24, kTag | 24},
    {"clears what was never announced", {3, 0, 0, 77}, 24, kTag | 24},
    {"data that nobody cleared", {4, 0, 0, 77}, 24, kTag | 24},
};

class MalformedPointToPoint : public PointToPointTest, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(MalformedPointToPoint, fails_whoever_waits_and_names_the_sender) {
  const Malformed& message = kMalformed[GetParam()];
  Posted& waiting = receive(1, 2, 10);
  forge(&message.header, message.length, message.fingerprint);
  end(1).advance();
  ASSERT_EQ(waiting.finished, 1) << message.what;
  EXPECT_EQ(waiting.status.code(), TUTTI_INTERNAL);
  EXPECT_EQ(waiting.status.failing_rank(), 0);
  EXPECT_TRUE(end(1).idle());
}

INSTANTIATE_TEST_SUITE_P(Kinds, MalformedPointToPoint, ::testing::Range(std::size_t{0}, std::size(kMalformed)));

TEST_F(PointToPointTest, a_mailbox_outside_the_peer_s_memory_fails_whoever_waits) {
  world_.page(0).outbox[1].store(world_.view().remote_bytes);
  Posted& waiting = receive(1, 2, 10);
  end(1).advance();
  ASSERT_EQ(waiting.finished, 1);
  EXPECT_EQ(waiting.status.code(), TUTTI_INTERNAL);
  EXPECT_EQ(waiting.status.failing_rank(), 0);
}

}  // namespace
}  // namespace tutti::core
