// SPDX-License-Identifier: Apache-2.0
// Send and receive: sizes around the eager limit, tags, order, any source, self, messages nobody waits for yet.
#include <atomic>
#include <set>

#include "tests/api/harness.h"
#include "tests/api/pattern.h"

namespace api_test {
namespace {

using tutti::any_source;
using tutti::Code;
using tutti::Communicator;
using tutti::Work;

std::vector<std::uint8_t> message(std::size_t bytes, int from, int number) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::uint8_t>(mix(i, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(number)));
  return data;
}

constexpr std::size_t kSizes[] = {0, 1, 24, 25, 48, 4095, 4096, 4097, 65536, 1 << 20};

void ring_exchange(Communicator& comm) {
  const int next = (comm.rank() + 1) % comm.ranks();
  const int previous = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  for (const std::size_t bytes : kSizes) {
    std::vector<std::uint8_t> got(bytes);
    const auto sent = message(bytes, comm.rank(), 1);
    auto work = comm.async().send(sent, next, 5).value();
    int source = -9;
    ASSERT_STATUS_OK(comm.recv(got, previous, 5, &source)) << bytes << " bytes";
    ASSERT_STATUS_OK(work.wait());
    EXPECT_EQ(source, previous);
    EXPECT_EQ(got, message(bytes, previous, 1)) << bytes << " bytes";
  }
}

TEST(SendRecv, every_size_around_a_ring) {
  for (const int ranks : {2, 3, 5}) spawn(ranks, ring_exchange);
}

TEST(SendRecv, to_oneself) {
  spawn(2, [](Communicator& comm) {
    for (const std::size_t bytes : kSizes) {
      std::vector<std::uint8_t> got(bytes);
      const auto sent = message(bytes, comm.rank(), 2);
      auto work = comm.async().send(sent, comm.rank(), 1).value();
      ASSERT_STATUS_OK(comm.recv(got, comm.rank(), 1));
      ASSERT_STATUS_OK(work.wait());
      EXPECT_EQ(got, sent);
    }
  });
}

// The first bytes of a message may go ahead of its receive; the sender of a small one need not wait.
TEST(SendRecv, a_small_send_completes_before_its_receive_is_posted) {
  std::atomic<bool> sent{false};
  spawn(2, [&](Communicator& comm) {
    std::vector<std::uint8_t> data(4096);
    if (comm.rank() == 0) {
      const auto first = message(4096, 0, 1);
      ASSERT_STATUS_OK(comm.send(first, 1));
      sent = true;
    } else {
      ASSERT_TRUE(eventually([&] { return sent.load(); }));
      ASSERT_STATUS_OK(comm.recv(data, 0));
      EXPECT_EQ(data, message(4096, 0, 1));
    }
  });
}

TEST(SendRecv, a_large_send_waits_for_its_receive) {
  std::atomic<bool> looked{false};
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      const auto data = message(1 << 20, 0, 1);
      auto work = comm.async().send(data, 1).value();
      EXPECT_EQ(work.wait(milliseconds(20)).code(), Code::timeout);
      looked = true;
      ASSERT_STATUS_OK(work.wait());
    } else {
      ASSERT_TRUE(eventually([&] { return looked.load(); }));
      std::vector<std::uint8_t> data(1 << 20);
      ASSERT_STATUS_OK(comm.recv(data, 0));
      EXPECT_EQ(data, message(1 << 20, 0, 1));
    }
  });
}

TEST(SendRecv, order_holds_within_a_tag_for_mixed_sizes) {
  constexpr int kMessages = 200;
  const auto bytes_of = [](int number) { return kSizes[mix(static_cast<std::uint64_t>(number)) % 9]; };
  spawn(2, [&](Communicator& comm) {
    std::vector<std::vector<std::uint8_t>> data(kMessages);
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      auto& mine = data[static_cast<std::size_t>(i)];
      if (comm.rank() == 0) {
        mine = message(bytes_of(i), 0, i);
        works.push_back(comm.async().send(mine, 1, 3).value());
      } else {
        mine.resize(bytes_of(i));
        works.push_back(comm.async().recv(mine, 0, 3).value());
      }
    }
    for (auto& work : works) ASSERT_STATUS_OK(work.wait());
    if (comm.rank() == 0) return;
    for (int i = 0; i < kMessages; ++i)
      ASSERT_EQ(data[static_cast<std::size_t>(i)], message(bytes_of(i), 0, i)) << "message " << i;
  });
}

