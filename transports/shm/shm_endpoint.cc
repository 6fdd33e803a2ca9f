// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/shm_endpoint.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/base/unique_fd.h"
#include "transports/shm/arena.h"

namespace tutti::core {
namespace {

using shm::Arena;
using shm::ArenaHeader;
using shm::Id16;
using shm::kExtentBytes;
using shm::Mapping;

/// What address().bytes holds, byte for byte. Both sides run on one machine: native byte order.
struct AddressBytes {
  char magic[4] = {'T', 'S', 'H', 'M'};
  std::uint32_t version = shm::kArenaVersion;
  Id16 boot{};
  Id16 process{};
};
static_assert(sizeof(AddressBytes) == 40);

Result<AddressBytes> parse_address(std::string_view bytes) {
  AddressBytes address;
  if (bytes.size() != sizeof(address))
    return Status::error(TUTTI_INVALID_ARGUMENT, "shm: a peer's address has " + std::to_string(bytes.size()) +
                                                     " bytes, not " + std::to_string(sizeof(address)));
  std::memcpy(&address, bytes.data(), sizeof(address));
  if (std::memcmp(address.magic, AddressBytes{}.magic, sizeof(address.magic)) != 0)
    return Status::error(TUTTI_INVALID_ARGUMENT, "shm: a peer's address is not one of shared memory");
  if (address.version != shm::kArenaVersion)
    return Status::error(TUTTI_UNSUPPORTED, "shm: a peer speaks version " + std::to_string(address.version) +
                                                " of shared memory, this process version " +
                                                std::to_string(shm::kArenaVersion))
        .with_remedy("run the same Tutti in all processes");
  return address;
}

Result<Id16> random_id() {
  Id16 id{};
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
    return Status::from_errno(errno, "shm: getrandom");
  return id;
}

/// The kernel's name for this boot: equal in all containers of one machine, different after a reboot.
Result<Id16> boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  const UniqueFd file(open(kPath, O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  const ssize_t length = file ? read(file.get(), text, sizeof(text) - 1) : -1;
  if (length < 0) return Status::from_errno(errno, std::string("shm: reading ") + kPath).with_remedy("mount /proc");
  Id16 id{};
  std::size_t digits = 0;
  for (const char* c = text; *c != '\0' && *c != '\n' && digits < 32; ++c) {
    if (*c == '-') continue;
    const char lower = static_cast<char>(*c | 0x20);
    const bool is_digit = *c >= '0' && *c <= '9';
    if (!is_digit && (lower < 'a' || lower > 'f')) break;
    const int value = is_digit ? *c - '0' : lower - 'a' + 10;
    id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 32)
    return Status::error(TUTTI_UNAVAILABLE, std::string("shm: ") + kPath + " holds no id: \"" + text + "\"");
  return id;
}

/// Everything that could crash us later is checked before the map: without the shrink seal a load could be SIGBUS.
Result<Mapping> map_peer(int fd, const AddressBytes& address) {
  const auto refuse = [](const std::string& why) {
    return Status::error(TUTTI_INVALID_ARGUMENT, "shm: the descriptor that came with a peer's address " + why)
        .with_remedy("descriptors and addresses must travel together; is another program in between?");
  };
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return refuse("is not a memfd");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return refuse("is not a memfd");
  if ((seals & F_SEAL_SHRINK) == 0) return refuse("is not sealed against shrinking");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < kExtentBytes || size % kExtentBytes != 0)
    return refuse("has " + std::to_string(size) + " bytes, no multiple of 2 MiB");
  ArenaHeader header;
  if (pread(fd, static_cast<void*>(&header), sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)))
    return refuse("cannot be read");
  if (header.magic != shm::kArenaMagic) return refuse("holds no arena (wrong magic)");
  if (header.version != address.version || header.header_bytes != sizeof(ArenaHeader))
    return refuse("holds an arena of version " + std::to_string(header.version));
  if (header.process != address.process || header.boot != address.boot) return refuse("is another process's arena");
  if (header.reserve % kExtentBytes != 0 || header.reserve < size || header.reserve > shm::kMostReserveBytes)
    return refuse("claims a reserve of " + std::to_string(header.reserve) + " bytes");
  return shm::map_reserve(fd, header.reserve);
}

class ShmLink final : public Link {
 public:
  /// To this process itself: no mapping of its own.
  explicit ShmLink(std::shared_ptr<Arena> local)
      : local_(std::move(local)), view_{local_->base(), local_->base(), local_->reserve()} {}
  ShmLink(std::shared_ptr<Arena> local, Mapping remote)
      : local_(std::move(local)), remote_(std::move(remote)), view_{local_->base(), remote_.base(), remote_.bytes()} {}

