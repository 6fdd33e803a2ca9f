// SPDX-License-Identifier: Apache-2.0
#include "src/comm/watcher.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "src/base/log.h"
#include "src/comm/watcher_message.h"

namespace tutti::core {

namespace {

// What a peer that does not read may cost: it misses the loss reports beyond this, nothing else.
constexpr std::size_t kMaxOutboxBytes = 64 * 1024;
// Losses remembered; and how many of the latest are told to a new connection, whose process may have missed them.
constexpr std::size_t kMaxLost = 1 << 16;
constexpr std::size_t kMaxRetold = 256;
constexpr std::size_t kReadBytes = 4096;
constexpr int kMaxReads = 16;

/// Open descriptors in memory that a forked child can walk without a lock. Grows, never shrinks.
class ForkRegistry {
 public:
  ForkRegistry() {
    for (auto& entry : entries_) entry.store(-1, std::memory_order_relaxed);
  }
  ForkRegistry(const ForkRegistry&) = delete;
  ForkRegistry& operator=(const ForkRegistry&) = delete;
  ~ForkRegistry() { delete next_.load(std::memory_order_relaxed); }

  // Callers hold the watcher's mutex. release: pairs with acquire in close_all(), which fork() orders anyway.
  void add(int fd) {
    for (auto& entry : entries_) {
      if (entry.load(std::memory_order_relaxed) >= 0) continue;
      entry.store(fd, std::memory_order_release);
      return;
    }
    if (next_.load(std::memory_order_relaxed) == nullptr) next_.store(new ForkRegistry, std::memory_order_release);
    next_.load(std::memory_order_relaxed)->add(fd);
  }
  void remove(int fd) {
    for (ForkRegistry* block = this; block != nullptr; block = block->next_.load(std::memory_order_relaxed))
      for (auto& entry : block->entries_)
        if (entry.load(std::memory_order_relaxed) == fd) return entry.store(-1, std::memory_order_release);
  }
  void close_all() {
    for (ForkRegistry* block = this; block != nullptr; block = block->next_.load(std::memory_order_acquire))
      for (auto& entry : block->entries_)
        if (const int fd = entry.exchange(-1, std::memory_order_acquire); fd >= 0) ::close(fd);
  }

 private:
  std::atomic<int> entries_[64];
  std::atomic<ForkRegistry*> next_{nullptr};
};

struct Connection {
  int fd = -1;
  ProcessId process{};
  WatcherMessageReader reader;
  std::string outbox;
  std::uint64_t peer_watcher = 0;  // from its hello; 0: not heard yet
  bool said_goodbye = false;       // the peer
  bool surplus = false;            // we have called it surplus: its end is no loss
  bool ended = false;              // to be closed at the end of this round
};

struct Loss {
  ProcessId process{};
  std::string text;
};

class WatcherThread {
 public:
  explicit WatcherThread(Watcher::OnLost on_lost);
  void add(std::vector<LivenessConnection> connections);
  bool is_lost(const ProcessId& process) const;
  void stop();
  ForkRegistry& registry() { return registry_; }

 private:
  // Everything but run() needs mutex_.
  bool start_thread();
  void run();
  void wake() const;
  void serve(Connection& connection, short revents, std::uint64_t id);
  void take_message(Connection& connection, std::uint64_t id, const WatcherMessage& message);
  void connection_ended(Connection& connection, std::uint64_t id, const char* how);
  void note_lost(const ProcessId& process, const std::string& text, std::uint64_t source);
  void trim(const ProcessId& process);
  void send(Connection& connection, const std::string& bytes);
  void flush(Connection& connection);
  void sweep();
  void close_connection(Connection& connection);

