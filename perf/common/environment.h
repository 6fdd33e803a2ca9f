// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "perf/common/traffic.h"

namespace tutti::perf {

/// What the launcher and the NCCL_TESTS_* variables say. The only place of the programs that reads the environment.
struct Environment {
  bool launched = false;  // TUTTI_UNIQUE_ID, RANK and WORLD_SIZE are set
  int process = 0, processes = 1;
  int local_process = 0, local_processes = 1;  // on this machine
  int first_device = -1;                       // NCCL_TESTS_DEVICE
  std::optional<double> minimum_bandwidth;     // NCCL_TESTS_MIN_BW, GB/s
  std::string split;                           // NCCL_TESTS_SPLIT_MASK as "&0x..", else NCCL_TESTS_SPLIT
  TrafficSettings traffic;                     // NCCL_TESTS_ALLTOALLV_*
  std::string error;                           // not empty: a variable is wrong, and how
};

Environment read_environment();

/// Group of process `process` under `split`: "AND 0x3", "&3", "OR 1", "|1", "MOD 2", "%2", "DIV 2", "/2"; "" gives 0.
/// Nothing if the text means nothing.
std::optional<int> group_of(const std::string& split, int process);

/// Keeps the calling thread on the index-th CPU that it may use, counted round and round.
void bind_thread(int index);

/// "AMD EPYC 9B14": model name of /proc/cpuinfo, else "CPU".
std::string processor_name();
/// Bytes that can be used without swapping (MemAvailable), 0 if unknown; and the resident bytes of this process.
uint64_t available_memory();
uint64_t resident_memory();

}  // namespace tutti::perf