TEST(SendRecv, tags_are_matched_in_any_order) {
  spawn(2, [](Communicator& comm) {
    constexpr std::uint32_t kTags = 8;
    for (const std::size_t bytes : {8u, 4096u, 200000u}) {
      std::vector<std::vector<std::uint8_t>> data(kTags);
      std::vector<Work> works;
      for (std::uint32_t i = 0; i < kTags; ++i) {
        const std::uint32_t tag = comm.rank() == 0 ? i : kTags - 1 - i;
        if (comm.rank() == 0) {
          data[tag] = message(bytes, 0, static_cast<int>(tag));
          works.push_back(comm.async().send(data[tag], 1, tag * 0x10000001u).value());  // all 32 bits of a tag count
        } else {
          data[tag].resize(bytes);
          works.push_back(comm.async().recv(data[tag], 0, tag * 0x10000001u).value());
        }
      }
      for (auto& work : works) ASSERT_STATUS_OK(work.wait());
      for (std::uint32_t tag = 0; tag < kTags; ++tag) ASSERT_EQ(data[tag], message(bytes, 0, static_cast<int>(tag)));
    }
  });
}

TEST(SendRecv, unexpected_messages_wait_and_then_press_back) {
  // 64 eager messages of 4 KiB are four times what a pair keeps aside: none may be lost, and order must hold.
  std::atomic<bool> sent_some{false};
  spawn(2, [&](Communicator& comm) {
    constexpr int kMessages = 64;
    if (comm.rank() == 0) {
      std::vector<std::vector<std::uint8_t>> data;
      std::vector<Work> works;
      for (int i = 0; i < kMessages; ++i) data.push_back(message(4096, 0, i));
      for (int i = 0; i < kMessages; ++i)
        works.push_back(comm.async().send(data[static_cast<std::size_t>(i)], 1, 1).value());
      ASSERT_STATUS_OK(works[0].wait());
      sent_some = true;
      for (auto& work : works) ASSERT_STATUS_OK(work.wait());
    } else {
      ASSERT_TRUE(eventually([&] { return sent_some.load(); }));
      ASSERT_STATUS_OK(comm.status());
      std::vector<std::uint8_t> data(4096);
      for (int i = 0; i < kMessages; ++i) {
        ASSERT_STATUS_OK(comm.recv(data, 0, 1));
        ASSERT_EQ(data, message(4096, 0, i)) << "message " << i;
      }
    }
  });
}

TEST(SendRecv, another_tag_passes_unexpected_messages) {
  spawn(2, [](Communicator& comm) {
    std::vector<std::uint8_t> data(1000);
    if (comm.rank() == 0) {
      for (int i = 0; i < 5; ++i) {
        data = message(1000, 0, i);
        ASSERT_STATUS_OK(comm.send(data, 1, 1));
      }
      data = message(1000, 0, 9);
      ASSERT_STATUS_OK(comm.send(data, 1, 2));
    } else {
      ASSERT_STATUS_OK(comm.recv(data, 0, 2));
      EXPECT_EQ(data, message(1000, 0, 9));
      for (int i = 0; i < 5; ++i) {
        ASSERT_STATUS_OK(comm.recv(data, 0, 1));
        EXPECT_EQ(data, message(1000, 0, i));
      }
    }
  });
}

TEST(SendRecv, any_source_takes_each_message_once_and_says_whose) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{4096}, std::size_t{100000}})
    spawn(4, [&](Communicator& comm) {
      if (comm.rank() != 0) {
        const auto data = message(bytes, comm.rank(), 0);
        ASSERT_STATUS_OK(comm.send(data, 0, 6));
        return;
      }
      std::set<int> sources;
      for (int i = 0; i < 3; ++i) {
        std::vector<std::uint8_t> data(bytes);
        int source = -1;
        ASSERT_STATUS_OK(comm.recv(data, any_source, 6, &source));
        EXPECT_TRUE(sources.insert(source).second) << "rank " << source << " twice";
        EXPECT_EQ(data, message(bytes, source, 0));
      }
      EXPECT_EQ(sources, (std::set<int>{1, 2, 3}));
    });
}

