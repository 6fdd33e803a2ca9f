// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

// Newer than Debian 12's headers; the kernel answers EINVAL where it does not know them.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace tutti::core::shm {
namespace {

// Two lines: neighbouring lines are fetched together, so blocks of two writers never share a pair.
constexpr std::uint64_t kBlockAlignment = 128;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Size classes: eight per doubling, so that blocks given back fit the next of nearly the same size; at most 12.5 %
// lost.
std::uint64_t taken_bytes(std::uint64_t bytes) {
  if (bytes >= kExtentBytes) return round_up(bytes, kExtentBytes);
  return round_up(std::max(bytes, std::uint64_t{1}), std::max(kBlockAlignment, std::bit_floor(bytes) / 8));
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<UniqueFd> make_memfd() {
  int fd = memfd_create("tutti-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("tutti-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // before Linux 6.3
  if (fd < 0)
    return Status::from_errno(errno, "shm: memfd_create").with_remedy("raise `ulimit -n`, or allow memfd_create here");
  return UniqueFd(fd);
}

// Growing a file past RLIMIT_FSIZE raises SIGXFSZ, which kills the process: ask first.
Status check_file_limit(std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
    return Status::error(TUTTI_UNAVAILABLE, "shm: shared memory of " + mebibytes(bytes) +
                                                " is above the file size limit of " + mebibytes(limit.rlim_cur))
        .with_remedy("raise `ulimit -f`");
  return {};
}

// More than the machine has would end in the kernel's out-of-memory killer, which explains nothing.
Status check_physical_memory(std::uint64_t bytes) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return {};
  const std::uint64_t physical = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  if (bytes <= physical) return {};
  return Status::error(TUTTI_UNAVAILABLE, "shm: " + mebibytes(bytes) +
                                              " of shared memory in this process, but the machine has " +
                                              mebibytes(physical))
      .with_remedy("release buffers, or ask for smaller ones");
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (base_) munmap(base_, bytes_);
}

Result<Mapping> map_reserve(int fd, std::uint64_t reserve) {
  // An anonymous map with one extent to spare gives an aligned place; the memfd then replaces its aligned part. Only
  // with equal alignment of address and offset can the kernel map a huge page.
  const std::uint64_t loose_bytes = reserve + kExtentBytes;
  void* const loose = mmap(nullptr, loose_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (loose == MAP_FAILED)
    return Status::from_errno(errno, "shm: reserving " + mebibytes(reserve) + " of address space")
        .with_remedy("raise `ulimit -v`");
  std::byte* const start = static_cast<std::byte*>(loose);
  const std::uint64_t skipped = (kExtentBytes - reinterpret_cast<std::uintptr_t>(loose) % kExtentBytes) % kExtentBytes;
  std::byte* const base = start + skipped;
  if (mmap(base, reserve, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(loose, loose_bytes);
    return Status::from_errno(error, "shm: mapping " + mebibytes(reserve)).with_remedy("raise `ulimit -v`");
  }
  if (skipped > 0) munmap(start, skipped);
  munmap(base + reserve, kExtentBytes - skipped);
  // A core file would hold every peer's memory, and writing it would walk the whole reserve.
  madvise(base, reserve, MADV_DONTDUMP);
  return Mapping(base, reserve);
}

Result<std::unique_ptr<Arena>> Arena::make(const Id16& process, const Id16& boot) {
  TUTTI_TRY(fd, make_memfd());
  std::uint64_t reserve = kReserveBytes;
  auto mapping = map_reserve(fd.get(), reserve);
  while (!mapping.is_ok() && reserve > kLeastReserveBytes) {
    reserve /= 2;
    mapping = map_reserve(fd.get(), reserve);
  }
  TUTTI_TRY(mapping);
  std::unique_ptr<Arena> arena(new Arena(std::move(fd), std::move(mapping).value()));
  TUTTI_TRY(arena->grow(kExtentBytes));
  arena->prepare(0, kExtentBytes);
  // Nobody may shrink it: a peer's load beyond the end of a file is SIGBUS. Nobody may seal it further: growing must
  // stay possible.
  if (fcntl(arena->fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return Status::from_errno(errno, "shm: sealing the arena");
  auto* const header = new (arena->base()) ArenaHeader;
  header->magic = kArenaMagic;
  header->version = kArenaVersion;
  header->header_bytes = sizeof(ArenaHeader);
  header->process = process;
  header->boot = boot;
  header->reserve = reserve;
  header->backed.store(arena->backed_, std::memory_order_release);
  arena->clean_from_ = kBlockAlignment;
  arena->small_.give(kBlockAlignment, kExtentBytes - kBlockAlignment);
  return arena;
}

Result<SharedBlock> Arena::allocate(std::size_t bytes) {
  if (bytes > reserve())
    return Status::error(TUTTI_UNAVAILABLE, "shm: a block of " + mebibytes(bytes) +
                                                " is larger than the process's reserve of " + mebibytes(reserve()))
        .with_remedy(reserve() < kReserveBytes ? "raise `ulimit -v`" : "ask for a smaller buffer");
  TUTTI_TRY(taken, take(taken_bytes(bytes)));
  // Outside the lock: the range is ours, and the two below take milliseconds for large blocks.
  if (taken.dirty_end > taken.offset) std::memset(base() + taken.offset, 0, taken.dirty_end - taken.offset);
  const std::uint64_t end = taken.offset + taken.bytes;
  if (taken.fresh < end) prepare(taken.fresh, end - taken.fresh);
  return SharedBlock{taken.offset, base() + taken.offset, bytes};
}

void Arena::release(const SharedBlock& block) {
  const std::lock_guard lock(mutex_);
  const auto live = live_.find(block.offset);
  TUTTI_CHECK(live != live_.end());  // released twice, or never allocated here
  const std::uint64_t bytes = live->second;
  live_.erase(live);
  if (bytes >= kExtentBytes) {
    large_.give(block.offset, bytes);
    return;
  }
  const FreeRange merged = small_.give(block.offset, bytes);
  const std::uint64_t first = round_up(merged.offset, kExtentBytes);
  const std::uint64_t end = (merged.offset + merged.bytes) / kExtentBytes * kExtentBytes;
  if (first >= end) return;
  small_.carve(first, end - first);
  large_.give(first, end - first);
}

Result<Arena::Taken> Arena::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  TUTTI_TRY(taken, bytes >= kExtentBytes ? take_large(bytes) : take_small(bytes));
  live_.emplace(taken.offset, taken.bytes);
  note_use(taken);
  return taken;
}

Result<Arena::Taken> Arena::take_large(std::uint64_t bytes) {
  const std::uint64_t fresh = backed_;
  std::optional<std::uint64_t> offset = large_.take(bytes);
  if (!offset) {
    const std::uint64_t missing = bytes - large_.free_before(backed_);
    TUTTI_TRY(grow(missing));
    large_.give(backed_ - missing, missing);
    // The range at the end is now exactly large enough, and no other was.
    offset = large_.take(bytes);
    TUTTI_CHECK(offset.has_value());
  }
  return Taken{*offset, bytes, 0, std::max(fresh, *offset)};
}

Result<Arena::Taken> Arena::take_small(std::uint64_t bytes) {
  std::optional<std::uint64_t> offset = small_.take(bytes);
  if (!offset) {
    TUTTI_TRY(extent, take_large(kExtentBytes));
    // Under the lock: other threads' small blocks will lie in the same extent.
    if (extent.fresh < extent.offset + kExtentBytes) prepare(extent.offset, kExtentBytes);
    small_.give(extent.offset, kExtentBytes);
    offset = small_.take(bytes);
    TUTTI_CHECK(offset.has_value());
  }
  return Taken{*offset, bytes, 0, *offset + bytes};
}

void Arena::note_use(Taken& taken) {
  const std::uint64_t end = taken.offset + taken.bytes;
  taken.dirty_end = std::min(end, std::max(clean_from_, taken.offset));
  clean_from_ = std::max(clean_from_, end);
}

Status Arena::grow(std::uint64_t bytes) {
  const std::uint64_t wanted = backed_ + bytes;
  if (wanted > reserve())
    return Status::error(TUTTI_UNAVAILABLE, "shm: this process's reserve of " + mebibytes(reserve()) + " is used up (" +
                                                mebibytes(backed_) + " taken, " + mebibytes(bytes) + " more wanted)")
        .with_remedy(reserve() < kReserveBytes ? "raise `ulimit -v`, or release buffers" : "release buffers");
  TUTTI_TRY(check_file_limit(wanted));
  TUTTI_TRY(check_physical_memory(wanted));
  if (ftruncate(fd(), static_cast<off_t>(wanted)) != 0)
    return Status::from_errno(errno, "shm: growing shared memory to " + mebibytes(wanted))
        .with_remedy("free memory, or raise the memory limit of this job");
  const bool first = backed_ == 0;
  backed_ = wanted;
  if (!first) header().backed.store(backed_, std::memory_order_release);  // make() writes the header itself
  return {};
}

// Faults now, in bulk, instead of one by one in the first operation. Touching a byte per extent and collapsing costs
// 0.065 ms per MiB here, populating 4 KiB pages 0.6 ms (AMD EPYC micro-VM, 2026-11-30; under load collapsing was seen
// at 2.4), and a peer's fresh map of huge pages fills without faults to speak of (performance notes, fact 1).
void Arena::prepare(std::uint64_t offset, std::uint64_t bytes) {
  std::byte* const start = base() + offset;
  volatile std::byte* const touched = start;
  for (std::uint64_t i = 0; i < bytes; i += kExtentBytes) touched[i] = std::byte{0};
  if (madvise(start, bytes, MADV_COLLAPSE) == 0) return;
  if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0) return;
  const long page = sysconf(_SC_PAGESIZE);
  const std::uint64_t step = page > 0 ? static_cast<std::uint64_t>(page) : 4096;
  for (std::uint64_t i = 0; i < bytes; i += step) touched[i] = std::byte{0};
}

}  // namespace tutti::core::shm
