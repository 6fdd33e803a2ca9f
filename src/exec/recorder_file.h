// SPDX-License-Identifier: Apache-2.0
// What the writing and the reading side of the flight recorder share: the file's first page, where files lie, and
// whether a process is alive. Internal to src/exec/recorder*.cc and their tests.
//
//   page 0: RecorderFileHeader | RecorderSlot 0 | RecorderSlot 1 | ... (as many as the process ever had at once)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/exec/recorder.h"

namespace tutti::core {

constexpr std::uint64_t kRecorderMagic = 0x3143455249545554;  // "TUTIREC1", little endian
constexpr std::uint32_t kRecorderVersion = 2;
/// More communicators than this at once are recorded in plain memory: 1024 slots are 44 MiB of file.
constexpr std::uint64_t kMostRecorderSlots = 1024;

struct alignas(4096) RecorderFileHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t slot_bytes;
  std::uint32_t records_per_slot;
  std::int32_t pid;
  std::uint32_t uses_tsc;       ///< 1: ticks are the time-stamp counter's; 0: nanoseconds of CLOCK_MONOTONIC
  std::uint64_t process_start;  ///< field 22 of /proc/PID/stat: tells a process from a later one of the same pid
  double ns_per_tick;           ///< as calibrated at start, to about 200 ppm
  std::uint64_t start_ticks;    ///< the three clocks at one instant
  std::int64_t start_monotonic_ns;
  std::int64_t start_realtime_ns;
  char host[64];
  char job[64];
};
static_assert(sizeof(RecorderFileHeader) == 4096);

/// Folders to look into, in search order: `run_dir` if not empty, then those of this user and machine.
std::vector<std::string> recorder_folders(const std::string& run_dir);
bool is_recorder_name(const std::string& name);
/// Field 22 of /proc/PID/stat; nullopt if there is no such process, or only its zombie.
std::optional<std::uint64_t> process_start_time(std::int32_t pid);

}  // namespace tutti::core
