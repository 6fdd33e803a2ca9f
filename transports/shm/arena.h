// SPDX-License-Identifier: Apache-2.0
// The memory of one process that its peers can map: one sealed memfd that only grows, mapped once, with room to grow in
// place, by its owner and by every peer.
//
//   offset 0          2 MiB              4 MiB ...                  backed            reserve
//   | header | small | small or large   | large (2 MiB aligned)    | no pages: SIGBUS |
//
// Small blocks are packed into 2 MiB extents; an extent whose small blocks are all gone serves large ones again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/shm/range_pool.h"
#include "transports/transport.h"

namespace tutti::core::shm {

using Id16 = std::array<std::uint8_t, 16>;

/// Extents are huge pages of x86-64 and of arm64 with 4 KiB pages.
constexpr std::uint64_t kExtentBytes = std::uint64_t{2} << 20;

/// Address space set aside per process, in its own map and in every peer's: 512 peers take 32 TiB, a quarter of the
/// 128 TiB that a process has. Nothing but addresses is spent on it. Under ThreadSanitizer the map has 1.5 TiB only.
#if defined(__SANITIZE_THREAD__)
#define TUTTI_SHM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TUTTI_SHM_THREAD_SANITIZER 1
#endif
#endif
#if defined(TUTTI_SHM_THREAD_SANITIZER)
constexpr std::uint64_t kReserveBytes = std::uint64_t{8} << 30;
#else
constexpr std::uint64_t kReserveBytes = std::uint64_t{64} << 30;
#endif
/// Where `ulimit -v` leaves less than that, halves are tried down to this.
constexpr std::uint64_t kLeastReserveBytes = std::uint64_t{256} << 20;
/// A header that claims more is malformed.
constexpr std::uint64_t kMostReserveBytes = std::uint64_t{1} << 40;

constexpr std::uint32_t kArenaVersion = 1;
constexpr std::uint64_t kArenaMagic = 0x31616e6572615454;  // "TTarena1", little endian

/// At offset 0 of the memfd: proves to a peer that the descriptor it got is the arena of the process it expects.
struct ArenaHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t header_bytes = 0;
  Id16 process{};
  Id16 boot{};
  std::uint64_t reserve = 0;
  std::atomic<std::uint64_t> backed{0};  ///< release after the file grew
};
static_assert(sizeof(ArenaHeader) == 64);

/// Address space that goes back at destruction.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Maps `reserve` bytes of `fd` (most of them beyond its end), 2 MiB aligned, left out of core files.
Result<Mapping> map_reserve(int fd, std::uint64_t reserve);

/// Thread-safe.
class Arena {
 public:
  static Result<std::unique_ptr<Arena>> make(const Id16& process, const Id16& boot);

  Result<SharedBlock> allocate(std::size_t bytes);
  void release(const SharedBlock& block);

  std::byte* base() const { return mapping_.base(); }
  std::uint64_t reserve() const { return mapping_.bytes(); }
  int fd() const { return fd_.get(); }

 private:
  struct Taken {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dirty_end = 0;  // [offset, dirty_end) was used before
    std::uint64_t fresh = 0;      // [fresh, end) has no pages yet
  };

  Arena(UniqueFd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  Result<Taken> take(std::uint64_t bytes);
  Result<Taken> take_large(std::uint64_t bytes);
  Result<Taken> take_small(std::uint64_t bytes);
  Status grow(std::uint64_t bytes);
  void prepare(std::uint64_t offset, std::uint64_t bytes);
  void note_use(Taken& taken);
  ArenaHeader& header() { return *reinterpret_cast<ArenaHeader*>(base()); }

  UniqueFd fd_;
  Mapping mapping_;
  std::mutex mutex_;  // all below
  std::uint64_t backed_ = 0;
  std::uint64_t clean_from_ = 0;  // never handed out from here on: still zero
  RangePool small_, large_;
  std::unordered_map<std::uint64_t, std::uint64_t> live_;  // offset -> bytes taken
};

}  // namespace tutti::core::shm
