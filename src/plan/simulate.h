// SPDX-License-Identifier: Apache-2.0
// Runs a Program once, with random words for data, and finds every violation that shows in a run. One run is a proof:
// lanes are deterministic and blocking sends and receives over bounded first-in-first-out edges are confluent, so
// neither the results nor a deadlock depend on the interleaving; hazards are found by vector clocks, which see every
// pair of steps that no wait and no message orders. Internal to src/plan/check*.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/plan/program.h"
#include "src/plan/tree.h"
#include "src/plan/vector_clocks.h"
#include "src/plan/violation.h"

namespace tutti::core {

struct SimulateOptions {
  int credits = 1;           ///< unconsumed messages that an edge holds; 0: rendezvous
  int return_every = 1;      ///< consumed messages become credit in lots of this size
  bool check_marks = false;  ///< lowered plans of reductions: prove first and final touch
  Tree tree = Tree::any;     ///< that every output chunk of a reduction must be
};

struct SimulateStats {
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  std::uint32_t rounds = 0;          ///< messages on the longest dependent chain
  std::uint32_t most_in_flight = 0;  ///< unconsumed messages of one edge
};

/// The words that stand for data: random ones, or (only_rank >= 0, for the explanation of a wrong result) 1 for the
/// contributions of one rank and 0 for all others, so that sums count.
struct Words {
  int only_rank = -1;
};

/// What a slot or message holds: the wrapping sum of its contributions, and a hash of its expression tree that is
/// commutative but not associative. Equal hashes mean equal trees up to swapping the operands of a sum, so equal bits.
struct Value {
  std::uint64_t sum = 0;
  std::uint64_t tree = 0;
};

class Simulation {
 public:
  Simulation(const Program& program, const SimulateOptions& options, Words words = {});

  /// Everything but the outputs' values. Call once.
  std::optional<Violation> run();

  const SimulateStats& stats() const { return stats_; }
  /// Of an output cell: valid after run() found nothing.
  const Value& value(std::int32_t cell) const { return values_[static_cast<std::size_t>(cell)]; }
  /// The instruction that wrote a cell last, -1: none.
  std::int32_t writer(std::int32_t cell) const { return writer_[static_cast<std::size_t>(cell)]; }
  bool is_final(std::int32_t cell) const { return final_[static_cast<std::size_t>(cell)] != 0; }
  /// Ranks that `rank` had heard of when it left operation `operation`; barriers only.
  bool heard_of(std::size_t operation, int rank, int other) const;
  std::uint64_t input_sum(std::size_t operation, int rank, std::uint32_t chunk) const;

  /// The place of an instruction, with a text.
  static Violation at(const Program& program, std::uint32_t instruction, Rule rule, std::string text);

 private:
  struct Message {
    Value value;
    VectorClocks::Stamp stamp;  ///< several lanes only
    std::uint32_t depth = 0;
    std::uint32_t piece = 0;  ///< Contract::piece_of_input
    std::uint16_t operation = 0;
    bool final = false;
  };
  struct EdgeState {
    std::uint32_t head = 0;   ///< of the ring
    std::uint32_t count = 0;  ///< unconsumed
    std::uint64_t consumed = 0;
    std::uint64_t sent = 0;
  };

  void wake(std::uint32_t thread);
  void run_thread(std::uint32_t thread);
  bool is_ready(std::uint32_t thread, const Instruction& instruction);
  bool meets_other_lanes(std::uint32_t thread, const Instruction& instruction);
  bool has_credit(const EdgeState& edge) const;
  void execute(std::uint32_t thread, const Instruction& instruction);
  bool read_operands(std::uint32_t thread, const Instruction& instruction, Message& result);
  bool read_cell(std::uint32_t thread, const Reference& reference, Message& piece);
  bool read_input(std::uint32_t thread, const Instruction& instruction, const Reference& reference, Message& piece);
  bool take_message(std::uint32_t thread, const Instruction& instruction, const Reference& reference, Message& piece);
  void release_messages(const Instruction& instruction);
  void write_cell(std::uint32_t thread, const Instruction& instruction, const Message& result);
  void post(std::uint32_t thread, const Instruction& instruction, Message message);
  void finish_operation(std::uint32_t thread, const Instruction& instruction);
  bool check_piece(std::uint32_t thread, const Instruction& instruction, const Message& result);
  bool apply_final(const Instruction& instruction, std::uint32_t finals, Message& result);

  bool known(std::uint32_t thread, std::uint32_t other, std::uint32_t epoch) const;
  std::uint32_t epoch(std::uint32_t thread) const { return position_[thread] - program_.thread_begin[thread] + 1; }
  bool race(std::uint32_t thread, std::int32_t cell, bool input_alias, bool writes);
  std::uint64_t* bits(std::uint32_t thread) { return &bits_[std::size_t{thread} * bit_words_]; }

  bool fail(Rule rule, std::string text);  ///< at the current instruction; returns false
  std::string place(std::uint32_t thread) const;
  std::uint32_t blocker(std::uint32_t thread) const;
  std::string blocked_on(std::uint32_t thread) const;
  Violation explain_deadlock() const;
  std::uint64_t word(std::size_t operation, int rank, std::uint32_t chunk) const;

  const Program& program_;
  const SimulateOptions options_;
  const Words words_;
  SimulateStats stats_;
  std::optional<Violation> violation_;
  std::uint32_t current_ = 0;

  std::vector<std::uint32_t> position_;  // of each thread in code
  std::vector<std::uint32_t> depth_;
  std::vector<std::uint8_t> queued_, posted_, arrived_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::uint32_t> arrivals_;  // [operation][rank] lanes at its end

  std::vector<EdgeState> edges_;
  std::uint32_t window_ = 1;
  std::vector<Message> ring_;  // [edge][window]

  std::vector<Value> values_;
  std::vector<std::int32_t> writer_;
  std::vector<std::uint32_t> piece_;
  std::vector<std::uint8_t> final_, clobbered_;

  // Several lanes per rank only: vector clocks, and per cell the last write and every lane's last read.
  bool has_lanes_ = false;
  VectorClocks clocks_;
  std::vector<std::uint32_t> snapshot_depths_;
  std::vector<std::uint32_t> write_epoch_, read_epoch_, alias_epoch_;
  std::vector<std::uint8_t> write_lane_;

  // Barriers only: which ranks a lane has heard of since the operation began.
  std::uint32_t bit_words_ = 0;
  std::vector<std::uint64_t> bits_, payload_bits_, snapshot_bits_, exit_bits_;
};

}  // namespace tutti::core
