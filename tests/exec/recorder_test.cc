// SPDX-License-Identifier: Apache-2.0
#include "src/exec/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/exec/recorder_file.h"

namespace tutti::core {
namespace {

namespace fs = std::filesystem;

/// A folder of its own on tmpfs per test.
class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/dev/shm/tutti-recorder-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Recorder> make() { return Recorder::make(folder_, "0123456789abcdef0123456789abcdef"); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  std::string write_file(const std::string& name, const std::string& content) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
};

/// As a rank writes it: fields, then `sequence`.
void write_record(RecorderSlot& slot, std::uint64_t number) {
  Record& record = slot.records[number % kRecordsPerCommunicator];
  record.fingerprint = mix64(number);
  record.count = number;
  record.bytes = number * 4;
  record.tag = number ^ 0x5555;
  record.issued = record.started = tick_clock().now();
  record.done.store(0, std::memory_order_relaxed);
  record.what = TUTTI_ALL_REDUCE;
  record.type = TUTTI_FLOAT32;
  record.op = TUTTI_SUM;
  record.lanes = 2;
  record.peer = record.last_peer = -1;
  record.code = TUTTI_OK;
  std::strncpy(record.row, "ring", sizeof(record.row));
  record.sequence.store(number + 1, std::memory_order_release);
}

/// A process that makes a recorder in `folder`, writes `records` and waits to be killed. Returns once it has written.
pid_t start_recording_child(const std::string& folder, int records) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ready[0]);
    const auto recorder = Recorder::make(folder, "feedfacefeedface");
    RecorderSlot* const slot = recorder->acquire(42, "dp", 1, 4);
    for (int i = 0; i < records; ++i) write_record(*slot, static_cast<std::uint64_t>(i));
    const bool told = write(ready[1], "x", 1) == 1;
    if (!told) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  return child;
}

