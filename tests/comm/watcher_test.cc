// SPDX-License-Identifier: Apache-2.0
// Watchers of one process talking over socket pairs. Deaths of real processes are in watcher_process_test.cc.
#include "src/comm/watcher.h"

#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>

#include "src/comm/bootstrap_socket.h"
#include "src/comm/watcher_message.h"
#include "tests/comm/bootstrap_support.h"

namespace tutti::core::test {
namespace {

/// What one watcher reported, in order.
class Losses {
 public:
  Watcher::OnLost callback() {
    return [this](const ProcessId& process, const std::string& text) {
      const std::lock_guard lock(mutex_);
      seen_.emplace_back(process, text);
      changed_.notify_all();
    };
  }
  /// Waits until `count` losses were reported; false after 10 s.
  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return seen_.size() >= count; });
  }
  std::vector<std::pair<ProcessId, std::string>> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<ProcessId, std::string>> seen_;
};

struct Process {
  explicit Process(int number) : id(process_number(number)), watcher(Watcher::make(losses.callback())) {}
  ProcessId id;
  Losses losses;
  std::unique_ptr<Watcher> watcher;
};

LivenessConnection connection_to(const ProcessId& process, UniqueFd fd) {
  LivenessConnection connection;
  connection.process = process;
  connection.rank = 0;
  connection.fd = std::move(fd);
  return connection;
}

void add(Watcher& watcher, const ProcessId& process, UniqueFd fd) {
  std::vector<LivenessConnection> connections;
  connections.push_back(connection_to(process, std::move(fd)));
  watcher.add(std::move(connections));
}

void connect(Process& a, Process& b) {
  auto ends = make_connection_pair();
  ASSERT_TRUE(ends.is_ok());
  add(*a.watcher, b.id, std::move(ends->first));
  add(*b.watcher, a.id, std::move(ends->second));
}

/// A connection from `watched` to a process that this test plays by hand.
UniqueFd connect_by_hand(Process& watched, const ProcessId& played) {
  auto ends = make_connection_pair();
  EXPECT_TRUE(ends.is_ok());
  add(*watched.watcher, played, std::move(ends->first));
  return std::move(ends->second);
}

