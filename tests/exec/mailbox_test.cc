// SPDX-License-Identifier: Apache-2.0
#include "src/exec/mailbox.h"

#include <algorithm>
#include <deque>
#include <thread>

#include "src/base/random.h"
#include "tests/exec/world.h"

namespace tutti::core {
namespace {

constexpr std::uint64_t kFingerprint = 0x1234567890abcdef;
constexpr std::size_t kFifo = std::size_t{1} << 20;

/// Rank 0 sends to rank 1 over one lane.
class Mailbox : public ::testing::Test {
 protected:
  SendChannel& sender() { return *world_.channels(0).send(1, 0); }
  ReceiveChannel& receiver() { return *world_.channels(1).receive(0, 0); }

  /// False while there is no room.
  bool send(std::size_t bytes, std::uint64_t seed, std::size_t fifo = kFifo) {
    std::byte* place = sender().reserve(bytes, fifo);
    if (!place) return false;
    fill(place, bytes, seed);
    sender().commit(bytes, kFingerprint, kTestEpoch);
    return true;
  }
  static void fill(std::byte* place, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) place[i] = static_cast<std::byte>(mix64(seed) + i * 7);
  }
  static bool holds(const std::byte* place, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (place[i] != static_cast<std::byte>(mix64(seed) + i * 7)) return false;
    return true;
  }
  bool arrived() { return world_.channels(1).receive(0, 0) && receiver().ready(kTestEpoch); }
  void expect_message(std::size_t bytes, std::uint64_t seed) {
    ASSERT_TRUE(arrived()) << bytes << " bytes";
    EXPECT_EQ(receiver().fingerprint(), kFingerprint);
    const std::byte* data = receiver().data(bytes);
    ASSERT_NE(data, nullptr) << bytes << " bytes";
    EXPECT_TRUE(holds(data, bytes, seed)) << bytes << " bytes";
  }

  World world_{2};
};

constexpr std::size_t kSizes[] = {
    0, 1, 47, 48, 49, 64, 128, 4096, kSmallMessage - 1, kSmallMessage, kSmallMessage + 1, std::size_t{128} << 10};

TEST_F(Mailbox, carries_every_class_of_size) {
  std::uint64_t seed = 0;
  for (int round = 0; round < 3; ++round)
    for (const std::size_t bytes : kSizes) {
      ASSERT_TRUE(send(bytes, ++seed)) << bytes;
      expect_message(bytes, seed);
      receiver().release(bytes);
      EXPECT_FALSE(arrived());
    }
}

TEST_F(Mailbox, small_messages_travel_in_the_line_and_large_ones_do_not) {
  ASSERT_TRUE(send(kInlineBytes, 1));
  EXPECT_EQ(receiver().data(kInlineBytes), receiver().inline_payload());
  receiver().release(kInlineBytes);
  ASSERT_TRUE(send(kInlineBytes + 1, 2));
  EXPECT_NE(receiver().data(kInlineBytes + 1), receiver().inline_payload());
}

TEST_F(Mailbox, reserving_again_gives_the_same_place) {
  for (const std::size_t bytes : kSizes) {
    std::byte* place = sender().reserve(bytes, kFifo);
    ASSERT_NE(place, nullptr);
    EXPECT_EQ(sender().reserve(bytes, kFifo), place) << bytes;
    sender().commit(bytes, kFingerprint, kTestEpoch);
    receiver().release(bytes);
  }
}

TEST_F(Mailbox, holds_eight_messages_and_gets_credit_at_every_fourth) {
  for (std::uint64_t i = 0; i < kLines; ++i) ASSERT_TRUE(send(8, i)) << i;
  EXPECT_FALSE(send(8, 8));
  for (std::uint64_t i = 0; i < kCreditBatch - 1; ++i) {
    expect_message(8, i);
    receiver().release(8);
    EXPECT_FALSE(send(8, 8)) << "credit after " << i + 1;
  }
  receiver().release(8);
  for (std::uint64_t i = 0; i < kCreditBatch; ++i) EXPECT_TRUE(send(8, kLines + i));
  EXPECT_FALSE(send(8, 99));
  for (std::uint64_t i = kCreditBatch; i < kLines + kCreditBatch; ++i) {
    expect_message(8, i);
    receiver().release(8);
  }
}

TEST_F(Mailbox, a_large_message_gives_its_credit_and_that_of_all_before_at_once) {
  for (std::uint64_t i = 0; i < kLines - 1; ++i) ASSERT_TRUE(send(i == 1 ? 9000 : 8, i));
  receiver().release(8);
  ASSERT_TRUE(send(8, 7));
  EXPECT_FALSE(send(8, 8));
  receiver().release(9000);
  EXPECT_TRUE(send(8, 8));
  EXPECT_TRUE(send(8, 9));
  EXPECT_FALSE(send(8, 10));
}

// Whatever sizes travel: with the receiver's withheld credit (up to three small messages) and one message in its hand
// there is room for one more. A forwarding ring of ranks needs just that.
TEST_F(Mailbox, there_is_room_for_one_more_while_credit_is_withheld_and_one_message_is_held) {
  Random random(7);
  std::deque<std::pair<std::size_t, std::uint64_t>> in_flight;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t kind = random.below(4);
    const std::size_t bytes = kind == 0   ? random.below(kInlineBytes + 1)
                              : kind == 1 ? random.below(kSmallMessage + 1)
                              : kind == 2 ? kSmallMessage
                                          : kFifo / 4 - random.below(2 * kLineStride);
    ASSERT_TRUE(send(bytes, i)) << "message " << i << " of " << bytes << " bytes, " << in_flight.size() << " held";
    in_flight.push_back({bytes, i});
    if (in_flight.size() == 2) {
      if (i % 97 == 0) expect_message(in_flight.front().first, in_flight.front().second);
      receiver().release(in_flight.front().first);
      in_flight.pop_front();
    }
  }
}

