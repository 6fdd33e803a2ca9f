// SPDX-License-Identifier: Apache-2.0
// What the flight recorders of this machine say, put together per job and communicator. Pure: snapshots in, views out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/exec/recorder.h"

namespace tutti::core {

/// Times are CLOCK_REALTIME nanoseconds; 0: not yet.
struct OperationView {
  std::uint64_t number = 0;
  std::string text;  // "all_reduce f32 x 1024 sum"
  std::string row;
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;
  int lanes = 0;
  int last_peer = -1;  // the rank that came last
  int code = 0;        // tutti_code, once done
  std::int64_t issued_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t done_ns = 0;
};

enum class SlotState : std::uint8_t { live = 1, destroyed = 2, failed = 3 };

struct RankView {
  int rank = 0;
  int pid = 0;
  bool is_alive = false;
  SlotState state = SlotState::live;
  std::string host;
  std::string error;                     // the communicator's first
  std::optional<OperationView> last;     // finished
  std::optional<OperationView> current;  // the oldest that is not finished
  int queued = 0;                        // unfinished ones behind it
  int waiting_on = -1;                   // rank; -1: none
  std::uint64_t position = 0;            // step of the current operation
};

struct CommunicatorView {
  std::uint64_t id = 0;
  std::string name;
  int rank_count = 0;
  std::uint32_t epoch = 0;
  std::vector<RankView> ranks;        // by rank
  std::vector<int> missing;           // ranks without a recorder here
  std::vector<std::string> findings;  // who is dead, what failed, who waits for whom
};

struct JobView {
  std::string id;  // hexadecimal
  int processes = 0;
  int alive = 0;
  std::int64_t last_activity_ns = 0;
  std::vector<CommunicatorView> communicators;  // by name
  std::vector<std::string> paths;               // recorder files
};

/// Jobs with living processes first, then the most recently active. `now_ns`: CLOCK_REALTIME.
std::vector<JobView> view_jobs(const std::vector<RecorderSnapshot>& snapshots, std::int64_t now_ns);

/// "since 3.2 s", for text and findings: "1.2 ms", "3.2 s", "2 h 05 min".
std::string elapsed_text(std::int64_t ns);

}  // namespace tutti::core
