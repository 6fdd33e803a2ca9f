// SPDX-License-Identifier: Apache-2.0
// One rank's end of a communicator.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/comm/deadlock.h"
#include "src/comm/fusion.h"
#include "src/comm/operation.h"
#include "src/comm/point_to_point.h"
#include "src/comm/process.h"
#include "src/comm/selector.h"
#include "src/exec/waiting.h"
#include "tutti/tutti.h"

namespace tutti::core {

/// A member as this rank sees it. The id is permanent; the rank is its index in the epoch's list.
struct Member {
  std::uint64_t id = 0;
  ProcessId process{};
  std::int32_t pid = 0;
  CpuMask cpus{};
  std::shared_ptr<Link> link;
};

/// How many processors the members may run on together: equal on all ranks, whatever their own affinity.
int count_cores(const std::vector<Member>& members);

/// Everything about a call that does not change from one execution to the next, found by its arguments.
struct CallEntry {
  tutti_collective what = TUTTI_COLLECTIVE_COUNT;
  tutti_dtype type = TUTTI_INT8;
  tutti_op op = TUTTI_SUM;
  int root = -1;
  std::uint64_t count = 0;
  std::string asked;  ///< tutti_call::algorithm
  Plan* plan = nullptr;
  std::uint64_t generation = 0;
  std::uint64_t fingerprint = 0;     ///< of call and row; the operation's number is mixed in
  std::uint64_t call_word = 0;       ///< pack_call of the arguments
  std::uint64_t bytes = 0;           ///< larger buffer of a rank
  std::uint64_t weighted_count = 0;  ///< CallDescriptor::weighted_count
  std::vector<ChunkRange> input_chunks, output_chunks;
  std::vector<ChunkRange> blocks;     ///< v-forms: the blocks as given
  char row[sizeof Record::row] = {};  ///< the row's name as the recorder keeps it
  EdgeTable edges;
  Bindings bindings;  ///< all but pointers and the fingerprint
  std::uint64_t last_use = 0;
};

/// The arguments of a call that may be short enough for the short way (small_call.cc).
struct SmallCall {
  tutti_dtype type;
  tutti_op op;
  std::uint64_t count;
  const void* in;
  void* out;
};

enum class SmallEnd : std::uint8_t {
  not_taken,  ///< nothing has happened: the call must go the long way
  done,       ///< ended well
  late,       ///< started: continue_small() must follow
};

/// The record of such a call but for what changes from one to the next.
class SmallRecord {
 public:
  void fill(const Call& call, const CallEntry& entry);
  void write(Record& record, std::uint64_t number, std::uint64_t fingerprint, std::uint64_t now) const;

 private:
  alignas(128) std::byte bytes_[sizeof(Record)] = {};
};

/// What such a call needs, from its first time the long way.
struct SmallEntry {
  tutti_collective what = TUTTI_COLLECTIVE_COUNT;
  tutti_dtype type = TUTTI_INT8;
  tutti_op op = TUTTI_SUM;
  std::uint32_t own = 0;  ///< which operand of the reduction is the own one
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t call_word = 0;
  LineKernel kernel = nullptr;
  SendChannel* send = nullptr;
  ReceiveChannel* receive = nullptr;  ///< null until the peer has sent something
  SmallRecord record;

  static constexpr std::size_t kEntries = 32;
  static std::size_t place(tutti_collective what, tutti_dtype type, tutti_op op, std::uint64_t count) {
    return (static_cast<std::size_t>(what) + static_cast<std::size_t>(type) * 5 + static_cast<std::size_t>(op) * 3 +
            static_cast<std::size_t>(count)) %
           kEntries;
  }
};

struct CommunicatorParts {
  Process* process = nullptr;
  Config config;
  std::string name;
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<Member> members;
  SharedBlock control;        ///< this rank's control page
  std::vector<PeerEnd> ends;  ///< by rank
  CostTable cost;             ///< rank 0's
};

class Communicator {
 public:
  /// Join by unique id. Blocks; see tutti_comm_create.
  static Result<std::unique_ptr<Communicator>> create(const UniqueIdBytes& id, int rank, int ranks,
                                                      const tutti_config* config);
  /// Collective over this communicator; null for a negative colour.
  Result<std::unique_ptr<Communicator>> split(int color, int key, const tutti_config* config);
  explicit Communicator(CommunicatorParts parts);
  ~Communicator();

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(members_.size()); }
  const std::string& name() const { return name_; }
  const Config& config() const { return config_; }
  Process& process() { return *process_; }