  const Watcher::OnLost on_lost_;
  std::uint64_t self_ = 0;  // random: breaks the tie over who closes surplus connections
  ForkRegistry registry_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::thread> thread_;
  bool stopping_ = false;
  int wake_fd_ = -1;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t last_id_ = 0;
  std::set<ProcessId> lost_;
  std::deque<Loss> latest_;      // kMaxRetold of lost_
  std::vector<Loss> to_report_;  // this round's, for on_lost_ once the mutex is free
};

WatcherThread::WatcherThread(Watcher::OnLost on_lost) : on_lost_(std::move(on_lost)), self_(random_watcher_id()) {}

bool WatcherThread::start_thread() {
  if (thread_ != nullptr || stopping_) return thread_ != nullptr;
  if (wake_fd_ < 0) {
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) {
      TUTTI_LOG(error, -1, "cannot watch for dead peers: no eventfd (ulimit -n?)", {"errno", errno});
      return false;
    }
    registry_.add(wake_fd_);
  }
  // The host application's signal handlers run on its own threads, never here.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  } catch (const std::system_error& error) {
    TUTTI_LOG(error, -1, "cannot watch for dead peers: no thread", {"reason", error.what()});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_ != nullptr;
}

void WatcherThread::wake() const {
  const std::uint64_t one = 1;
  // Can fail only when the counter is full, and then the thread wakes up anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void WatcherThread::add(std::vector<LivenessConnection> connections) {
  const std::lock_guard lock(mutex_);
  for (LivenessConnection& fresh : connections) {
    if (!fresh.fd || lost_.count(fresh.process) != 0) continue;  // closes with `connections`
    Connection& connection = connections_[++last_id_];
    connection.fd = fresh.fd.release();
    connection.process = fresh.process;
    registry_.add(connection.fd);
    send(connection, encode_hello(self_));
    for (const Loss& loss : latest_) send(connection, encode_lost(loss.process, loss.text));
  }
  if (!connections_.empty() && start_thread()) wake();
}

bool WatcherThread::is_lost(const ProcessId& process) const {
  const std::lock_guard lock(mutex_);
  return lost_.count(process) != 0;
}

void WatcherThread::stop() {
  std::unique_ptr<std::thread> thread;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, connection] : connections_) send(connection, encode_goodbye());
    if (stopping_) return;
    stopping_ = true;
    thread = std::move(thread_);
    if (thread) wake();
  }
  if (thread) {
    TUTTI_CHECK(thread->get_id() != std::this_thread::get_id());  // on_lost must not stop its watcher
    thread->join();
  }
  const std::lock_guard lock(mutex_);
  for (auto& [id, connection] : connections_) {
    send(connection, encode_goodbye());  // once more: some may have been added meanwhile
    close_connection(connection);
  }
  connections_.clear();
  if (wake_fd_ >= 0) {
    registry_.remove(wake_fd_);
    ::close(std::exchange(wake_fd_, -1));
  }
  stopping_ = false;
}

void WatcherThread::run() {
  pthread_setname_np(pthread_self(), "tutti-watcher");
  std::vector<pollfd> entries;
  std::vector<std::uint64_t> ids;
  while (true) {
    entries.clear();
    ids.clear();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      entries.push_back({wake_fd_, POLLIN, 0});
      for (const auto& [id, connection] : connections_) {
        entries.push_back(
            {connection.fd, static_cast<short>(connection.outbox.empty() ? POLLIN : POLLIN | POLLOUT), 0});
        ids.push_back(id);
      }
    }
    // No timeout: a death, a message and stop() all end the sleep.
    if (::ppoll(entries.data(), entries.size(), nullptr, nullptr) < 0 && errno != EINTR) {
      TUTTI_LOG(error, -1, "no longer watching for dead peers: ppoll", {"errno", errno});
      return;
    }
    std::vector<Loss> losses;
    {
      const std::lock_guard lock(mutex_);
      std::uint64_t count;
      if (entries.front().revents != 0)
        while (::read(wake_fd_, &count, sizeof count) > 0) continue;
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (entries[i + 1].revents != 0) serve(connections_.at(ids[i]), entries[i + 1].revents, ids[i]);
      sweep();
      losses = std::exchange(to_report_, {});
    }
    for (const Loss& loss : losses) on_lost_(loss.process, loss.text);
  }
}

