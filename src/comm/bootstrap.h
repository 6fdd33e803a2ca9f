// SPDX-License-Identifier: Apache-2.0
// Bringing the ranks of a new communicator together on one machine: rendezvous at rank 0's abstract UNIX socket, proof
// of the job secret, exchange of every rank's introduction, and the liveness connections the watcher keeps afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/transport.h"

namespace tutti::core {

/// The 128 bytes of tutti_unique_id: [0,16) job id, [16,48) secret, rest zero in this version.
using UniqueIdBytes = std::array<unsigned char, 128>;
Result<UniqueIdBytes> make_unique_id();
/// 256 hexadecimal digits, as in TUTTI_UNIQUE_ID. Errors: invalid_argument (length, digit).
Result<UniqueIdBytes> parse_unique_id(std::string_view text);
std::string format_unique_id(const UniqueIdBytes& id);

using ProcessId = std::array<unsigned char, 16>;  ///< random, one per process life

/// What a rank tells all others.
struct Introduction {
  ProcessId process{};
  std::int32_t pid = 0;
  std::uint64_t member_id = 0;  ///< random, never 0
  std::string host;
  std::string agreed;   ///< agreed settings, "key=value\n" lines
  std::string payload;  ///< opaque to the bootstrap (control page offset ...); <= 4 KiB
  PeerAddress address;  ///< the shm endpoint's; descriptors travel once per process, not once per rank
};

struct JoinRequest {
  UniqueIdBytes id{};
  int rank = 0;
  int ranks = 1;
  std::string name;               ///< for messages
  std::uint64_t deadline_ns = 0;  ///< CLOCK_MONOTONIC
  Introduction self;
};

/// One liveness connection: EOF means that the process at the other end is gone.
struct LivenessConnection {
  UniqueFd fd;
  ProcessId process{};
  int rank = -1;  ///< in the communicator that made it
};

struct JoinResult {
  std::vector<Introduction> members;  ///< by rank; descriptors filled at most once per foreign process
  std::vector<LivenessConnection>
      connections;  ///< root: one to every other process; others: root, predecessor, successor
};

/// Blocks until every rank has come, or fails naming who is missing and who is present ("3 of 4 ranks present; missing:
/// 2"). Every rank present gets the same verdict. Also compares `agreed` and `ranks` of all ranks (mismatch names both
/// values). Thread-safe: ranks of one process call it from their own threads.
Result<JoinResult> join(JoinRequest request);

}  // namespace tutti::core
