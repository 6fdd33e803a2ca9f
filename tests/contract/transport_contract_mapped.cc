// SPDX-License-Identifier: Apache-2.0
// What holds for transports whose links are mapped: memory, visibility, order, and what a death leaves behind.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/random.h"
#include "tests/contract/transport_contract.h"

namespace tutti::core::contract {
namespace {

constexpr std::size_t kLine = 128;

std::atomic_ref<std::uint64_t> word_at(std::byte* place) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place));
}

void fill(std::byte* data, std::size_t bytes, std::uint64_t seed) {
  std::size_t done = 0;
  for (; done + 8 <= bytes; done += 8) {
    const std::uint64_t word = mix64(seed + done);
    std::memcpy(data + done, &word, 8);
  }
  for (; done < bytes; ++done) data[done] = static_cast<std::byte>(mix64(seed + done));
}

bool holds(const std::byte* data, std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> expected(bytes);
  fill(expected.data(), bytes, seed);
  return std::equal(expected.begin(), expected.end(), data);
}

bool is_zero(const SharedBlock& block) {
  return std::all_of(block.pointer, block.pointer + block.bytes, [](std::byte b) { return b == std::byte{0}; });
}

SharedBlock allocate(Endpoint& endpoint, std::size_t bytes) {
  auto block = endpoint.allocate(bytes);
  require(block.is_ok(), block.status().to_string());
  return *block;
}

/// One side of an exchange: its own block, and the peer's seen through the link.
///   | arrived (peer writes) | consumed (peer writes) | data (peer writes) |
struct Side {
  std::byte* mine;
  std::byte* theirs;
};

/// Both sides run this. Each writes a pattern into the peer's block and says so by a release store; the peer checks it
/// behind an acquire load, and says that it may be overwritten. Seeds tell the two directions and all rounds apart.
void exchange(const Side& side, const std::vector<std::size_t>& sizes, int seed_out, int seed_in) {
  std::uint64_t round = 0;
  for (const std::size_t bytes : sizes) {
    wait_until([&] { return word_at(side.mine + kLine).load(std::memory_order_acquire) == round; });
    fill(side.theirs + 2 * kLine, bytes, mix64(static_cast<std::uint64_t>(seed_out)) + round);
    ++round;
    word_at(side.theirs).store(round, std::memory_order_release);
    wait_until([&] { return word_at(side.mine).load(std::memory_order_acquire) == round; });
    require(holds(side.mine + 2 * kLine, bytes, mix64(static_cast<std::uint64_t>(seed_in)) + round - 1),
            "wrong bytes in round " + std::to_string(round) + " of " + std::to_string(bytes) + " bytes");
    word_at(side.theirs + kLine).store(round, std::memory_order_release);
  }
}

std::vector<std::size_t> many_sizes() {
  std::vector<std::size_t> sizes = {0, 1, 8, 64, 4095, 4096, 4097, 65536, 1 << 20, 0, 3};
  Random random(9);
  for (int i = 0; i < 300; ++i) sizes.push_back(random.below(5000));
  return sizes;
}

/// The exchange in a process of a pair.
void exchange_over(Endpoint& endpoint, const Channel& channel, const std::vector<std::size_t>& sizes, int self) {
  const auto link = connect_over(endpoint, channel);
  const SharedBlock block = allocate(endpoint, 2 * kLine + *std::max_element(sizes.begin(), sizes.end()));
  channel.send_number(block.offset);
  const std::uint64_t theirs = channel.receive_number();
  require(theirs + block.bytes <= link->mapped()->remote_bytes, "the peer's block is beyond remote_bytes");
  exchange({link->mapped()->local + block.offset, link->mapped()->remote + theirs}, sizes, self, 1 - self);
  channel.send_text("done");
  channel.expect("done");
  endpoint.release(block);
}

TEST_P(MappedTransportContract, two_processes_exchange_patterns_both_ways) {
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    exchange_over(endpoint, channel, many_sizes(), 1);
  });
  exchange_over(*endpoint_, peer.channel(), many_sizes(), 0);
  EXPECT_TRUE(peer.join());
}

