// SPDX-License-Identifier: Apache-2.0
// One thread per process in ppoll on the liveness connections. Learns of dead processes, tells the other processes of
// the job, and calls back with the process id; the communicators turn that into a rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/bootstrap.h"

namespace tutti::core {

class Watcher {
 public:
  /// Runs on the watcher's thread ("tutti-watcher"), once per lost process; `text` says how it was noticed ("connection
  /// closed"). A goodbye is no loss and is not reported.
  using OnLost = std::function<void(const ProcessId& process, const std::string& text)>;
  static std::unique_ptr<Watcher> make(OnLost on_lost);
  virtual ~Watcher() = default;
  /// Takes over connections (starts the thread on first need). A process already connected keeps one connection; the
  /// surplus closes.
  virtual void add(std::vector<LivenessConnection> connections) = 0;
  virtual bool is_lost(const ProcessId& process) const = 0;
  /// Says goodbye on every connection (peers do not report a loss) and stops the thread. Idempotent.
  virtual void stop() = 0;
  /// In a forked child: close everything silently, without goodbye.
  virtual void forget_after_fork() = 0;
};

}  // namespace tutti::core