TEST(SendRecv, overlaps_with_collectives) {
  std::atomic<bool> received{false};
  spawn(2, [&](Communicator& comm) {
    // Rank 1 receives while its collective cannot proceed: rank 0 has not called it.
    std::vector<int> data(1000, 1), value(1, 42);
    if (comm.rank() == 0) {
      ASSERT_STATUS_OK(comm.send(value, 1));
      ASSERT_TRUE(eventually([&] { return received.load(); }));
      ASSERT_STATUS_OK(comm.all_reduce(data));
    } else {
      auto reduce = comm.async().all_reduce(data).value();
      value[0] = 0;
      ASSERT_STATUS_OK(comm.recv(value, 0));
      EXPECT_EQ(value[0], 42);
      EXPECT_FALSE(*reduce.test());
      received = true;
      ASSERT_STATUS_OK(reduce.wait());
    }
    EXPECT_EQ(data, std::vector<int>(1000, 2));
  });
}

TEST(SendRecv, different_sizes_are_an_error_that_names_both) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{100000}})
    spawn(2, [&](Communicator& comm) {
      std::vector<std::uint8_t> data(comm.rank() == 0 ? bytes : bytes + 1);
      const tutti::Status status = comm.rank() == 0 ? comm.send(data, 1) : comm.recv(data, 0);
      if (comm.rank() == 1) {
        EXPECT_EQ(status.code(), Code::mismatch) << to_string(status);
        EXPECT_NE(status.text().find(std::to_string(bytes)), std::string::npos) << status.text();
        EXPECT_NE(status.text().find(std::to_string(bytes + 1)), std::string::npos) << status.text();
      }
      // The sender learns of it in this call or in the next one.
      if (comm.rank() == 0 && status.is_ok()) {
        const tutti::Status next = comm.barrier();
        EXPECT_EQ(next.code(), Code::mismatch) << to_string(next);
      }
    });
}

TEST(SendRecv, other_element_types_of_the_same_size_are_a_mismatch) {
  spawn(2, [](Communicator& comm) {
    std::vector<float> floats(10, 1);
    std::vector<int> ints(10, 1);
    const tutti::Status status = comm.rank() == 0 ? comm.send(floats, 1) : comm.recv(ints, 0);
    if (comm.rank() == 1) {
      EXPECT_EQ(status.code(), Code::mismatch) << to_string(status);
      EXPECT_NE(status.text().find("float32"), std::string::npos) << status.text();
      EXPECT_NE(status.text().find("int32"), std::string::npos) << status.text();
    }
  });
}