TEST_P(MappedTransportContract, two_processes_exchange_64_mib) {
  const std::vector<std::size_t> sizes = {64 << 20, 64 << 20};
  PeerProcess peer(GetParam().make, [&sizes](Endpoint& endpoint, const Channel& channel) {
    exchange_over(endpoint, channel, sizes, 1);
  });
  exchange_over(*endpoint_, peer.channel(), sizes, 0);
  EXPECT_TRUE(peer.join());
}

// The very same code with both ends in one process, where the sanitizers see both.
TEST_P(MappedTransportContract, two_threads_exchange_over_the_link_to_oneself) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  const std::size_t bytes = 2 * kLine + (1 << 20);
  const SharedBlock first = allocate(*endpoint_, bytes), second = allocate(*endpoint_, bytes);
  const MappedView* const view = link->mapped();
  std::thread other([&] { exchange({view->local + second.offset, view->remote + first.offset}, many_sizes(), 1, 0); });
  exchange({view->local + first.offset, view->remote + second.offset}, many_sizes(), 0, 1);
  other.join();
}

TEST_P(MappedTransportContract, two_endpoints_of_one_process_exchange) {
  const auto other_endpoint = make_another();
  const auto here = connect_ready(*endpoint_, duplicate(other_endpoint->address()));
  const auto there = connect_ready(*other_endpoint, duplicate(endpoint_->address()));
  const std::size_t bytes = 2 * kLine + (1 << 20);
  const SharedBlock first = allocate(*endpoint_, bytes), second = allocate(*other_endpoint, bytes);
  std::thread other([&] {
    exchange({there->mapped()->local + second.offset, there->mapped()->remote + first.offset}, many_sizes(), 1, 0);
  });
  exchange({here->mapped()->local + first.offset, here->mapped()->remote + second.offset}, many_sizes(), 0, 1);
  other.join();
}

// Stores become visible in the order of the program: whoever sees word n sees all that was stored before it.
TEST_P(MappedTransportContract, stores_arrive_in_order) {
  constexpr std::uint64_t kStores = 100000, kLines = 16;
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    std::byte* const block = link->mapped()->remote + channel.receive_number();
    for (std::uint64_t i = 1; i <= kStores; ++i) {
      word_at(block + kLine * (1 + i % kLines)).store(i, std::memory_order_relaxed);
      word_at(block).store(i, std::memory_order_release);
    }
    channel.expect("done");
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  const SharedBlock block = allocate(*endpoint_, kLine * (1 + kLines));
  peer.channel().send_number(block.offset);
  std::uint64_t wrong = 0;
  wait_until([&] {
    const std::uint64_t seen = word_at(block.pointer).load(std::memory_order_acquire);
    for (std::uint64_t back = 0; back < kLines && back < seen; ++back) {
      const std::uint64_t number = seen - back;
      if (word_at(block.pointer + kLine * (1 + number % kLines)).load(std::memory_order_relaxed) < number) ++wrong;
    }
    return seen == kStores;
  });
  EXPECT_EQ(wrong, 0U);
  peer.channel().send_text("done");
  EXPECT_TRUE(peer.join());
}

TEST_P(MappedTransportContract, memory_that_a_peer_allocates_later_is_reachable_through_the_old_link) {
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    for (int i = 0; i < 4; ++i) {
      channel.expect("allocate");
      const SharedBlock block = allocate(endpoint, 12 << 20);
      fill(block.pointer, block.bytes, block.offset);
      channel.send_number(block.offset);
    }
    channel.expect("done");
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  for (int i = 0; i < 4; ++i) {
    peer.channel().send_text("allocate");
    const std::uint64_t offset = peer.channel().receive_number();
    ASSERT_LE(offset + (12 << 20), link->mapped()->remote_bytes);
    EXPECT_TRUE(holds(link->mapped()->remote + offset, 12 << 20, offset));
  }
  peer.channel().send_text("done");
  EXPECT_TRUE(peer.join());
}