// The first large message meets a FIFO that does not exist yet while the receiver withholds the credit of small ones.
TEST_F(Mailbox, a_fifo_comes_and_grows_without_waiting_for_withheld_credit) {
  for (std::uint64_t i = 0; i < kCreditBatch - 1; ++i) {
    ASSERT_TRUE(send(4096, i));
    receiver().release(4096);
  }
  ASSERT_TRUE(send(10000, 10, 64 << 10));
  expect_message(10000, 10);
  receiver().release(10000);
  ASSERT_TRUE(send(4096, 11));
  receiver().release(4096);
  ASSERT_TRUE(send(100000, 12, 400000)) << "the FIFO is empty: it can be replaced";
  expect_message(100000, 12);
}

TEST_F(Mailbox, a_fifo_that_is_in_use_is_not_replaced) {
  ASSERT_TRUE(send(10000, 1, 64 << 10));
  EXPECT_FALSE(send(100000, 2, 400000));
  expect_message(10000, 1);
  receiver().release(10000);
  ASSERT_TRUE(send(100000, 2, 400000));
  expect_message(100000, 2);
}

// An operation that asks for room for four messages gets it even if an earlier one asked for less.
TEST_F(Mailbox, a_fifo_is_as_large_as_the_last_operation_asked) {
  ASSERT_TRUE(send(60000, 1, 64 << 10));
  receiver().release(60000);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(send(60000, i, 4 * (60000 + kLineStride))) << i;
}

TEST_F(Mailbox, a_fifo_counts_in_the_budget_and_is_given_back_once_nobody_reads_it) {
  ASSERT_TRUE(send(kSmallMessage + 1, 1));
  EXPECT_GE(world_.budget().bytes.load(), kFifo);
  sender().drop_idle_fifo();
  EXPECT_GE(world_.budget().bytes.load(), kFifo) << "a message lies in it";
  expect_message(kSmallMessage + 1, 1);
  receiver().release(kSmallMessage + 1);
  sender().drop_idle_fifo();
  EXPECT_EQ(world_.budget().bytes.load(), 0U);
  // Messages already in flight and later ones are not disturbed.
  ASSERT_TRUE(send(100, 2));
  ASSERT_TRUE(send(kSmallMessage + 1, 3));
  expect_message(100, 2);
  receiver().release(100);
  expect_message(kSmallMessage + 1, 3);
}

TEST_F(Mailbox, another_length_and_a_locator_outside_the_memory_are_refused) {
  ASSERT_TRUE(send(100, 1));
  EXPECT_EQ(receiver().data(101), nullptr);
  EXPECT_EQ(receiver().data(99), nullptr);
  EXPECT_NE(receiver().data(100), nullptr);

  const std::uint64_t end = world_.view().remote_bytes;
  auto* box = reinterpret_cast<PairBox*>(world_.arena() + world_.page(0).outbox[1].load());
  auto* block = reinterpret_cast<ChannelBlock*>(world_.arena() + box->channel[0].load());
  for (const Locator locator : {Locator{end, 100}, Locator{end - 99, 100}, Locator{UINT64_MAX, 100},
                                Locator{UINT64_MAX - 50, 100}, Locator{0, 99}}) {
    std::memcpy(block->lines[0].line.payload, &locator, sizeof locator);
    EXPECT_EQ(receiver().data(100), nullptr) << locator.offset << " " << locator.bytes;
  }
}

TEST_F(Mailbox, messages_of_another_epoch_or_round_do_not_arrive) {
  EXPECT_FALSE(arrived());
  ASSERT_TRUE(send(8, 1));
  EXPECT_TRUE(receiver().ready(kTestEpoch));
  EXPECT_FALSE(receiver().ready(kTestEpoch + (std::uint64_t{1} << 48)));
  EXPECT_FALSE(receiver().ready(0));
  receiver().release(8);
  // The line of the round before still lies there eight messages later.
  for (std::uint64_t i = 1; i < kLines; ++i) {
    ASSERT_TRUE(send(8, i));
    receiver().release(8);
  }
  EXPECT_FALSE(arrived());
}