void say(const UniqueFd& fd, const std::string& bytes) {
  ASSERT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

/// For more than a socket buffer holds.
bool send_whole(const UniqueFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd entry{fd.get(), POLLOUT, 0};
    if (poll(&entry, 1, 10'000) != 1) return false;
    const ssize_t sent = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// The next message of the other side's watcher; 10 s at most.
std::optional<WatcherMessage> hear(const UniqueFd& fd, WatcherMessageReader& reader) {
  WatcherMessage message;
  while (!reader.next(message)) {
    pollfd entry{fd.get(), POLLIN, 0};
    char buffer[512];
    if (poll(&entry, 1, 10'000) != 1) return std::nullopt;
    const ssize_t got = recv(fd.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return std::nullopt;
    reader.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
  }
  return message;
}

TEST(Watcher, a_closed_connection_is_a_loss_reported_once) {
  Process a(1);
  UniqueFd peer = connect_by_hand(a, process_number(9));
  EXPECT_FALSE(a.watcher->is_lost(process_number(9)));
  peer.reset();
  ASSERT_TRUE(a.losses.wait_for(1));
  EXPECT_TRUE(a.watcher->is_lost(process_number(9)));
  a.watcher->stop();
  ASSERT_EQ(a.losses.seen().size(), 1u);
  EXPECT_EQ(a.losses.seen()[0].first, process_number(9));
  // The watcher's own hello lay unread in the closed end: Linux reports that as a reset.
  EXPECT_EQ(a.losses.seen()[0].second.substr(0, 10), "connection");
}

TEST(Watcher, a_goodbye_is_no_loss) {
  Process a(1), b(2), c(3);
  connect(a, b);
  connect(a, c);
  b.watcher->stop();
  // c's death comes after b's goodbye: once it is reported, b's end has been seen and judged.
  UniqueFd hand = connect_by_hand(a, process_number(9));
  hand.reset();
  ASSERT_TRUE(a.losses.wait_for(1));
  c.watcher->stop();
  a.watcher->stop();
  ASSERT_EQ(a.losses.seen().size(), 1u);
  EXPECT_EQ(a.losses.seen()[0].first, process_number(9));
  EXPECT_TRUE(b.losses.seen().empty());
}

TEST(Watcher, a_loss_travels_along_a_chain) {
  Process a(1), b(2), c(3), d(4);
  connect(a, b);
  connect(b, c);
  connect(c, d);
  UniqueFd victim = connect_by_hand(a, process_number(9));
  victim.reset();
  for (Process* process : {&a, &b, &c, &d}) {
    ASSERT_TRUE(process->losses.wait_for(1));
    EXPECT_EQ(process->losses.seen()[0].first, process_number(9));
    EXPECT_TRUE(process->watcher->is_lost(process_number(9)));
  }
}

TEST(Watcher, reports_do_not_circle) {
  std::vector<std::unique_ptr<Process>> all;
  for (int i = 0; i < 6; ++i) all.push_back(std::make_unique<Process>(i));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j) connect(*all[i], *all[j]);
  UniqueFd first = connect_by_hand(*all[0], process_number(8)), second = connect_by_hand(*all[5], process_number(9));
  first.reset();
  second.reset();
  for (auto& process : all) ASSERT_TRUE(process->losses.wait_for(2));
  for (auto& process : all) process->watcher->stop();
  for (auto& process : all) EXPECT_EQ(process->losses.seen().size(), 2u);
}

TEST(Watcher, a_late_connection_is_told_of_earlier_losses) {
  Process a(1), b(2);
  UniqueFd victim = connect_by_hand(a, process_number(9));
  victim.reset();
  ASSERT_TRUE(a.losses.wait_for(1));
  connect(a, b);
  ASSERT_TRUE(b.losses.wait_for(1));
  EXPECT_EQ(b.losses.seen()[0].first, process_number(9));
}

TEST(Watcher, a_lost_process_stays_lost) {
  Process a(1);
  UniqueFd victim = connect_by_hand(a, process_number(9));
  victim.reset();
  ASSERT_TRUE(a.losses.wait_for(1));
  const int before = open_files();
  UniqueFd again = connect_by_hand(a, process_number(9));
  EXPECT_EQ(open_files(), before + 1);  // the watcher has closed its end
  EXPECT_TRUE(a.watcher->is_lost(process_number(9)));
  again.reset();
  a.watcher->stop();
  EXPECT_EQ(a.losses.seen().size(), 1u);
}

TEST(Watcher, surplus_connections_close_and_the_last_one_still_tells) {
  // By hand, so that both orders of the tie-break are seen: the smaller watcher number closes.
  Process a(1);
  WatcherMessageReader first_reader, second_reader;
  UniqueFd first = connect_by_hand(a, process_number(9)), second = connect_by_hand(a, process_number(9));
  const auto hello = hear(first, first_reader);
  ASSERT_TRUE(hello && hello->type == WatcherMessage::Type::hello);
  ASSERT_TRUE(hear(second, second_reader).has_value());
  say(first, encode_hello(hello->watcher + 1));
  say(second, encode_hello(hello->watcher + 1));
  const auto surplus = hear(second, second_reader);
  ASSERT_TRUE(surplus && surplus->type == WatcherMessage::Type::surplus);
  EXPECT_FALSE(hear(second, second_reader).has_value());  // the end
  second.reset();
  first.reset();
  ASSERT_TRUE(a.losses.wait_for(1));
  EXPECT_EQ(a.losses.seen()[0].first, process_number(9));
}

TEST(Watcher, the_larger_number_leaves_surplus_connections_to_the_other_side) {
  Process a(1);
  WatcherMessageReader reader, second_reader;
  UniqueFd first = connect_by_hand(a, process_number(9)), second = connect_by_hand(a, process_number(9));
  ASSERT_TRUE(hear(first, reader).has_value());
  ASSERT_TRUE(hear(second, second_reader).has_value());
  say(first, encode_hello(1));
  say(second, encode_hello(1) + encode_surplus());
  EXPECT_FALSE(hear(second, second_reader).has_value());  // closed in answer
  EXPECT_FALSE(a.watcher->is_lost(process_number(9)));
  first.reset();
  ASSERT_TRUE(a.losses.wait_for(1));
}

TEST(Watcher, one_of_two_connections_ending_is_no_loss) {
  Process a(1), b(2);
  UniqueFd first = connect_by_hand(a, process_number(9)), second = connect_by_hand(a, process_number(9));
  second.reset();
  UniqueFd other = connect_by_hand(a, process_number(8));
  other.reset();  // reported after the end of `second` was judged, or in the same round
  ASSERT_TRUE(a.losses.wait_for(1));
  EXPECT_EQ(a.losses.seen()[0].first, process_number(8));
  EXPECT_FALSE(a.watcher->is_lost(process_number(9)));
  first.reset();
  ASSERT_TRUE(a.losses.wait_for(2));
  EXPECT_EQ(a.losses.seen()[1].first, process_number(9));
}

TEST(Watcher, two_watchers_agree_on_which_connection_to_keep) {
  const int before = open_files();
  Process a(1), b(2);
  constexpr int kPairs = 20;
  std::vector<UniqueFd> late;
  for (int i = 0; i < kPairs; ++i) {
    auto ends = make_connection_pair();
    ASSERT_TRUE(ends.is_ok());
    add(*a.watcher, b.id, std::move(ends->first));
    late.push_back(std::move(ends->second));
  }
  while (!late.empty()) {  // in the opposite order on the other side
    add(*b.watcher, a.id, std::move(late.back()));
    late.pop_back();
  }
  const int one_connection = before + 2 + 2;  // and each watcher's eventfd
  const std::uint64_t limit = clock_ns() + 10 * kSecond;
  while (open_files() > one_connection && clock_ns() < limit) std::this_thread::yield();
  EXPECT_EQ(open_files(), one_connection);
  b.watcher->stop();
  a.watcher->stop();
  EXPECT_TRUE(a.losses.seen().empty());
  EXPECT_TRUE(b.losses.seen().empty());
  EXPECT_EQ(open_files(), before);
}

TEST(Watcher, bytes_that_are_no_messages_end_the_connection_with_a_reason) {
  Process a(1);
  const UniqueFd peer = connect_by_hand(a, process_number(9));
  say(peer, "GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(a.losses.wait_for(1));
  EXPECT_EQ(a.losses.seen()[0].second, "sent bytes that are no watcher's");
}

TEST(Watcher, oversized_and_short_messages_are_refused) {
  for (const std::string& bad : {std::string("TUTW\x04\x00\xff\xff", 8), std::string("TUTW\x04\x00\x02\x00zz", 10),
                                 std::string("TUTW\x01\x00\x00\x00", 8), std::string("TUTW\x02\x00\x01\x00z", 9)}) {
    Process a(1);
    const UniqueFd peer = connect_by_hand(a, process_number(9));
    say(peer, bad);
    ASSERT_TRUE(a.losses.wait_for(1));
    EXPECT_EQ(a.losses.seen()[0].second, "sent bytes that are no watcher's");
  }
}

TEST(Watcher, unknown_message_types_are_skipped_and_split_messages_joined) {
  Process a(1);
  const UniqueFd peer = connect_by_hand(a, process_number(9));
  const std::string bytes = std::string("TUTW\x63\x00\x03\x00new", 11) + encode_lost(process_number(8), "reason");
  for (const char byte : bytes) say(peer, std::string(1, byte));
  ASSERT_TRUE(a.losses.wait_for(1));
  EXPECT_EQ(a.losses.seen()[0].first, process_number(8));
  EXPECT_EQ(a.losses.seen()[0].second, "reason");
}

TEST(Watcher, a_flood_of_reports_is_survived_and_deduplicated) {
  Process a(1), b(2);
  connect(a, b);
  UniqueFd peer = connect_by_hand(a, process_number(9));
  std::thread flood([&] {
    for (int i = 0; i < 20'000; ++i) {
      const std::string report = encode_lost(process_number(100 + i % 50), std::string(500, 'x'));
      ASSERT_TRUE(send_whole(peer, report));
    }
    peer.reset();
  });
  flood.join();
  ASSERT_TRUE(a.losses.wait_for(51));
  ASSERT_TRUE(b.losses.wait_for(51));
  a.watcher->stop();
  b.watcher->stop();
  EXPECT_EQ(a.losses.seen().size(), 51u);
  EXPECT_EQ(b.losses.seen().size(), 51u);
}

TEST(Watcher, stop_can_be_repeated_and_the_watcher_used_again) {
  const int before = open_files();
  {
    Process a(1), b(2);
    for (int life = 0; life < 200; ++life) {
      connect(a, b);
      (life % 2 == 0 ? a : b).watcher->stop();
      (life % 2 == 0 ? b : a).watcher->stop();
      a.watcher->stop();
      EXPECT_EQ(open_files(), before);
    }
    EXPECT_TRUE(a.losses.seen().empty());
    EXPECT_TRUE(b.losses.seen().empty());
    connect(a, b);
    UniqueFd peer = connect_by_hand(a, process_number(9));
    peer.reset();
    ASSERT_TRUE(b.losses.wait_for(1));
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Watcher, adding_from_many_threads_and_from_the_callback_works) {
  Process hub(1);
  std::vector<std::unique_ptr<Process>> others;
  for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<Process>(10 + i));
  std::vector<std::thread> threads;
  for (auto& other : others) {
    threads.emplace_back([&hub, &other] { connect(hub, *other); });
  }
  for (std::thread& thread : threads) thread.join();
  UniqueFd peer = connect_by_hand(hub, process_number(9));
  peer.reset();
  for (auto& other : others) ASSERT_TRUE(other->losses.wait_for(1));
  // A callback may ask and add.
  std::unique_ptr<Watcher> watcher;
  Losses nested;
  Watcher::OnLost report = nested.callback();
  watcher = Watcher::make([&](const ProcessId& process, const std::string& text) {
    EXPECT_TRUE(watcher->is_lost(process));
    if (process == process_number(9)) {
      auto ends = make_connection_pair();
      ASSERT_TRUE(ends.is_ok());
      add(*watcher, process_number(10), std::move(ends->first));
    }
    report(process, text);
  });
  auto ends = make_connection_pair();
  ASSERT_TRUE(ends.is_ok());
  add(*watcher, process_number(9), std::move(ends->first));
  ends->second.reset();
  ASSERT_TRUE(nested.wait_for(2));
  EXPECT_EQ(nested.seen()[1].first, process_number(10));
  watcher->stop();
}

}  // namespace
}  // namespace tutti::core::test
