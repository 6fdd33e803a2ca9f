// SPDX-License-Identifier: Apache-2.0
// The reading side of the flight recorder. Nothing in a file is believed: it may be another version's, cut off, or
// garbage. Files are read, not mapped, so that one that shrinks meanwhile is a short read instead of SIGBUS.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/text.h"
#include "src/base/unique_fd.h"
#include "src/exec/recorder.h"
#include "src/exec/recorder_file.h"

namespace tutti::core {
namespace {

/// Bytes up to the end of the file are read; the rest of `into` is left alone.
std::size_t read_at(int fd, void* into, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(fd, static_cast<char*>(into) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

/// Texts end up on terminals: terminated, and no control characters.
void clean_text(char* text, std::size_t capacity) {
  const std::size_t length = strnlen(text, capacity - 1);
  for (std::size_t i = 0; i < length; ++i)
    if (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f) text[i] = '?';
  std::memset(text + length, 0, capacity - length);
}

std::string text_of(const char* text, std::size_t capacity) {
  std::string copy(text, capacity);
  clean_text(copy.data(), capacity);
  return std::string(copy.c_str());
}

Status check_header(const RecorderFileHeader& header, const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    return Status::error(TUTTI_INVALID_ARGUMENT, "recorder file " + path + " " + why);
  };
  if (header.magic != kRecorderMagic) return refuse("is not a flight recorder (wrong magic)");
  if (header.version != kRecorderVersion)
    return refuse("is of version " + std::to_string(header.version) + ", this program reads version " +
                  std::to_string(kRecorderVersion))
        .with_remedy("use the `tutti` of the job that wrote it");
  if (header.header_bytes != sizeof(RecorderFileHeader) || header.slot_bytes != sizeof(RecorderSlot) ||
      header.records_per_slot != kRecordsPerCommunicator)
    return refuse("has another layout");
  if (header.pid <= 0) return refuse("names process " + std::to_string(header.pid));
  if (!std::isfinite(header.ns_per_tick) || header.ns_per_tick < 1e-3 || header.ns_per_tick > 1e6)
    return refuse("has no usable clock rate");
  return {};
}

bool is_plausible(const Record& record, std::size_t index, std::size_t ring) {
  const std::uint64_t sequence = record.sequence.load(std::memory_order_relaxed);
  return sequence != 0 && (sequence - 1) % ring == index && record.what < TUTTI_COLLECTIVE_COUNT &&
         record.type < TUTTI_DTYPE_COUNT && is_operator(static_cast<tutti_op>(record.op)) && record.code >= 0 &&
         record.code <= TUTTI_IN_PROGRESS && record.peer >= -1 && record.last_peer >= -1;
}

bool is_plausible(const RecorderSlot& slot) {
  return slot.state >= 1 && slot.state <= 3 && slot.ranks >= 1 && slot.rank >= 0 && slot.rank < slot.ranks;
}

void drop(Record& record) {
  std::memset(static_cast<void*>(&record), 0, sizeof(record));
  record.sequence.store(0, std::memory_order_relaxed);
}

/// The rank may have been writing while we copied. It writes records in order and `sequence` last. So a record is torn
/// only if its sequence has changed since, or if it was being overwritten and is not published yet; then the record
/// before it was already one lap ahead when we copied, and any later look at it shows that.
void drop_torn_records(std::span<Record> ring, std::span<const Record> later, bool complete, bool live) {
  const std::size_t size = ring.size();
  const auto sequence_now = [&later](std::size_t i) { return later[i].sequence.load(std::memory_order_relaxed); };
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t sequence = ring[i].sequence.load(std::memory_order_relaxed);
    const std::uint64_t before = sequence_now((i + size - 1) % size);
    const bool overwritten = live && before >= sequence + size - 1;
    if (!complete || sequence_now(i) != sequence || overwritten) drop(ring[i]);
  }
}

void drop_torn_records(int fd, std::uint64_t offset, RecorderSlot& slot) {
  const auto later = std::make_unique<RecorderSlot>();
  const bool complete =
      read_at(fd, static_cast<void*>(later.get()), sizeof(RecorderSlot), offset) == sizeof(RecorderSlot);
  drop_torn_records(slot.records, later->records, complete, slot.state == 1);
  drop_torn_records(slot.transfers, later->transfers, complete, slot.state == 1);
  // Handed to another communicator meanwhile: nothing of it is left.
  if (later->communicator_id != slot.communicator_id || later->rank != slot.rank) slot.state = 0;
}

void drop_implausible_records(std::span<Record> ring) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    if (!is_plausible(ring[i], i, ring.size())) {
      drop(ring[i]);
      continue;
    }
    for (char& c : ring[i].row)
      if (c != '\0' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) c = '?';
  }
}