  /// Runs `call` to its end on the calling thread.
  Status run(const Call& call, int* source = nullptr);
  /// The same the short way.
  template <tutti_collective what>
  SmallEnd run_small(const SmallCall& call);
  /// Right after a run_small() that was late: runs the same call to its end.
  Status continue_small(tutti_collective what, const SmallCall& call);
  /// An operation that is not started yet, with one reference for the caller. Arguments are checked here.
  Result<Operation*> prepare(const Call& call, int* source = nullptr);
  /// Queues it. On an error it is finished with that error, too.
  Status submit(Operation& operation);
  /// Queues the operations of a group, of which small ones may share exchanges. On an error all are finished with it.
  Status submit_group(const std::vector<Operation*>& operations);
  /// Drives until `operation` is done or `timeout_ns` (< 0: none) has passed: in_progress.
  Status wait(Operation& operation, std::int64_t timeout_ns);
  /// One round of progress if nobody else drives.
  bool poke();

  void abort(const std::string& reason);
  /// Ok, or the error that ended this communicator. Any thread.
  Status status();
  std::string explain(tutti_collective what, std::uint64_t bytes);
  /// Messages that this rank has sent so far. Only while no operation runs.
  std::uint64_t messages_sent() const { return channels_.messages_sent(); }
  void set_event_hook(void (*hook)(const tutti_event*, void*), void* argument);

  /// Called by the process's watcher.
  void process_lost(const ProcessId& process, const std::string& text);
  bool has_member_in(const ProcessId& process) const;
  /// Tells every member that this rank leaves; nothing of theirs is touched afterwards. Once.
  void say_goodbye();
  /// exit() came before destroy: ends what runs, so that no thread touches the peers' memory after the goodbye.
  void leave_at_exit();
  /// Gives FIFO memory back, unless somebody drives.
  void drop_idle_fifos();
  /// Whether somebody waits inside (and so drives) this communicator.
  bool has_waiter() const { return waiters_.load(std::memory_order_relaxed) > 0; }
  /// Nothing asynchronous is left to do.
  bool quiet() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  static Status assemble(CommunicatorParts& parts, std::vector<Introduction>& introductions);

  // communicator.cc: issue and progress
  Status check(const Call& call) const;
  Status enter();
  void leave() { issuing_.clear(std::memory_order_release); }
  bool try_drive() { return !driving_.test_and_set(std::memory_order_acquire); }
  void stop_driving() { driving_.clear(std::memory_order_release); }
  bool advance();
  bool drive_once();
  bool look_once_more();
  Operation* take_point_to_point();
  bool advance_collectives();
  void announce(const Call& call, Announcement& input, Announcement& output) const;
  void publish(const Operation& operation, std::uint64_t fingerprint, Announcement& input, Announcement& output);
  void record(Operation& operation, std::uint64_t fingerprint, const Announcement& input, const Announcement& output);
  std::uint64_t timeout_ticks(const Call& call) const;
  bool start(Operation& operation);
  void begin(Operation& operation, CallEntry* entry);
  void launch(Operation& operation, std::uint64_t fingerprint);
  bool step(Operation& operation);
  void finish(Operation& operation, Status status);
  void look_around(Operation& operation);
  void conclude(Operation& operation, Status status);
  Status drive_until_done(Operation& operation, std::int64_t timeout_ns, bool driving);
  void start_point_to_point(Operation* operation);
  void finish_point_to_point(Operation* operation, Status status);
  void check_point_to_point();
  void enqueue(Operation* operation);
  void enqueue_locked(Operation* operation);
  void finish_one(Operation& operation, Status status);

  // fusion.cc: operations of a group that share an exchange
  enum class Fused : std::uint8_t { no, running, ended };
  Fused start_fused(Operation& first);
  void announce_fused();
  void finish_fused(const Status& status);

  // small_call.cc: the short way of small blocking calls
  bool is_idle() const {
    return !failed_.load(std::memory_order_acquire) && control_->verdict.load(std::memory_order_acquire) == 0 &&
           !hook_.load(std::memory_order_relaxed);
  }
  void remember_small(const Call& call, const CallEntry& entry);
  /// A call's hash with an operation's number: an odd factor spreads the number over all bits, and no two operations of
  /// a call agree.
  static std::uint64_t mixed(std::uint64_t fingerprint, std::uint64_t number) {
    return kMismatchCheck ? fingerprint ^ (number * 0x9e3779b97f4a7c15ULL) : 0;
  }

