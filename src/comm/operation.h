// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/types.h"
#include "src/comm/plan_cache.h"
#include "src/exec/executor.h"
#include "src/exec/recorder.h"
#include "tutti/tutti.h"

namespace tutti::core {

class Communicator;
struct CallEntry;

/// One buffer of a v-form: how many elements each rank's block has, and where it lies. Arrays of as many numbers as
/// there are ranks.
struct BlockLayout {
  const std::uint64_t* counts = nullptr;         ///< null: the call is no v-form
  const std::uint64_t* displacements = nullptr;  ///< in elements; null: packed in rank order

  /// Calls visit(rank, first element, count) for each block in rank order.
  template <class Visit>
  void for_each(int ranks, Visit visit) const {
    std::uint64_t packed = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::uint64_t count = counts[r];
      visit(r, displacements ? displacements[r] : packed, count);
      packed += count;
    }
  }
};

/// The arguments of one call, as the user gave them.
struct Call {
  tutti_collective what = TUTTI_BARRIER;
  tutti_dtype type = TUTTI_INT8;
  tutti_op op = TUTTI_SUM;
  int peer = -1;            ///< root, or the other rank of send and recv (TUTTI_ANY_SOURCE allowed there)
  std::uint64_t count = 0;  ///< v-forms: of all blocks together; all_to_all_v: of those this rank sends
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t tag = 0;       ///< tutti_call::tag
  std::uint32_t match = 0;     ///< tag of send and recv
  double timeout_s = 0;        ///< 0: the communicator's
  std::string_view algorithm;  ///< forced row; must outlive the call until the operation has started, like the layouts
  BlockLayout blocks{};        ///< v-forms: of the buffer that holds every rank's block; all_to_all_v: of the input
  BlockLayout received{};      ///< all_to_all_v: of the output
  Factor factor{};             ///< this rank's, of TUTTI_PRE_MUL_SUM
};

/// Elements of all blocks; as many as fit into 64 bits.
std::uint64_t total_count(const BlockLayout& layout, int ranks);

/// A span that the user gave; more than 30 years are cut to that, so that sums with it stay in range.
constexpr std::int64_t seconds_to_ns(double seconds) {
  constexpr double kMost = 1e9;
  return static_cast<std::int64_t>((seconds < kMost ? (seconds > 0 ? seconds : 0.0) : kMost) * 1e9);
}

/// "all_reduce float32 x 1048576 sum", "broadcast int8 x 4 root 0", "send float32 x 3 to 1 tag 7".
std::string describe(const Call& call);

/// One operation from issue to completion; the object behind tutti_work. Reference counted: the user's handle and the
/// communicator's queue hold one each. Fields above the line belong to the holder of the communicator's drive token.
class Operation {
 public:
  enum class State : std::uint32_t { queued, running, done };

  Call call;
  Communicator* communicator = nullptr;  ///< may be gone once done
  std::uint64_t number = 0;
  std::uint64_t group = 0;     ///< operations of one communicator with equal numbers were submitted together; 0: alone
  std::uint64_t exchange = 0;  ///< pack_exchange of the operations that share its exchange; 0: none
  std::string algorithm_copy;  ///< keeps Call::algorithm alive for asynchronous calls
  std::vector<std::uint64_t> layout_copies;  ///< and the arrays of v-forms
  CpuExecution execution;
  CallEntry* entry = nullptr;
  const Algorithm* row = nullptr;  ///< collectives, once started
  Record* record = nullptr;
  std::uint64_t issued_ticks = 0, started_ticks = 0, first_ticks = 0, last_peer_ticks = 0, done_ticks = 0;
  std::uint64_t deadline_ticks = 0;
  int last_peer = -1;
  int source = -1;  ///< recv: rank the message came from
  int* source_out = nullptr;
  bool asynchronous = false;
  std::atomic<bool> submitted{true};  ///< false while its group is open
  // ---- any thread
  std::atomic<State> state{State::queued};
  std::atomic<int> references{1};
  std::atomic<int> waiters{0};

  bool done() const { return state.load(std::memory_order_acquire) == State::done; }  // pairs with finish()
  /// Makes the call independent of the caller's memory (but for the buffers).
  void keep_arguments(int ranks);
  /// Valid once done().
  const Status& status() const { return status_; }
  /// Ends the operation; callbacks go to the engine's callback thread.
  void finish(Status status);
  /// What is known so far; any thread (times of a running operation may be a moment old).
  void fill_times(tutti_times& times) const;
  /// Calls back once, after completion.
  void on_complete(std::function<void(tutti_code)> callback);

  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  Status status_;
  std::mutex callback_mutex_;
  std::vector<std::function<void(tutti_code)>> callbacks_;
};

}  // namespace tutti::core
