// SPDX-License-Identifier: Apache-2.0
// Operations of one thread that start together.
#pragma once

#include <functional>
#include <vector>

#include "src/comm/communicator.h"

namespace tutti::core {

class Group {
 public:
  /// The calling thread's group.
  static Group& current();

  bool open() const { return depth_ > 0; }
  void begin() { ++depth_; }
  /// Whether the calling thread's group is open, for the shortest path: one load, no call.
  static bool any_open() { return depth_ > 0; }
  /// At the outermost end: creations run (side by side, since the ranks of one communicator wait for each other), then
  /// operations start in the order of the calls (each communicator's together), then those without a handle are waited
  /// for. The first error is returned; all is ended.
  Status end();

  /// `create` runs on some thread at the end. Those of one `parent` (null: none) run one after the other, as calls of
  /// one communicator must.
  void add_creation(const void* parent, std::function<Status()> create) {
    creations_.push_back({parent, std::move(create), {}});
  }
  /// Takes the reference if nobody else waits for it (`blocking`).
  void add_operation(Operation* operation, bool blocking);
  /// An error of a call inside, for end() to return.
  void note_error(const Status& status) {
    if (error_.is_ok()) error_ = status;
  }

 private:
  struct Creation {
    const void* parent;
    std::function<Status()> create;
    Status result;
  };
  struct Entry {
    Operation* operation;
    bool blocking;
    bool submitted;
  };
  Status run_creations();
  Status run_operations();

  // Static, so that asking costs no construction; initial-exec, so that it costs no call.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local int depth_;
  std::vector<Creation> creations_;
  std::vector<Entry> operations_;
  std::vector<Operation*> members_;  // of one communicator
  Status error_;
};

}  // namespace tutti::core
