// SPDX-License-Identifier: Apache-2.0
#include "src/exec/recorder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_map>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/base/unique_fd.h"
#include "src/exec/recorder_file.h"

namespace tutti::core {
namespace {

constexpr std::int64_t kStaleNs = std::int64_t{7} * 24 * 3600 * 1'000'000'000;
constexpr std::int64_t kDeadBytesLimit = std::int64_t{64} << 20;
constexpr std::uint64_t kReserveBytes = sizeof(RecorderFileHeader) + kMostRecorderSlots * sizeof(RecorderSlot);

struct Folder {
  UniqueFd fd;
  std::string path;
  bool tmpfs = false;
};

bool is_tmpfs(const struct statfs& info) { return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC; }
bool is_tmpfs(const std::string& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 && is_tmpfs(info);
}
bool is_tmpfs(int fd) {
  struct statfs info {};
  return fstatfs(fd, &info) == 0 && is_tmpfs(info);
}

/// Opens the folder, made if missing (the last component only). Refused unless it is ours and nobody else may write in
/// it: in a shared place like /dev/shm another user could have put a folder or a link there first.
Result<Folder> open_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Status::from_errno(errno, "recorder: making folder " + path);
  Folder folder{UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)), path};
  struct stat info {};
  if (!folder.fd || fstat(folder.fd.get(), &info) != 0)
    return Status::from_errno(errno, "recorder: opening folder " + path);
  if (info.st_uid != geteuid() || (info.st_mode & 0022) != 0)
    return Status::error(TUTTI_UNAVAILABLE, text_format("recorder: folder %s belongs to user %u and has mode %04o",
                                                        path.c_str(), info.st_uid, info.st_mode & 07777U))
        .with_remedy("it must be this user's and writable by nobody else");
  folder.tmpfs = is_tmpfs(folder.fd.get());
  return folder;
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// A folder that the user named is used wherever it lies; of the others the first on a tmpfs, else the first at all.
std::optional<Folder> choose_folder(const std::string& run_dir) {
  if (!run_dir.empty()) {
    auto folder = open_folder(run_dir);
    if (folder.is_ok()) return std::move(folder).value();
    TUTTI_LOG(warn, -1, "recorder does not use TUTTI_RUN_DIR", {"reason", folder.status().to_string()});
  }
  for (const bool want_tmpfs : {true, false}) {
    for (const std::string& path : recorder_folders("")) {
      // Asked of the parent, so that no folder is made where it will not be used.
      if (is_tmpfs(parent_of(path)) != want_tmpfs) continue;
      auto folder = open_folder(path);
      if (folder.is_ok()) return std::move(folder).value();
      TUTTI_LOG(debug, -1, "recorder folder not usable", {"reason", folder.status().to_string()});
    }
  }
  return std::nullopt;
}

struct DeadFile {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;
};

/// Ticks of the last thing recorded, as wall time; 0 if the file says nothing. Stores through a mapping do not move a
/// file's modification time on tmpfs, so a job that ran for a month and was killed just now looks a month old.
std::int64_t last_activity_ns(const std::string& path) {
  const auto snapshot = read_recorder(path);
  if (!snapshot.is_ok()) return 0;
  const RecorderSnapshot& read = snapshot.value();
  std::uint64_t last = read.start_ticks;
  for (const auto& slot : read.slots)
    for (const std::span<const Record> ring : {std::span<const Record>(slot->records), {slot->transfers}})
      for (const Record& record : ring)
        if (record.sequence.load(std::memory_order_relaxed) != 0)
          last = std::max({last, record.issued, record.started, record.done.load(std::memory_order_relaxed)});
  const double ns = static_cast<double>(last - read.start_ticks) / read.ticks_per_ns;
  return static_cast<std::int64_t>(read.start_realtime_ns) + static_cast<std::int64_t>(std::min(ns, 9e18 / 4));
}

bool is_dead(int folder, const std::string& name) {
  const UniqueFd file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return false;
  RecorderFileHeader header;
  const ssize_t got = pread(file.get(), static_cast<void*>(&header), sizeof(header), 0);
  if (got < 0) return false;
  if (got != static_cast<ssize_t>(sizeof(header)) || header.magic != kRecorderMagic) return true;  // nobody can read it
  return process_start_time(header.pid) != std::optional(header.process_start);
}