  // call_table.cc: plans and bindings
  Result<CallEntry*> find_entry(const Call& call);
  Status fill_entry(CallEntry& entry, const Call& call);
  std::uint64_t bytes_of(const Call& call) const;
  std::uint64_t weighted_count(const Call& call) const;
  void cut(CallEntry& entry, const Call& call) const;
  void slice_up(Bindings& bindings, std::uint64_t longest, const Plan& plan) const;
  void cut_evenly(CallEntry& entry, const Call& call) const;
  void cut_as_given(CallEntry& entry, const Call& call) const;
  bool cut_alike(const CallEntry& entry, const Call& call) const;
  std::uint64_t fingerprint_of(const Call& call, const Algorithm& row, const std::uint64_t* counts) const;
  Status bind_kernel(Bindings& bindings, const Call& call) const;
  Status ensure_scratch(std::size_t bytes);

  // deadlock.cc
  void tell_blocked(const Operation* operation);
  WaitChain waits_from(int rank, const Operation* own) const;
  Status late_point_to_point(const Operation& late) const;

  // diagnosis.cc: errors
  void fail(const Status& status);
  void end_everything(const Status& status);
  void notice_verdict();
  Status adopt(std::uint64_t verdict);
  void broadcast_verdict(std::uint64_t verdict);
  Status mismatch_at(const Operation& operation) const;
  Status mismatch_with(int peer, std::uint64_t number, const Call& own) const;
  std::string differing_counts(int peer, std::uint64_t number, const Call& own) const;
  int find_mismatch(std::uint64_t number, std::uint64_t fingerprint) const;
  Status timed_out(const Operation& operation) const;
  std::string operation_text(std::uint64_t number, const Call& call) const;
  std::string last_operation_text() const;
  void emit(tutti_event_kind kind, const Operation& operation, tutti_code code);

  Process* process_;
  Config config_;
  std::string name_;
  std::uint64_t id_;
  int rank_;
  std::vector<Member> members_;
  int cores_;
  SharedBlock control_block_;
  std::vector<SharedBlock> abandoned_;  // pages of failed splits: peers may know them until they leave
  ControlPage* control_;
  std::unique_ptr<ChannelSet> channel_set_;  // outlives the communicator in the process's limbo
  ChannelSet& channels_;
  CostTable cost_table_;  // for the groups split off
  Selector selector_;
  PlanCache plans_;
  std::unique_ptr<PointToPoint> point_to_point_;
  std::unique_ptr<RecorderSlot> private_recorder_;  // where the recorder knob is off
  RecorderSlot* recorder_;
  TickClock clock_;
  WaitPolicy policy_;
  std::uint64_t epoch_bits_;
  std::uint64_t timeout_ticks_, compare_ticks_;

  // State of the issuing thread.
  std::atomic_flag issuing_ = ATOMIC_FLAG_INIT;
  std::uint64_t next_number_ = 0;
  std::uint64_t splits_ = 0;
  std::uint64_t groups_ = 0;
  Operation inline_;

  // State of the drive token's holder.
  std::atomic_flag driving_ = ATOMIC_FLAG_INIT;
  Operation* current_ = nullptr;  // the running collective; the first one of a fused exchange
  FusedExchange fused_;
  std::array<CallEntry, 64> entries_;
  std::array<SmallEntry, SmallEntry::kEntries> small_;
  std::uint64_t lookups_ = 0;
  std::uint64_t point_to_point_number_ = 0;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  bool last_step_moved_ = false;
  bool told_waiting_ = false;  // the control page says what this rank waits for
  bool point_to_point_active_ = false;
  std::uint64_t look_ticks_ = 0;  // last look at the clock during the current operation; 0: none yet
  std::uint64_t next_point_to_point_look_ = 0;
  std::vector<std::uint64_t> heartbeats_;  // of all members, when a deadline was first found past
  std::uint64_t suspect_since_ = 0;
  std::uint64_t next_look_ = 0;

  std::mutex queue_mutex_;
  std::deque<Operation*> queue_;  // collectives in issue order; the front may be running
  std::deque<Operation*> new_point_to_point_;
  std::atomic<int> queued_{0};  // in the two queues
  std::atomic<int> new_point_to_point_count_{0};
  std::atomic<std::uint64_t> pending_{0};  // asynchronous operations not done
  std::atomic<int> waiters_{0};
  std::atomic<int> inside_{0};  // threads in wait()

  std::mutex error_mutex_;
  Status error_;  // first error
  std::atomic<bool> failed_{false};
  bool authored_ = false;  // the own page's text is taken
  bool gone_ = false;      // said goodbye: peers' memory is not ours to touch any more

  std::atomic<void (*)(const tutti_event*, void*)> hook_{nullptr};
  std::atomic<void*> hook_argument_{nullptr};
};

}  // namespace tutti::core