  LinkState state() const override {
    return failed_.load(std::memory_order_acquire) ? LinkState::failed : LinkState::ready;
  }
  Status status() const override {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  const MappedView* mapped() const override { return &view_; }
  Status post_send(int, std::uint64_t, const void*, std::size_t) override { return no_messages(); }
  Status post_recv(int, std::uint64_t, void*, std::size_t) override { return no_messages(); }
  /// The memory stays mapped: a peer may still store into ours, and readers may be half way through its.
  void abort(Status reason) override {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;  // first reason wins
    reason_ = reason.is_ok() ? Status::error(TUTTI_ABORTED, "shm: the link was aborted") : std::move(reason);
    failed_.store(true, std::memory_order_release);  // pairs with acquire in state()
  }

 private:
  static Status no_messages() {
    return Status::error(TUTTI_UNSUPPORTED, "shm: this transport carries no messages; use its mapped view");
  }

  const std::shared_ptr<Arena> local_;
  const Mapping remote_;
  const MappedView view_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  Status reason_;
};

class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(std::shared_ptr<Arena> arena, const AddressBytes& self) : arena_(std::move(arena)), self_(self) {}

  std::string_view name() const override { return "shm"; }
  Capabilities capabilities() const override { return {.mapped = true, .messages = false}; }

  PeerAddress address() const override {
    return {std::string(reinterpret_cast<const char*>(&self_), sizeof(self_)), {arena_->fd()}};
  }

  bool reaches(std::string_view address_bytes) const override {
    auto address = parse_address(address_bytes);
    return address.is_ok() && address->boot == self_.boot;
  }

  Result<std::shared_ptr<Link>> connect(PeerAddress peer) override {
    const OwnedDescriptors owned(std::move(peer.descriptors), arena_->fd());
    TUTTI_TRY(address, parse_address(peer.bytes));
    if (address.boot != self_.boot)
      return Status::error(TUTTI_UNSUPPORTED, "shm: the peer runs on another machine (another boot id)")
          .with_remedy("use a network transport between machines");
    const std::lock_guard lock(mutex_);
    if (const auto known = links_.find(address.process); known != links_.end()) {
      const std::shared_ptr<Link> link = known->second.lock();
      if (link && link->state() != LinkState::failed) return link;
    }
    TUTTI_TRY(link, make_link(address, owned.values));
    links_[address.process] = link;
    forget_expired();
    return link;
  }

  Status poll(std::vector<Completion>&) override { return {}; }  // nothing is ever in flight
  Result<SharedBlock> allocate(std::size_t bytes) override { return arena_->allocate(bytes); }
  void release(const SharedBlock& block) override { arena_->release(block); }

 private:
  /// Closes what came with an address, whatever happens. Ours is left open: someone connected to address() itself.
  struct OwnedDescriptors {
    OwnedDescriptors(std::vector<int> descriptors, int own) : values(std::move(descriptors)), own_fd(own) {}
    OwnedDescriptors(const OwnedDescriptors&) = delete;
    OwnedDescriptors& operator=(const OwnedDescriptors&) = delete;
    ~OwnedDescriptors() {
      for (const int fd : values)
        if (fd >= 0 && fd != own_fd) close(fd);
    }
    const std::vector<int> values;
    const int own_fd;
  };

  Result<std::shared_ptr<Link>> make_link(const AddressBytes& address, const std::vector<int>& descriptors) {
    if (address.process == self_.process) return std::shared_ptr<Link>(std::make_shared<ShmLink>(arena_));
    if (descriptors.size() != 1)
      return Status::error(TUTTI_INVALID_ARGUMENT, "shm: a peer's address came with " +
                                                       std::to_string(descriptors.size()) + " descriptors, not 1")
          .with_remedy("hand over PeerAddress::descriptors with its bytes (SCM_RIGHTS)");
    TUTTI_TRY(mapping, map_peer(descriptors[0], address));
    return std::shared_ptr<Link>(std::make_shared<ShmLink>(arena_, std::move(mapping)));
  }

  void forget_expired() {
    for (auto entry = links_.begin(); entry != links_.end();)
      entry = entry->second.expired() ? links_.erase(entry) : std::next(entry);
  }

  const std::shared_ptr<Arena> arena_;
  const AddressBytes self_;
  std::mutex mutex_;
  std::map<Id16, std::weak_ptr<Link>> links_;
};

}  // namespace

Result<std::unique_ptr<Endpoint>> make_shm_endpoint() {
  AddressBytes self;
  TUTTI_TRY(boot, boot_id());
  TUTTI_TRY(process, random_id());
  self.boot = boot;
  self.process = process;
  TUTTI_TRY(arena, Arena::make(process, boot));
  return std::unique_ptr<Endpoint>(std::make_unique<ShmEndpoint>(std::move(arena), self));
}

}  // namespace tutti::core