std::vector<DeadFile> find_dead_files(const Folder& folder) {
  std::vector<DeadFile> found;
  DIR* const directory = opendir(folder.path.c_str());
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    struct stat info {};
    if (!is_recorder_name(name) || fstatat(folder.fd.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || !is_dead(folder.fd.get(), name)) continue;
    found.push_back({name, info.st_size, info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec});
  }
  closedir(directory);
  return found;
}

/// Recorders of dead jobs are kept for 7 days and up to 64 MB in all; those of live ones always.
void remove_stale(const Folder& folder) {
  std::vector<DeadFile> files = find_dead_files(folder);
  std::sort(files.begin(), files.end(),
            [](const DeadFile& a, const DeadFile& b) { return a.modified_ns > b.modified_ns; });
  const std::int64_t now = wall_ns();
  std::int64_t newer_bytes = 0;  // of this file and all newer ones
  for (const DeadFile& file : files) {
    const bool old =
        now - file.modified_ns > kStaleNs && now - last_activity_ns(folder.path + "/" + file.name) > kStaleNs;
    newer_bytes += file.bytes;
    if (!old && newer_bytes <= kDeadBytesLimit) continue;
    // Another process may be doing the same: gone is fine.
    if (unlinkat(folder.fd.get(), file.name.c_str(), 0) == 0)
      TUTTI_LOG(info, -1, "removed a stale recorder", {"file", folder.path + "/" + file.name});
  }
}

void copy_text(char* destination, std::size_t capacity, const std::string& text) {
  std::memset(destination, 0, capacity);
  std::memcpy(destination, text.data(), std::min(text.size(), capacity - 1));
}

std::string file_name(const std::string& job_id_hex) {
  std::string job = job_id_hex.substr(0, 8);
  for (char& c : job)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';  // it is part of a path
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random)))
    random = tick_clock().now();  // only has to differ from earlier files of the same pid; O_EXCL says if not
  return text_format("%s-%d-%016llx.rec", job.empty() ? "nojob" : job.c_str(), getpid(),
                     static_cast<unsigned long long>(random));
}

void fill_header(RecorderFileHeader& header, const std::string& job_id_hex) {
  const TickClock& clock = tick_clock();
  const ClockSample start = clock.sample();
  header.version = kRecorderVersion;
  header.header_bytes = sizeof(RecorderFileHeader);
  header.slot_bytes = sizeof(RecorderSlot);
  header.records_per_slot = kRecordsPerCommunicator;
  header.pid = getpid();
  header.process_start = process_start_time(header.pid).value_or(0);
  header.uses_tsc = clock.uses_tsc() ? 1 : 0;
  header.ns_per_tick = clock.ns_per_tick();
  header.start_ticks = start.ticks;
  header.start_monotonic_ns = start.ns;
  header.start_realtime_ns = wall_ns();
  char host[sizeof(header.host)] = {};
  gethostname(host, sizeof(host) - 1);
  copy_text(header.host, sizeof(header.host), host);
  copy_text(header.job, sizeof(header.job), job_id_hex);
  // Last: a reader that sees the magic sees the rest.
  std::atomic_ref(header.magic).store(kRecorderMagic, std::memory_order_release);
}

/// Grows a file so that every page of it exists: a store into a page that a full tmpfs cannot give is SIGBUS.
bool grow_file(int fd, std::uint64_t from, std::uint64_t to) {
  return posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(to - from)) == 0;
}

class ProcessRecorder final : public Recorder {
 public:
  ProcessRecorder() = default;
  ~ProcessRecorder() override {
    if (base_ != nullptr) munmap(base_, kReserveBytes);
  }

