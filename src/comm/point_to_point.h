// SPDX-License-Identifier: Apache-2.0
// Send and receive with tags and any-source over the mailboxes' point-to-point lane.
#pragma once

#include <memory>

#include "src/comm/operation.h"
#include "src/exec/channels.h"

namespace tutti::core {

/// All point-to-point state of one communicator. Used by the holder of the drive token only.
class PointToPoint {
 public:
  /// How operations end: called under the drive token; the operation may be gone afterwards.
  struct Finish {
    void (*call)(void* context, Operation* operation, Status status);
    void* context;
  };
  static std::unique_ptr<PointToPoint> make(ChannelSet& channels, std::uint64_t epoch_bits, std::size_t fifo_bytes,
                                            Finish finish);
  virtual ~PointToPoint() = default;
  /// Starts a send or recv whose arguments are checked. It ends through Finish, from advance() or at once.
  virtual void start(Operation* operation) = 0;
  /// Does all that can be done now; true if something moved. Operations may end meanwhile.
  virtual bool advance() = 0;
  /// Nothing posted by this rank is unfinished.
  virtual bool idle() const = 0;
  /// Ends every unfinished operation with `status`.
  virtual void fail(const Status& status) = 0;
  /// Something unfinished needs this peer. A receive from any source does not: others may still send.
  virtual bool waits_for(int peer) const = 0;
  /// A receive from any source is unfinished.
  virtual bool waits_for_any() const = 0;
  /// An unfinished operation whose deadline is past, or null.
  virtual const Operation* overdue(std::uint64_t now_ticks) const = 0;
};

}  // namespace tutti::core