void kill_and_reap(pid_t child) {
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(RecorderTest, what_is_written_is_read_back) {
  const auto recorder = make();
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(recorder->path(), folder_ + "/" + files()[0]);
  EXPECT_EQ(files()[0].substr(0, 9 + std::to_string(getpid()).size()), "01234567-" + std::to_string(getpid()));
  struct stat info {};
  ASSERT_EQ(stat(recorder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);

  RecorderSlot* const slot = recorder->acquire(77, "tensor parallel", 3, 8);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->state, 1U);
  write_record(*slot, 0);
  write_record(*slot, 1);
  slot->waiting_on.store(6, std::memory_order_relaxed);
  const auto snapshot = read_recorder(recorder->path());
  ASSERT_TRUE(snapshot.is_ok()) << snapshot.status().to_string();
  const RecorderSnapshot& read = snapshot.value();
  EXPECT_EQ(read.job, "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(read.pid, getpid());
  EXPECT_TRUE(read.alive);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  EXPECT_EQ(read.host, std::string(host).substr(0, 63));
  ASSERT_EQ(read.slots.size(), 1U);
  const RecorderSlot& copy = *read.slots[0];
  EXPECT_EQ(copy.communicator_id, 77U);
  EXPECT_EQ(copy.rank, 3);
  EXPECT_EQ(copy.ranks, 8);
  EXPECT_STREQ(copy.name, "tensor parallel");
  EXPECT_EQ(copy.waiting_on.load(), 6U);
  EXPECT_EQ(copy.records[0].sequence.load(), 1U);
  EXPECT_EQ(copy.records[1].sequence.load(), 2U);
  EXPECT_EQ(copy.records[1].fingerprint, mix64(1));
  EXPECT_EQ(copy.records[2].sequence.load(), 0U);
  EXPECT_STREQ(copy.records[1].row, "ring");
}

TEST_F(RecorderTest, ticks_convert_to_wall_time) {
  const auto recorder = make();
  const auto snapshot = read_recorder(recorder->path());
  ASSERT_TRUE(snapshot.is_ok());
  const std::uint64_t ticks = tick_clock().now() - snapshot.value().start_ticks;
  const double since_start = static_cast<double>(ticks) / snapshot.value().ticks_per_ns;
  const double by_wall = static_cast<double>(wall_ns()) - static_cast<double>(snapshot.value().start_realtime_ns);
  EXPECT_NEAR(since_start, by_wall, 20e6 + by_wall * 0.01);
}

TEST_F(RecorderTest, remove_leaves_nothing) {
  const auto recorder = make();
  RecorderSlot* const slot = recorder->acquire(1, "a", 0, 1);
  recorder->remove();
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(recorder->path(), "");
  write_record(*slot, 0);  // late writers still have their memory
  recorder->release(slot);
  EXPECT_NE(recorder->acquire(2, "b", 0, 1), nullptr);
}

TEST_F(RecorderTest, a_forked_child_does_not_take_the_file_along) {
  const auto recorder = make();
  const pid_t child = fork();
  if (child == 0) {
    recorder->remove();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(RecorderTest, slots_are_reused_zeroed_and_the_file_stays_as_large_as_its_peak) {
  const auto recorder = make();
  std::vector<RecorderSlot*> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(recorder->acquire(static_cast<std::uint64_t>(i), "c", 0, 1));
  const auto peak = fs::file_size(recorder->path());
  EXPECT_EQ(peak, 4096 + 5 * sizeof(RecorderSlot));
  for (int round = 0; round < 50; ++round) {
    for (RecorderSlot* slot : slots) {
      write_record(*slot, 5);
      std::strncpy(slot->error, "old", sizeof(slot->error));
      recorder->release(slot);
    }
    for (RecorderSlot*& slot : slots) {
      slot = recorder->acquire(9, "again", 0, 1);
      ASSERT_EQ(slot->records[5].sequence.load(), 0U);
      ASSERT_EQ(slot->records[5].bytes, 0U);
      ASSERT_STREQ(slot->error, "");
    }
  }
  EXPECT_EQ(fs::file_size(recorder->path()), peak);
}

TEST_F(RecorderTest, a_released_slot_stays_readable_as_destroyed_a_failed_one_as_failed) {
  const auto recorder = make();
  RecorderSlot* const good = recorder->acquire(1, "good", 0, 2);
  RecorderSlot* const bad = recorder->acquire(2, "bad", 0, 2);
  bad->state = 3;
  recorder->release(good);
  recorder->release(bad);
  const auto snapshot = read_recorder(recorder->path());
  ASSERT_TRUE(snapshot.is_ok());
  ASSERT_EQ(snapshot.value().slots.size(), 2U);
  EXPECT_EQ(snapshot.value().slots[0]->state, 2U);
  EXPECT_EQ(snapshot.value().slots[1]->state, 3U);
}

TEST_F(RecorderTest, records_of_any_operator_are_read_others_are_not) {
  const auto recorder = make();
  RecorderSlot& slot = *recorder->acquire(1, "ops", 0, 2);
  for (std::uint64_t n = 0; n < 256; ++n) {
    write_record(slot, n);
    slot.records[n].op = static_cast<std::uint8_t>(n);
  }
  const auto snapshot = read_recorder(recorder->path());
  ASSERT_TRUE(snapshot.is_ok());
  for (std::uint64_t n = 1; n < 256; ++n)  // the place of #256, where #0 was, counts as being written
    EXPECT_EQ(snapshot.value().slots[0]->records[n].sequence.load() != 0, n < TUTTI_OP_COUNT || n == TUTTI_PRE_MUL_SUM)
        << n;
}

TEST_F(RecorderTest, more_communicators_than_the_file_holds_are_kept_in_memory) {
  const auto recorder = make();
  std::vector<RecorderSlot*> slots;
  for (std::uint64_t i = 0; i < kMostRecorderSlots + 3; ++i) slots.push_back(recorder->acquire(i, "many", 0, 1));
  for (RecorderSlot* slot : slots) ASSERT_EQ(slot->state, 1U);
  EXPECT_EQ(fs::file_size(recorder->path()), 4096 + kMostRecorderSlots * sizeof(RecorderSlot));
  for (RecorderSlot* slot : slots) recorder->release(slot);
}

TEST_F(RecorderTest, outlives_a_killed_process) {
  const pid_t child = start_recording_child(folder_, 300);
  const auto paths = list_recorders(folder_);
  ASSERT_FALSE(paths.empty());
  ASSERT_EQ(paths[0].substr(0, folder_.size()), folder_);
  const auto live = read_recorder(paths[0]);
  ASSERT_TRUE(live.is_ok());
  EXPECT_TRUE(live.value().alive);
  kill_and_reap(child);
  const auto dead = read_recorder(paths[0]);
  ASSERT_TRUE(dead.is_ok());
  EXPECT_FALSE(dead.value().alive);
  EXPECT_EQ(dead.value().pid, child);
  ASSERT_EQ(dead.value().slots.size(), 1U);
  const RecorderSlot& slot = *dead.value().slots[0];
  EXPECT_EQ(slot.records[299 % kRecordsPerCommunicator].sequence.load(), 300U);
  // 44..299 are in the ring; the place of 300, where 44 was, counts as being written.
  EXPECT_EQ(slot.records[44].sequence.load(), 0U);
  EXPECT_EQ(slot.records[45].sequence.load(), 46U);
}

TEST_F(RecorderTest, a_zombie_is_not_alive) {
  const pid_t child = start_recording_child(folder_, 1);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);  // dead, not reaped
  const auto snapshot = read_recorder(list_recorders(folder_)[0]);
  ASSERT_TRUE(snapshot.is_ok());
  EXPECT_FALSE(snapshot.value().alive);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
}

TEST_F(RecorderTest, a_reader_beside_the_writer_sees_whole_records_only) {
  const auto recorder = make();
  RecorderSlot* const slot = recorder->acquire(1, "busy", 0, 2);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> written{0};
  std::thread writer([&] {
    for (std::uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
      write_record(*slot, n);
      written.store(n + 1, std::memory_order_relaxed);
    }
  });
  std::uint64_t seen = 0;
  // Until the ring has wrapped many times and there was enough to look at. On a machine with few free cores the writer
  // may need seconds for it.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int round = 0; round < 200 || seen == 0 || written.load(std::memory_order_relaxed) < 20000; ++round) {
    if (std::chrono::steady_clock::now() > give_up) break;
    const auto snapshot = read_recorder(recorder->path());
    if (!snapshot.is_ok() || snapshot.value().slots.size() != 1) {
      ADD_FAILURE() << snapshot.status().to_string();
      break;
    }
    for (const Record& record : snapshot.value().slots[0]->records) {
      const std::uint64_t sequence = record.sequence.load(std::memory_order_relaxed);
      if (sequence == 0) continue;
      ++seen;
      EXPECT_EQ(record.fingerprint, mix64(sequence - 1));
      EXPECT_EQ(record.count, sequence - 1);
      EXPECT_EQ(record.bytes, (sequence - 1) * 4);
      EXPECT_EQ(record.tag, (sequence - 1) ^ 0x5555);
    }
    if (::testing::Test::HasFailure()) break;
  }
  stop.store(true);
  writer.join();
  EXPECT_GT(seen, 0U);
}

TEST_F(RecorderTest, dead_recorders_older_than_seven_days_go_younger_and_live_ones_stay) {
  const auto age = [](const std::string& path, std::time_t days) {
    const timespec old[2] = {{::time(nullptr) - days * 24 * 3600, 0}, {::time(nullptr) - days * 24 * 3600, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  };
  const auto live = make();
  age(live->path(), 30);
  // Its file is old, but its last record is of a moment ago.
  kill_and_reap(start_recording_child(folder_, 3));
  std::string recent;
  for (const std::string& name : files())
    if (folder_ + "/" + name != live->path()) recent = folder_ + "/" + name;
  age(recent, 30);
  age(write_file("garbage-old.rec", "not a recorder"), 8);
  age(write_file("garbage-young.rec", "not a recorder"), 6);
  age(write_file("somebody-elses.txt", "keep"), 30);
  const auto next = make();
  const auto names = files();
  const auto has = [&names](const std::string& name) { return std::count(names.begin(), names.end(), name) == 1; };
  EXPECT_EQ(names.size(), 5U);
  EXPECT_FALSE(has("garbage-old.rec"));
  EXPECT_TRUE(has("garbage-young.rec"));
  EXPECT_TRUE(has("somebody-elses.txt"));
  EXPECT_TRUE(fs::exists(live->path()));
  EXPECT_TRUE(fs::exists(recent));
}

TEST_F(RecorderTest, above_64_mb_the_oldest_dead_recorders_go) {
  // The last would fit by its size; but an older file does not outlive a newer one.
  const off_t bytes[] = {30 << 20, 30 << 20, 30 << 20, 1000};
  for (int i = 0; i < 4; ++i) {
    const std::string path = write_file("dead-" + std::to_string(i) + ".rec", "x");
    ASSERT_EQ(truncate(path.c_str(), bytes[i]), 0);  // sparse: costs nothing
    const timespec when[2] = {{::time(nullptr) - i * 60, 0}, {::time(nullptr) - i * 60, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), when, 0), 0);
  }
  const auto recorder = make();
  EXPECT_TRUE(fs::exists(folder_ + "/dead-0.rec"));
  EXPECT_TRUE(fs::exists(folder_ + "/dead-1.rec"));
  EXPECT_FALSE(fs::exists(folder_ + "/dead-2.rec"));
  EXPECT_FALSE(fs::exists(folder_ + "/dead-3.rec"));
}

TEST_F(RecorderTest, a_linked_or_open_folder_is_not_used) {
  const std::string real = folder_ + "/real", link = folder_ + "/link", open_to_all = folder_ + "/open";
  ASSERT_TRUE(fs::create_directory(real));
  fs::create_directory_symlink(real, link);
  ASSERT_EQ(mkdir(open_to_all.c_str(), 0700), 0);
  ASSERT_EQ(chmod(open_to_all.c_str(), 0777), 0);
  for (const std::string& folder : {link, open_to_all}) {
    const auto recorder = Recorder::make(folder, "00");
    EXPECT_NE(recorder->path().substr(0, folder.size()), folder);
    recorder->remove();
  }
  EXPECT_TRUE(fs::is_empty(real));
  EXPECT_TRUE(fs::is_empty(open_to_all));
}

TEST_F(RecorderTest, a_missing_folder_is_made_private) {
  const auto recorder = Recorder::make(folder_ + "/new", "../../evil");
  struct stat info {};
  ASSERT_EQ(stat((folder_ + "/new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  EXPECT_EQ(recorder->path().substr(0, folder_.size() + 5), folder_ + "/new/");
  EXPECT_EQ(fs::path(recorder->path()).parent_path(), folder_ + "/new");
}

TEST_F(RecorderTest, damaged_files_are_refused_or_read_in_part_never_a_crash) {
  const auto recorder = make();
  for (std::uint64_t i = 0; i < 2; ++i) {
    RecorderSlot* const slot = recorder->acquire(i, "slot", 0, 2);
    for (std::uint64_t n = 0; n < 300; ++n) write_record(*slot, n);
  }
  const std::string good = read_file(recorder->path());
  ASSERT_EQ(good.size(), 4096 + 2 * sizeof(RecorderSlot));
  const std::string path = folder_ + "/damaged.rec";
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    if (round % 3 != 0) bytes.resize(random.below(bytes.size() + 1));
    // Damage is denser in the header, where a byte decides more.
    const std::uint64_t flips = round % 3 == 1 ? 0 : 1 + random.below(200);
    for (std::uint64_t i = 0; i < flips && !bytes.empty(); ++i)
      bytes[random.below(i % 2 == 0 ? std::min<std::size_t>(bytes.size(), 256) : bytes.size())] =
          static_cast<char>(random());
    write_file("damaged.rec", bytes);
    const auto snapshot = read_recorder(path);
    if (!snapshot.is_ok()) {
      EXPECT_NE(snapshot.status().message().find("damaged.rec"), std::string::npos);
      continue;
    }
    EXPECT_GE(bytes.size(), 4096U);
    EXPECT_LE(snapshot.value().slots.size(), (bytes.size() - 4096) / sizeof(RecorderSlot));
    for (const auto& slot : snapshot.value().slots) {
      EXPECT_LT(slot->rank, slot->ranks);
      EXPECT_EQ(slot->name[sizeof(slot->name) - 1], '\0');
      for (const Record& record : slot->records) EXPECT_LT(record.what, TUTTI_COLLECTIVE_COUNT);
    }
  }
  std::string noise(50000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  write_file("damaged.rec", noise);
  EXPECT_EQ(read_recorder(path).status().code(), TUTTI_INVALID_ARGUMENT);
}

TEST_F(RecorderTest, other_versions_missing_files_and_strange_files_say_what_they_are) {
  const auto recorder = make();
  std::string bytes = read_file(recorder->path());
  bytes[8] = 9;
  const auto version = read_recorder(write_file("later.rec", bytes));
  ASSERT_FALSE(version.is_ok());
  EXPECT_NE(version.status().message().find("version 9"), std::string::npos);
  EXPECT_FALSE(read_recorder(folder_ + "/missing.rec").is_ok());
  EXPECT_FALSE(read_recorder(folder_).is_ok());
  fs::create_symlink(recorder->path(), folder_ + "/link.rec");
  EXPECT_FALSE(read_recorder(folder_ + "/link.rec").is_ok());
  ASSERT_EQ(mkfifo((folder_ + "/fifo.rec").c_str(), 0600), 0);
  EXPECT_FALSE(read_recorder(folder_ + "/fifo.rec").is_ok());  // and does not wait for a writer
}

TEST_F(RecorderTest, control_characters_do_not_reach_a_terminal) {
  const auto recorder = make();
  RecorderSlot* const slot = recorder->acquire(1, "evil\x1b[31m", 0, 1);
  write_record(*slot, 0);
  slot->records[0].row[0] = '\x07';
  const auto snapshot = read_recorder(recorder->path());
  ASSERT_TRUE(snapshot.is_ok());
  EXPECT_STREQ(snapshot.value().slots.at(0)->name, "evil?[31m");
  EXPECT_EQ(snapshot.value().slots.at(0)->records[0].row[0], '?');
}

TEST_F(RecorderTest, list_is_sorted_and_lists_recorders_only) {
  write_file("b.rec", "");
  write_file("a.rec", "");
  write_file("notes.txt", "");
  const auto paths = list_recorders(folder_);
  ASSERT_GE(paths.size(), 2U);
  EXPECT_EQ(paths[0], folder_ + "/a.rec");
  EXPECT_EQ(paths[1], folder_ + "/b.rec");
  for (const std::string& path : paths) EXPECT_TRUE(is_recorder_name(path)) << path;
}

TEST(ProcessStartTime, own_is_known_and_none_is_null) {
  EXPECT_TRUE(process_start_time(getpid()).has_value());
  EXPECT_EQ(process_start_time(getpid()), process_start_time(getpid()));
  EXPECT_FALSE(process_start_time(-5).has_value());
  EXPECT_FALSE(process_start_time(0x7fffffff).has_value());
}

}  // namespace
}  // namespace tutti::core
