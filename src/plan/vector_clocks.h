// SPDX-License-Identifier: Apache-2.0
// Vector clocks of many threads, for lanes that send long runs of messages between two changes of their clock: those
// share one copy of it. Internal to src/plan/check*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::core {

/// clock(t)[u] is the number of steps of thread u that thread t has heard of, directly or through others.
class VectorClocks {
 public:
  /// What a message carries: a shared copy of its sender's clock, and the sender's own step.
  struct Stamp {
    std::int32_t copy = -1;
    std::uint32_t epoch = 0;
  };

  /// `edges`: number of (sender, receiver) pairs that receive() is called with; `snapshots`: of save() and join().
  void reset(std::size_t threads, std::size_t edges, std::size_t snapshots);

  bool knows(std::uint32_t thread, std::uint32_t other, std::uint32_t epoch) const {
    return clocks_[std::size_t{thread} * words_ + other] >= epoch;
  }
  /// The thread has done its step number `epoch`.
  void step(std::uint32_t thread, std::uint32_t epoch) { clocks_[std::size_t{thread} * words_ + thread] = epoch; }
  Stamp send(std::uint32_t thread, std::uint32_t epoch);
  /// Hands the stamp back: call once for each.
  void receive(std::uint32_t thread, std::uint32_t sender, std::size_t edge, Stamp stamp);
  void save(std::uint32_t thread, std::size_t snapshot);
  void join(std::uint32_t thread, std::size_t snapshot);

 private:
  void merge(std::uint32_t thread, const std::uint32_t* then);
  void release(std::int32_t copy);

  struct Copy {
    std::uint64_t serial = 0;  ///< of its content: copies are used again
    std::uint32_t users = 0;
  };
  std::size_t words_ = 0;
  std::vector<std::uint32_t> clocks_, snapshots_;
  std::vector<std::int32_t> current_;   // [thread] copy that equals its clock but for its own steps; -1: none
  std::vector<std::uint32_t> content_;  // [copy][thread]
  std::vector<Copy> copies_;
  std::vector<std::int32_t> free_;
  std::vector<std::uint64_t> merged_;  // [edge] serial of the copy that its receiver merged last
  std::uint64_t last_serial_ = 0;
};

}  // namespace tutti::core
