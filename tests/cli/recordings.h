// SPDX-License-Identifier: Apache-2.0
// Flight recorders made up for tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "src/base/clock.h"
#include "src/exec/recorder.h"

namespace tutti::core::testing {

constexpr char kJob[] = "0123456789abcdef0123456789abcdef";

struct MadeRecord {
  std::uint64_t number = 0;
  std::uint64_t count = 1024;
  tutti_collective what = TUTTI_ALL_REDUCE;
  bool is_done = true;
  int code = TUTTI_OK;
  int peer = -1;
  tutti_op op = TUTTI_SUM;
  std::int64_t age_ns = 5'000'000'000;  // started so long ago
};

inline void write_record(RecorderSlot& slot, const MadeRecord& made) {
  Record& record = is_point_to_point(made.what) ? slot.transfers[made.number % kTransfersPerCommunicator]
                                                : slot.records[made.number % kRecordsPerCommunicator];
  const TickClock& clock = tick_clock();
  record.count = made.count;
  record.bytes = made.count * 4;
  record.issued = record.started = clock.now() - clock.from_ns(made.age_ns);
  record.done.store(made.is_done ? record.started + clock.from_ns(2'000'000) : 0, std::memory_order_relaxed);
  record.what = static_cast<std::uint8_t>(made.what);
  record.type = TUTTI_FLOAT32;
  record.op = static_cast<std::uint8_t>(made.op);
  record.lanes = 2;
  record.peer = made.peer;
  record.last_peer = -1;
  record.code = made.code;
  std::strncpy(record.row, "ring", sizeof record.row);
  record.sequence.store(made.number + 1, std::memory_order_release);
}

/// A folder on tmpfs for one test.
class RecordingFolder {
 public:
  RecordingFolder() {
    char pattern[] = "/dev/shm/tutti-cli-test-XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    path_ = pattern;
  }
  RecordingFolder(const RecordingFolder&) = delete;
  RecordingFolder& operator=(const RecordingFolder&) = delete;
  ~RecordingFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }

  /// A process records and is killed.
  pid_t add_dead(const std::function<void(Recorder&)>& record) const {
    const pid_t child = fork();
    if (child == 0) {
      const std::unique_ptr<Recorder> recorder = Recorder::make(path_, kJob);
      record(*recorder);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    return child;
  }
  std::unique_ptr<Recorder> add_live() const { return Recorder::make(path_, kJob); }

 private:
  std::string path_;
};

}  // namespace tutti::core::testing