TEST(SendRecv, a_receive_without_a_sender_ends_at_its_deadline) {
  std::atomic<bool> ended{false};
  spawn(3, [&](Communicator& comm) {
    if (comm.rank() != 0) {
      ASSERT_TRUE(eventually([&] { return ended.load(); }));
      return;
    }
    std::vector<int> data(3);
    const tutti::Status status = comm.recv(data, 2, 11, nullptr, {.timeout = milliseconds(150)});
    ended = true;
    EXPECT_EQ(status.code(), Code::timeout) << to_string(status);
    EXPECT_NE(status.text().find("rank 2"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("recv"), std::string::npos) << status.text();
  });
}

// ---- deadlocks ---------------------------------------------------------------------------------------------------

/// A ring of blocking sends before any receive.
tutti::Status send_around(Communicator& comm, std::size_t bytes) {
  std::vector<std::uint8_t> out(bytes), in(bytes);
  const int next = (comm.rank() + 1) % comm.ranks(), previous = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  if (tutti::Status status = comm.send(out, next, 5); !status.is_ok()) return status;
  return comm.recv(in, previous, 5);
}

TEST(Deadlock, a_ring_of_blocking_sends_is_fine_up_to_4_KiB) {
  for (const int ranks : {2, 3}) spawn(ranks, [](Communicator& comm) { EXPECT_STATUS_OK(send_around(comm, 4096)); });
}

TEST(Deadlock, a_ring_of_larger_ones_is_reported_with_its_circle) {
  const auto hop = [](int from, int to) {
    return "rank " + std::to_string(from) + " waits in send to " + std::to_string(to) + " (tag 5, 1 MiB) -> ";
  };
  for (const int ranks : {2, 3})
    spawn({.ranks = ranks, .settings = "timeout=300ms"}, [&](Communicator& comm) {
      const tutti::Status status = send_around(comm, 1 << 20);
      EXPECT_EQ(status.code(), Code::timeout) << to_string(status);
      // Whoever's deadline came first begins.
      bool found = false;
      for (int first = 0; first < ranks; ++first) {
        std::string circle = "deadlock: ";
        for (int i = 0; i < ranks; ++i) circle += hop((first + i) % ranks, (first + i + 1) % ranks);
        found = found || status.text().find(circle + "rank " + std::to_string(first)) != std::string::npos;
      }
      EXPECT_TRUE(found) << status.text();
      EXPECT_NE(status.text().find("one group"), std::string::npos) << status.text();
    });
}

TEST(Deadlock, receives_before_sends_and_a_collective_in_the_circle_are_named) {
  spawn({.ranks = 2, .settings = "timeout=300ms"}, [](Communicator& comm) {
    std::vector<int> data(10);
    const tutti::Status status = comm.recv(data, 1 - comm.rank(), 7);
    EXPECT_EQ(status.code(), Code::timeout) << to_string(status);
    EXPECT_NE(status.text().find("deadlock: rank"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("waits in recv from 0 (tag 7, 40 bytes)"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("waits in recv from 1 (tag 7, 40 bytes)"), std::string::npos) << status.text();
  });
  spawn({.ranks = 2, .settings = "timeout=300ms"}, [](Communicator& comm) {
    std::vector<int> data(10);
    const tutti::Status status = comm.rank() == 0 ? comm.barrier() : comm.recv(data, 0, 7);
    EXPECT_EQ(status.code(), Code::timeout) << to_string(status);
    EXPECT_NE(status.text().find("deadlock: rank"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank 0 waits in op #0"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank 1 waits in recv from 0 (tag 7, 40 bytes)"), std::string::npos) << status.text();
  });
}

TEST(Deadlock, a_peer_that_is_only_late_is_none) {
  std::atomic<bool> over{false};
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return over.load(); }));
      return;
    }
    std::vector<std::uint8_t> data(1 << 20);
    const tutti::Status status = comm.send(data, 1, 5, {.timeout = milliseconds(150)});
    over = true;
    EXPECT_EQ(status.code(), Code::timeout) << to_string(status);
    EXPECT_EQ(status.text().find("deadlock"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank 1 is in no call of this communicator"), std::string::npos) << status.text();
  });
}

// ---- peers that leave --------------------------------------------------------------------------------------------

TEST(AnySource, ends_when_every_other_rank_has_left_and_not_before) {
  std::atomic<bool> first_left{false};
  spawn(3, [&](Communicator& comm) {
    std::vector<int> value(1, comm.rank());
    if (comm.rank() == 1) {
      comm = Communicator();
      first_left = true;
      return;
    }
    ASSERT_TRUE(eventually([&] { return first_left.load(); }));
    if (comm.rank() == 2) {
      ASSERT_STATUS_OK(comm.send(value, 0));
      return;  // leaves
    }
    // One has gone, the other can still send.
    int source = -1;
    ASSERT_STATUS_OK(comm.recv(value, any_source, 0, &source));
    EXPECT_EQ(source, 2);
    EXPECT_EQ(value[0], 2);
    const std::int64_t begin = now_ns();
    const tutti::Status status = comm.recv(value, any_source);
    EXPECT_EQ(status.code(), Code::peer_lost) << to_string(status);
    EXPECT_NE(status.text().find("every other rank has left"), std::string::npos) << status.text();
    EXPECT_LT(now_ns() - begin, 15'000'000'000) << "the deadline is far later";
  });
}

}  // namespace
}  // namespace api_test