TEST_P(MappedTransportContract, memory_of_a_killed_peer_stays_readable_and_writable) {
  constexpr std::size_t kBytes = 4 << 20;
  PeerProcess peer(GetParam().make, [](Endpoint& endpoint, const Channel& channel) {
    const auto link = connect_over(endpoint, channel);
    const SharedBlock block = allocate(endpoint, kBytes);
    fill(block.pointer, block.bytes, 99);
    channel.send_number(block.offset);
    channel.expect("never sent");
  });
  const auto link = connect_over(*endpoint_, peer.channel());
  const std::uint64_t offset = peer.channel().receive_number();
  peer.kill();
  ASSERT_NE(link->mapped(), nullptr);
  EXPECT_TRUE(holds(link->mapped()->remote + offset, kBytes, 99));
  fill(link->mapped()->remote + offset, kBytes, 100);
  EXPECT_TRUE(holds(link->mapped()->remote + offset, kBytes, 100));
  std::vector<Completion> completions;
  EXPECT_TRUE(endpoint_->poll(completions).is_ok());
}

TEST_P(MappedTransportContract, the_view_outlives_abort_and_the_endpoint) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  const SharedBlock block = allocate(*endpoint_, 4096);
  link->abort(Status::error(TUTTI_ABORTED, "enough"));
  ASSERT_NE(link->mapped(), nullptr);
  const MappedView view = *link->mapped();
  endpoint_.reset();
  fill(view.local + block.offset, block.bytes, 3);
  EXPECT_TRUE(holds(view.remote + block.offset, block.bytes, 3));
}

TEST_P(MappedTransportContract, blocks_are_zeroed_aligned_and_at_their_offset) {
  const auto link = connect_ready(*endpoint_, duplicate(endpoint_->address()));
  for (const std::size_t bytes : {0U, 1U, 128U, 4097U, 65536U, 3U << 20, 64U << 20}) {
    const SharedBlock block = allocate(*endpoint_, bytes);
    EXPECT_EQ(block.bytes, bytes);
    EXPECT_NE(block.pointer, nullptr);
    EXPECT_EQ(block.pointer, link->mapped()->local + block.offset);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.pointer) % (bytes < (2 << 20) ? 128 : 2 << 20), 0U);
    EXPECT_TRUE(is_zero(block));
    endpoint_->release(block);
  }
}

TEST_P(MappedTransportContract, blocks_are_reused_and_zeroed_again) {
  for (const std::size_t bytes : {100U, 5000U, 70000U, 3U << 20}) {
    SharedBlock block = allocate(*endpoint_, bytes);
    std::byte* const place = block.pointer;
    for (int i = 0; i < 20; ++i) {
      fill(block.pointer, bytes, 1);
      endpoint_->release(block);
      block = allocate(*endpoint_, bytes);
      EXPECT_EQ(block.pointer, place);
      ASSERT_TRUE(is_zero(block));
    }
    endpoint_->release(block);
  }
}

TEST_P(MappedTransportContract, an_impossible_block_is_unavailable_and_harmless) {
  const auto block = endpoint_->allocate(SIZE_MAX / 2);
  ASSERT_FALSE(block.is_ok());
  EXPECT_EQ(block.status().code(), TUTTI_UNAVAILABLE);
  EXPECT_FALSE(block.status().message().empty());
  endpoint_->release(allocate(*endpoint_, 1000));
}

TEST_P(MappedTransportContract, threads_may_allocate_and_release_at_once) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, &wrong, t] {
      for (std::size_t i = 1; i <= 100; ++i) {
        auto block = endpoint_->allocate(i * 333);
        if (!block.is_ok() || !is_zero(*block)) {
          ++wrong;
          continue;
        }
        fill(block->pointer, block->bytes, static_cast<std::uint64_t>(t));
        if (!holds(block->pointer, block->bytes, static_cast<std::uint64_t>(t))) ++wrong;
        endpoint_->release(*block);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace tutti::core::contract
