// SPDX-License-Identifier: Apache-2.0
// The flight recorder: what every communicator of this process did last, in a file on tmpfs that outlives a killed
// process. Always on; one record is a handful of plain stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"

namespace tutti::core {

constexpr int kRecordsPerCommunicator = 256;
constexpr int kTransfersPerCommunicator = 64;

/// One operation. Times are ticks of the recorder's clock (file header: ticks -> ns); 0: not yet. Written by its rank
/// only; a reader copies, then checks that `sequence` did not change.
struct alignas(128) Record {
  std::atomic<std::uint64_t> sequence;  ///< operation number + 1, stored last (release) at begin; 0: empty
  std::uint64_t fingerprint;
  std::uint64_t count;
  std::uint64_t tag;
  std::uint64_t bytes;
  std::uint64_t issued, started, first_byte, last_peer_time;
  std::atomic<std::uint64_t> done;
  std::uint8_t what, type, op, lanes;                     ///< tutti_collective, tutti_dtype, tutti_op
  std::int32_t peer;                                      ///< root or peer; -1
  std::int32_t last_peer;                                 ///< rank that came last; -1
  std::int32_t code;                                      ///< tutti_code once done
  char row[24];                                           ///< algorithm, 0-terminated if shorter
  std::uint32_t input_registration, output_registration;  ///< 0: not registered
};
static_assert(sizeof(Record) == 128);

/// The slot of one communicator: header and rings of records. Collective n is in records[n % kRecordsPerCommunicator];
/// sends and receives are numbered by themselves, n is in transfers[n % kTransfersPerCommunicator].
struct alignas(4096) RecorderSlot {
  std::uint64_t communicator_id;
  std::int32_t rank, ranks;
  std::uint32_t epoch;
  std::uint32_t state;  ///< 0 free, 1 live, 2 destroyed, 3 failed
  char name[64];
  char error[512];                        ///< first error's text
  std::atomic<std::uint64_t> waiting_on;  ///< rank + 1 that the current operation waits for; 0: none
  std::atomic<std::uint64_t> position;    ///< step of the current operation
  alignas(4096) Record records[kRecordsPerCommunicator];
  Record transfers[kTransfersPerCommunicator];
};
static_assert(sizeof(RecorderSlot) == 4096 + 128 * (kRecordsPerCommunicator + kTransfersPerCommunicator));

/// Per process. Thread-safe.
class Recorder {
 public:
  /// Creates the process's file under the first tmpfs of `run_dir` (the knob; empty: skip), $XDG_RUNTIME_DIR/tutti,
  /// /run/tutti, /dev/shm/tutti-UID (mode 0700; anything but tmpfs: a warning). Removes stale files (older than 7 days,
  /// or the oldest above 64 MB in all). If no folder is usable: a recorder in plain memory and one warning, never a
  /// failure of the job.
  static std::unique_ptr<Recorder> make(const std::string& run_dir, const std::string& job_id_hex);
  virtual ~Recorder() = default;
  /// Zeroed and touched; state 1. Stable address until release.
  virtual RecorderSlot* acquire(std::uint64_t communicator_id, const std::string& name, int rank, int ranks) = 0;
  virtual void release(RecorderSlot* slot) = 0;
  /// Removes the file: a clean exit leaves nothing. A process whose communicator failed keeps it for `tutti report`.
  virtual void remove() = 0;
  virtual const std::string& path() const = 0;  ///< empty: in memory only
};

/// Reading side (tutti top, report): a snapshot of one recorder file, live or dead. Every field is checked: the file
/// may be of another version, truncated or garbage.
struct RecorderSnapshot {
  std::string path, host, job;
  std::int32_t pid = 0;
  bool alive = false;  ///< a process of that pid with that start time exists
  double ticks_per_ns = 1.0;
  std::uint64_t start_ticks = 0, start_realtime_ns = 0;
  std::vector<std::unique_ptr<RecorderSlot>> slots;
};
Result<RecorderSnapshot> read_recorder(const std::string& path);
/// Files of the run folders, in search order.
std::vector<std::string> list_recorders(const std::string& run_dir);

}  // namespace tutti::core