  Status open_file(Folder folder, const std::string& job_id_hex) {
    const std::string name = file_name(job_id_hex);
    UniqueFd file(openat(folder.fd.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const std::string path = folder.path + "/" + name;
    if (!file) return Status::from_errno(errno, "recorder: making " + path);
    const auto give_up = [&](int error) {
      unlinkat(folder.fd.get(), name.c_str(), 0);
      return Status::from_errno(error, "recorder: " + path);
    };
    if (!grow_file(file.get(), 0, sizeof(RecorderFileHeader))) return give_up(ENOSPC);
    void* const base = mmap(nullptr, kReserveBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (base == MAP_FAILED) return give_up(errno);
    base_ = static_cast<std::byte*>(base);
    fill_header(*reinterpret_cast<RecorderFileHeader*>(base_), job_id_hex);
    folder_ = std::move(folder.fd);
    file_ = std::move(file);
    name_ = name;
    path_ = path;
    return {};
  }

  RecorderSlot* acquire(std::uint64_t communicator_id, const std::string& name, int rank, int ranks) override {
    const std::lock_guard lock(mutex_);
    RecorderSlot* const slot = find_slot();
    const std::atomic_ref state(slot->state);
    state.store(0, std::memory_order_relaxed);
    // The lock makes this the only writer; a reader may look on and copes (recorder_reader.cc).
    std::memset(static_cast<void*>(slot), 0, sizeof(RecorderSlot));
    slot->communicator_id = communicator_id;
    slot->rank = rank;
    slot->ranks = ranks;
    copy_text(slot->name, sizeof(slot->name), name);
    state.store(1, std::memory_order_release);
    return slot;
  }

  void release(RecorderSlot* slot) override {
    const std::lock_guard lock(mutex_);
    if (const auto own = in_memory_.find(slot); own != in_memory_.end()) {
      in_memory_.erase(own);
      return;
    }
    const auto* const place = reinterpret_cast<const std::byte*>(slot);
    TUTTI_CHECK(base_ != nullptr && place >= base_ && place < base_ + kReserveBytes);
    TUTTI_CHECK(std::find(free_.begin(), free_.end(), slot) == free_.end());
    const std::atomic_ref state(slot->state);
    if (state.load(std::memory_order_relaxed) == 1)
      state.store(2, std::memory_order_release);  // a failed one stays failed
    free_.push_back(slot);
  }

  void remove() override {
    const std::lock_guard lock(mutex_);
    // A forked child that exits cleanly must not take its parent's file along.
    if (!file_ || getpid() != pid_) return;
    unlinkat(folder_.get(), name_.c_str(), 0);
    file_.reset();
    path_.clear();
  }

  const std::string& path() const override { return path_; }

 private:
  RecorderSlot* find_slot() {
    // The one released longest ago: the others stay readable for a while.
    if (!free_.empty()) {
      RecorderSlot* const slot = free_.front();
      free_.pop_front();
      return slot;
    }
    if (file_ && slots_ < kMostRecorderSlots) {
      const std::uint64_t start = sizeof(RecorderFileHeader) + slots_ * sizeof(RecorderSlot);
      if (grow_file(file_.get(), start, start + sizeof(RecorderSlot))) {
        ++slots_;
        return reinterpret_cast<RecorderSlot*>(base_ + start);
      }
      if (!warned_full_)
        TUTTI_LOG(warn, -1, "recorder file cannot grow; further communicators are not recorded", {"file", path_});
      warned_full_ = true;
    }
    auto slot = std::make_unique<RecorderSlot>();
    RecorderSlot* const place = slot.get();
    in_memory_.emplace(place, std::move(slot));
    return place;
  }

  const pid_t pid_ = getpid();
  std::mutex mutex_;
  UniqueFd folder_, file_;
  std::string name_, path_;
  std::byte* base_ = nullptr;
  std::uint64_t slots_ = 0;  // in the file
  std::deque<RecorderSlot*> free_;
  std::unordered_map<RecorderSlot*, std::unique_ptr<RecorderSlot>> in_memory_;
  bool warned_full_ = false;
};

}  // namespace

std::unique_ptr<Recorder> Recorder::make(const std::string& run_dir, const std::string& job_id_hex) {
  auto recorder = std::make_unique<ProcessRecorder>();
  std::optional<Folder> folder = choose_folder(run_dir);
  if (!folder) {
    TUTTI_LOG(warn, -1, "no folder for the flight recorder: `tutti top` will not see this process",
              {"remedy", "set TUTTI_RUN_DIR to a folder of this user on a tmpfs"});
    return recorder;
  }
  if (!folder->tmpfs)
    TUTTI_LOG(warn, -1, "the flight recorder lies on a disk: writing it back may slow operations down",
              {"folder", folder->path}, {"remedy", "set TUTTI_RUN_DIR to a folder on a tmpfs"});
  remove_stale(*folder);
  if (const Status opened = recorder->open_file(std::move(*folder), job_id_hex); !opened.is_ok())
    TUTTI_LOG(warn, -1, "the flight recorder stays in memory: `tutti top` will not see this process",
              {"reason", opened.to_string()});
  return recorder;
}

}  // namespace tutti::core