/// Null for a free slot, and for one that makes no sense: being made right now, or damaged.
std::unique_ptr<RecorderSlot> read_slot(int fd, std::uint64_t offset) {
  auto slot = std::make_unique<RecorderSlot>();
  if (read_at(fd, static_cast<void*>(slot.get()), sizeof(RecorderSlot), offset) != sizeof(RecorderSlot)) return nullptr;
  if (!is_plausible(*slot)) return nullptr;
  drop_torn_records(fd, offset, *slot);
  if (slot->state == 0) return nullptr;
  clean_text(slot->name, sizeof(slot->name));
  clean_text(slot->error, sizeof(slot->error));
  drop_implausible_records(slot->records);
  drop_implausible_records(slot->transfers);
  return slot;
}

/// A long life measures the tick far better than the 300 us of calibration at its start; known only on its own machine
/// and in its own boot, that is while the process lives.
double refined_ns_per_tick(const RecorderFileHeader& header) {
  const TickClock& clock = tick_clock();
  if (clock.uses_tsc() != (header.uses_tsc == 1)) return header.ns_per_tick;
  const ClockSample now = clock.sample();
  if (now.ns - header.start_monotonic_ns < 100'000'000 || now.ticks <= header.start_ticks) return header.ns_per_tick;
  const double rate =
      static_cast<double>(now.ns - header.start_monotonic_ns) / static_cast<double>(now.ticks - header.start_ticks);
  return std::abs(rate / header.ns_per_tick - 1) < 0.01 ? rate : header.ns_per_tick;
}

}  // namespace

std::vector<std::string> recorder_folders(const std::string& run_dir) {
  std::vector<std::string> folders;
  if (!run_dir.empty()) folders.push_back(run_dir);
  const auto runtime = environment_value("XDG_RUNTIME_DIR");
  if (runtime && !runtime->empty() && runtime->front() == '/') folders.push_back(*runtime + "/tutti");
  folders.push_back("/run/tutti");
  folders.push_back("/dev/shm/tutti-" + std::to_string(geteuid()));
  return folders;
}

bool is_recorder_name(const std::string& name) {
  constexpr std::string_view kEnding = ".rec";
  return name.size() > kEnding.size() && name.compare(name.size() - kEnding.size(), kEnding.size(), kEnding) == 0;
}

std::optional<std::uint64_t> process_start_time(std::int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[2048] = {};
  if (!file || read_at(file.get(), text, sizeof(text) - 1, 0) == 0) return std::nullopt;
  // "PID (NAME) STATE PPID ...": NAME may hold anything, also ") ". STATE is field 3, the start time field 22.
  const char* rest = std::strrchr(text, ')');
  if (rest == nullptr || rest[1] != ' ') return std::nullopt;
  rest += 2;
  if (*rest == 'Z' || *rest == 'X') return std::nullopt;
  for (int field = 3; field < 22; ++field) {
    rest = std::strchr(rest, ' ');
    if (rest == nullptr) return std::nullopt;
    ++rest;
  }
  return std::strtoull(rest, nullptr, 10);
}

Result<RecorderSnapshot> read_recorder(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return Status::from_errno(errno, "recorder file " + path);
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status::error(TUTTI_INVALID_ARGUMENT, "recorder file " + path + " is not a regular file");
  RecorderFileHeader header{};
  if (read_at(file.get(), &header, sizeof(header), 0) != sizeof(header))
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "recorder file " + path + " is cut off after " + std::to_string(info.st_size) + " bytes");
  TUTTI_TRY(check_header(header, path));

  RecorderSnapshot snapshot;
  snapshot.path = path;
  snapshot.host = text_of(header.host, sizeof(header.host));
  snapshot.job = text_of(header.job, sizeof(header.job));
  snapshot.pid = header.pid;
  snapshot.alive = process_start_time(header.pid) == std::optional(header.process_start);
  snapshot.ticks_per_ns = 1.0 / (snapshot.alive ? refined_ns_per_tick(header) : header.ns_per_tick);
  snapshot.start_ticks = header.start_ticks;
  snapshot.start_realtime_ns = static_cast<std::uint64_t>(header.start_realtime_ns);
  const std::uint64_t whole_slots = (static_cast<std::uint64_t>(info.st_size) - sizeof(header)) / sizeof(RecorderSlot);
  for (std::uint64_t i = 0; i < std::min(whole_slots, kMostRecorderSlots); ++i)
    if (auto slot = read_slot(file.get(), sizeof(header) + i * sizeof(RecorderSlot)))
      snapshot.slots.push_back(std::move(slot));
  return snapshot;
}

std::vector<std::string> list_recorders(const std::string& run_dir) {
  std::vector<std::string> paths;
  for (const std::string& folder : recorder_folders(run_dir)) {
    DIR* const directory = opendir(folder.c_str());
    if (directory == nullptr) continue;
    std::vector<std::string> names;
    while (const dirent* entry = readdir(directory))
      if (is_recorder_name(entry->d_name)) names.push_back(entry->d_name);
    closedir(directory);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      // TUTTI_RUN_DIR may be one of the standard folders.
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  }
  return paths;
}

}  // namespace tutti::core