TEST(Channels, a_mailbox_outside_the_peer_s_memory_is_an_error_that_names_the_peer) {
  World world(2);
  EXPECT_EQ(world.channels(1).receive(0, 0), nullptr);
  EXPECT_TRUE(world.channels(1).status().is_ok());
  for (const std::uint64_t offset : {world.view().remote_bytes, std::uint64_t{64}, world.view().remote_bytes - 128}) {
    World fresh(2);
    fresh.page(0).outbox[1].store(offset);
    EXPECT_EQ(fresh.channels(1).receive(0, 0), nullptr);
    EXPECT_EQ(fresh.channels(1).status().code(), TUTTI_INTERNAL) << offset;
    EXPECT_EQ(fresh.channels(1).status().failing_rank(), 0);
  }
}

// ---- the ring against a model ------------------------------------------------------------------------------------

TEST(RingSpace, never_overlaps_and_places_whatever_fits) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const std::uint64_t size = 128 * (1 + random.below(40));
    RingSpace ring(size);
    // A piece occupies its bytes and those skipped before it so that it does not wrap.
    struct Piece {
      std::uint64_t offset, bytes, head, skipped;
    };
    std::deque<Piece> live;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t bytes = 128 * (1 + random.below(size / 128));
      std::uint64_t used = 0;
      for (const Piece& piece : live) used += piece.bytes + piece.skipped;
      const std::uint64_t end = live.empty() ? 0 : live.back().offset + live.back().bytes;
      const std::uint64_t skipped = !live.empty() && end + bytes > size ? size - end : 0;
      const std::int64_t at = ring.place(bytes);
      ASSERT_EQ(at >= 0, used + skipped + bytes <= size) << "seed " << seed;
      if (at >= 0) {
        const auto offset = static_cast<std::uint64_t>(at);
        ASSERT_LE(offset + bytes, size) << "messages do not wrap";
        for (const Piece& piece : live)
          ASSERT_TRUE(offset + bytes <= piece.offset || piece.offset + piece.bytes <= offset)
              << "seed " << seed << ": [" << offset << "," << offset + bytes << ") over [" << piece.offset << ","
              << piece.offset + piece.bytes << ")";
        live.push_back({offset, bytes, ring.head(), skipped});
      }
      while (!live.empty() && random.below(3) == 0) {
        ring.free_to(live.front().head);
        live.pop_front();
        ASSERT_EQ(ring.empty(), live.empty());
      }
    }
  }
}

// ---- two threads -------------------------------------------------------------------------------------------------

constexpr std::size_t size_of_message(std::uint64_t i) {
  switch (mix64(i) % 16) {
    case 0: return 0;
    case 1: return 4096;
    case 2: return kSmallMessage + 1 + mix64(i) % 3000;
    case 3: return mix64(i) % kSmallMessage;
    default: return mix64(i) % 64;
  }
}

/// Sends all messages to `peer` and receives as many, each checked at its ends and in between.
void exchange(ChannelSet& channels, int peer, std::uint64_t messages) {
  std::uint64_t sent = 0, received = 0;
  const auto mark = [](std::uint64_t i, std::size_t at) { return static_cast<std::byte>(mix64(i) + at); };
  while (sent < messages || received < messages) {
    bool moved = false;
    if (sent < messages && sent < received + 6) {
      const std::size_t bytes = size_of_message(sent);
      SendChannel* channel = channels.send(peer, 2);
      if (std::byte* place = channel->reserve(bytes, 64 << 10)) {
        for (std::size_t i = 0; i < bytes; i += 61) place[i] = mark(sent, i);
        if (bytes) place[bytes - 1] = mark(sent, bytes - 1);
        channel->commit(bytes, kFingerprint + sent, kTestEpoch);
        ++sent;
        moved = true;
      }
    }
    ReceiveChannel* channel = channels.receive(peer, 2);
    if (received < messages && channel && channel->ready(kTestEpoch)) {
      const std::size_t bytes = size_of_message(received);
      ASSERT_EQ(channel->fingerprint(), kFingerprint + received);
      const std::byte* data = channel->data(bytes);
      ASSERT_NE(data, nullptr) << "message " << received;
      for (std::size_t i = 0; i + 1 < bytes; i += 61) ASSERT_EQ(data[i], mark(received, i)) << "message " << received;
      if (bytes) {
        ASSERT_EQ(data[bytes - 1], mark(received, bytes - 1));
      }
      channel->release(bytes);
      ++received;
      moved = true;
    }
    if (!moved) std::this_thread::yield();
  }
}

TEST(MailboxThreads, two_threads_exchange_a_hundred_thousand_messages) {
  constexpr std::uint64_t kMessages = 100'000;
  World world(2);
  std::thread other([&] { exchange(world.channels(1), 0, kMessages); });
  exchange(world.channels(0), 1, kMessages);
  other.join();
}

}  // namespace
}  // namespace tutti::core