void WatcherThread::serve(Connection& connection, short revents, std::uint64_t id) {
  if ((revents & POLLOUT) != 0) flush(connection);
  // Bounded, so that a peer that never stops talking cannot keep the mutex; poll comes back to the rest.
  for (int reads = 0; reads < kMaxReads && !connection.ended; ++reads) {
    char buffer[kReadBytes];
    const ssize_t got = ::recv(connection.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return connection_ended(connection, id, got == 0 ? "connection closed" : "connection reset");
    connection.reader.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
    WatcherMessage message;
    while (!connection.ended && connection.reader.next(message)) take_message(connection, id, message);
    if (connection.reader.malformed()) return connection_ended(connection, id, "sent bytes that are no watcher's");
  }
}

void WatcherThread::take_message(Connection& connection, std::uint64_t id, const WatcherMessage& message) {
  switch (message.type) {
    case WatcherMessage::Type::hello: connection.peer_watcher = message.watcher; return trim(connection.process);
    case WatcherMessage::Type::goodbye: connection.said_goodbye = true; return;
    case WatcherMessage::Type::surplus: connection.ended = true; return;
    case WatcherMessage::Type::lost: return note_lost(message.process, message.text, id);
  }
}

void WatcherThread::connection_ended(Connection& connection, std::uint64_t id, const char* how) {
  connection.ended = true;
  if (connection.said_goodbye || connection.surplus) return;
  // A death ends all connections to a process; one alone is a communicator that failed while it was made.
  for (const auto& [other_id, other] : connections_)
    if (other.process == connection.process && !other.ended && !other.surplus) return;
  note_lost(connection.process, how, id);
}

// Tells every other connection once; since a process repeats no loss it already knows, reports cannot go in circles.
void WatcherThread::note_lost(const ProcessId& process, const std::string& text, std::uint64_t source) {
  if (lost_.size() >= kMaxLost || !lost_.insert(process).second) return;
  to_report_.push_back({process, text});
  latest_.push_back({process, text});
  if (latest_.size() > kMaxRetold) latest_.pop_front();
  const std::string report = encode_lost(process, text);
  for (auto& [id, connection] : connections_) {
    if (connection.ended) continue;
    if (connection.process == process) {
      // If it lives after all, it shall not take our turning away for our death and spread that.
      send(connection, encode_goodbye());
      connection.ended = true;
    } else if (id != source) {
      send(connection, report);
    }
  }
}

// Two communicators of the same processes bring two connections: one is enough. Only the side with the smaller watcher
// number closes surplus ones, so the two sides never choose differently.
void WatcherThread::trim(const ProcessId& process) {
  Connection* kept = nullptr;
  for (auto& [id, connection] : connections_) {
    if (connection.process != process || connection.ended || connection.said_goodbye || connection.surplus) continue;
    if (connection.peer_watcher == 0 || connection.peer_watcher <= self_) continue;
    if (kept == nullptr || kept->peer_watcher != connection.peer_watcher) {
      kept = &connection;
      continue;
    }
    send(connection, encode_surplus());
    connection.surplus = true;
    connection.ended = connection.outbox.empty();  // else the peer, having read it, closes
  }
}

void WatcherThread::send(Connection& connection, const std::string& bytes) {
  if (connection.outbox.size() + bytes.size() > kMaxOutboxBytes) return;
  connection.outbox += bytes;
  flush(connection);
}

void WatcherThread::flush(Connection& connection) {
  while (!connection.outbox.empty()) {
    const ssize_t sent =
        ::send(connection.fd, connection.outbox.data(), connection.outbox.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // A broken connection is judged by its reading side, which still holds what the peer said last.
    if (sent < 0) return connection.outbox.clear();
    connection.outbox.erase(0, static_cast<std::size_t>(sent));
  }
}

void WatcherThread::sweep() {
  for (auto place = connections_.begin(); place != connections_.end();) {
    if (place->second.ended) {
      close_connection(place->second);
      place = connections_.erase(place);
    } else {
      ++place;
    }
  }
}

void WatcherThread::close_connection(Connection& connection) {
  registry_.remove(connection.fd);
  ::close(std::exchange(connection.fd, -1));
}

/// What callers hold. In a forked child there is no watcher thread, and whoever held the mutex does not exist either:
/// the real watcher is then left as it is, even by the destructor; only its descriptors close.
class WatcherHandle final : public Watcher {
 public:
  explicit WatcherHandle(OnLost on_lost) : watcher_(new WatcherThread(std::move(on_lost))) {}
  ~WatcherHandle() override {
    if (forgotten()) return;
    watcher_->stop();
    delete watcher_;
  }
  void add(std::vector<LivenessConnection> connections) override {
    if (!forgotten()) watcher_->add(std::move(connections));
  }
  bool is_lost(const ProcessId& process) const override { return !forgotten() && watcher_->is_lost(process); }
  void stop() override {
    if (!forgotten()) watcher_->stop();
  }
  void forget_after_fork() override {
    forgotten_.store(true, std::memory_order_relaxed);
    watcher_->registry().close_all();
  }

 private:
  bool forgotten() const { return forgotten_.load(std::memory_order_relaxed); }

  WatcherThread* const watcher_;
  std::atomic<bool> forgotten_{false};  // set in a child of one thread: no pairing
};

}  // namespace

std::unique_ptr<Watcher> Watcher::make(OnLost on_lost) { return std::make_unique<WatcherHandle>(std::move(on_lost)); }

}  // namespace tutti::core
