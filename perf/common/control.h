// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/common/failure.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// Between start and end of a group if `grouped`, else plainly, runs `body`, which returns a tutti_code. Several ranks
/// of one thread must be called inside a group.
template <class Body>
tutti_code in_group(bool grouped, Body&& body) {
  if (!grouped) return body();
  if (const tutti_code begin = tutti_group_begin(); begin != TUTTI_OK) return begin;
  const tutti_code code = body();
  const tutti_code end = tutti_group_end();
  return code != TUTTI_OK ? code : end;
}

/// What the programs themselves agree on between ranks (barriers around the clock, times, wrong elements), over a
/// communicator of their own, so that these calls never mix with the measured ones. One object per thread, for all its
/// ranks; every thread makes the same calls in the same order.
class Control {
 public:
  /// Splits every communicator of `worlds` (the ranks of this thread).
  ExitCode create(const std::vector<tutti_comm*>& worlds);
  ~Control();

  ExitCode barrier();
  /// Reduces over all threads of all processes: SUM counts a thread's `values` once, however many ranks it has.
  ExitCode reduce(std::vector<double>& values, tutti_op op);
  /// `all` becomes the `bytes` bytes of every rank, by rank; local rank k gives mine + k * bytes.
  ExitCode gather(const void* mine, size_t bytes, std::vector<char>& all);
  /// Wakes every rank that waits in a call of this object, here and in other processes.
  void abort(const std::string& reason);

 private:
  std::string who(const char* operation) const;
  std::vector<tutti_comm*> comms_;
};

}  // namespace tutti::perf
