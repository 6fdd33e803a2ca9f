// SPDX-License-Identifier: Apache-2.0
#include "src/plan/check.h"

#include <algorithm>

#include "src/plan/program.h"
#include "src/plan/simulate.h"

namespace tutti::core {

namespace {

/// Above this a wrong result is reported without the list of what is wrong in it: the list costs one run per rank.
constexpr int kMostRanksToExplain = 128;

// ---- messages match ------------------------------------------------------------------------------------------------

/// The k-th send of an edge meets its k-th receive. Compares both ends' ideas of the slots, then their numbers.
class Matching {
 public:
  explicit Matching(const Program& program) : program_(program) {
    const std::size_t edges = program.edges.size();
    send_begin_.assign(edges + 1, 0);
    take_begin_.assign(edges + 1, 0);
    for (const Instruction& instruction : program.code)
      for_each_end(
          instruction, [](auto& list, std::size_t edge) { ++list[edge + 1]; }, send_begin_, take_begin_);
    for (std::size_t edge = 0; edge < edges; ++edge) {
      send_begin_[edge + 1] += send_begin_[edge];
      take_begin_[edge + 1] += take_begin_[edge];
    }
    sends_.resize(send_begin_[edges]);
    takes_.resize(take_begin_[edges]);
    std::vector<std::uint32_t> next_send = send_begin_, next_take = take_begin_;
    for (std::uint32_t i = 0; i < program.code.size(); ++i) {
      const Instruction& instruction = program.code[i];
      if (instruction.out_edge >= 0) sends_[next_send[static_cast<std::size_t>(instruction.out_edge)]++] = i;
      for (std::uint32_t k = 0; k < instruction.operand_count; ++k) {
        const Reference& operand = program.operands[instruction.first_operand + k];
        if (operand.edge >= 0) takes_[next_take[static_cast<std::size_t>(operand.edge)]++] = i;
      }
    }
  }

  std::optional<Violation> find() const {
    for (std::size_t edge = 0; edge < program_.edges.size(); ++edge)
      if (auto violation = find_in_edge(edge)) return violation;
    return std::nullopt;
  }

 private:
  template <class Visit, class List>
  void for_each_end(const Instruction& instruction, Visit visit, List& sends, List& takes) const {
    if (instruction.out_edge >= 0) visit(sends, static_cast<std::size_t>(instruction.out_edge));
    for (std::uint32_t k = 0; k < instruction.operand_count; ++k) {
      const Reference& operand = program_.operands[instruction.first_operand + k];
      if (operand.edge >= 0) visit(takes, static_cast<std::size_t>(operand.edge));
    }
  }

  std::optional<Violation> find_in_edge(std::size_t edge) const {
    const std::uint32_t sent = send_begin_[edge + 1] - send_begin_[edge];
    const std::uint32_t taken = take_begin_[edge + 1] - take_begin_[edge];
    for (std::uint32_t k = 0; k < std::min(sent, taken) && !program_.lowered; ++k) {
      const std::uint32_t send = sends_[send_begin_[edge] + k], take = takes_[take_begin_[edge] + k];
      const Instruction &from = program_.code[send], &to = program_.code[take];
      if (from.src == to.src && from.dst == to.dst) continue;
      return Simulation::at(program_, take, Rule::slot_mismatch,
                            "receives " + describe(to.src) + " of " + name(program_.edges[edge].sender) + " into " +
                                describe(to.dst) + ", but message " + std::to_string(k) + " of that edge is " +
                                describe(from.src) + " for " + describe(from.dst) + ", sent by step " +
                                std::to_string(from.step) + " (line " + std::to_string(from.site) + ")");
    }
    if (sent > taken)
      return Simulation::at(program_, sends_[send_begin_[edge] + taken], Rule::unmatched,
                            "sends message " + std::to_string(taken) + " to " + name(program_.edges[edge].receiver) +
                                ", which receives only " + std::to_string(taken));
    if (taken > sent)
      return Simulation::at(program_, takes_[take_begin_[edge] + sent], Rule::unmatched,
                            "receives message " + std::to_string(sent) + " of " + name(program_.edges[edge].sender) +
                                ", which sends only " + std::to_string(sent));
    return std::nullopt;
  }

  std::string name(std::uint32_t thread) const { return "rank " + std::to_string(program_.rank_of(thread)); }

  const Program& program_;
  std::vector<std::uint32_t> send_begin_, take_begin_, sends_, takes_;
};

// ---- outputs -------------------------------------------------------------------------------------------------------

class OutputProof {
 public:
  OutputProof(const Program& program, const SimulateOptions& options, const Simulation& run)
      : program_(program), options_(options), run_(run) {}

  std::optional<Violation> find() {
    for (std::size_t op = 0; op < program_.operations.size(); ++op) {
      operation_ = op;
      const Contract& contract = program_.operations[op].contract;
      auto violation = contract.is_barrier() ? find_unheard(contract) : find_in_outputs(contract);
      if (violation) return violation;
    }
    return std::nullopt;
  }
  std::vector<std::uint64_t> take_trees() { return std::move(trees_); }

 private:
  std::optional<Violation> find_unheard(const Contract& contract) const {
    for (int rank = 0; rank < contract.ranks(); ++rank)
      for (int other = 0; other < contract.ranks(); ++other)
        if (!run_.heard_of(operation_, rank, other))
          return at_end_of(rank, Rule::barrier,
                           "leaves without having heard, directly or through others, that rank " +
                               std::to_string(other) + " has entered");
    return std::nullopt;
  }

  std::optional<Violation> find_in_outputs(const Contract& contract) {
    for (std::uint32_t chunk = 0; chunk < contract.chunks(); ++chunk) {
      // Sum of what belongs into this chunk, the same for all ranks but where blocks change places.
      std::uint64_t expected = 0;
      std::uint32_t summed = contract.chunks();
      for (int rank = 0; rank < contract.ranks(); ++rank) {
        if (!contract.has_output(rank, chunk)) continue;
        const std::uint32_t source = contract.contributed_chunk(rank, chunk);
        if (source != summed) expected = expected_sum(contract, chunk, summed = source);
        if (auto violation = find_in_output(rank, chunk, expected)) return violation;
      }
      if (auto violation = find_other_tree(contract, chunk)) return violation;
    }
    return std::nullopt;
  }

  std::uint64_t expected_sum(const Contract& contract, std::uint32_t chunk, std::uint32_t source) const {
    if (contract.what() == TUTTI_ALL_TO_ALL) return run_.input_sum(operation_, static_cast<int>(chunk), source);
    std::uint64_t sum = 0;
    for (int rank = 0; rank < contract.ranks(); ++rank)
      if (contract.contributes(rank, chunk)) sum += run_.input_sum(operation_, rank, source);
    return sum;
  }

  std::optional<Violation> find_in_output(int rank, std::uint32_t chunk, std::uint64_t expected) const {
    const std::int32_t cell = program_.output_cell(operation_, rank, chunk);
    const std::int32_t writer = run_.writer(cell);
    if (writer < 0)
      return at_end_of(rank, Rule::contribution, "ends without having written output " + std::to_string(chunk));
    if (run_.value(cell).sum != expected)
      return Simulation::at(program_, static_cast<std::uint32_t>(writer), Rule::contribution, explain(rank, chunk));
    if (options_.check_marks && program_.operations[operation_].contract.reducing() && !run_.is_final(cell))
      return Simulation::at(program_, static_cast<std::uint32_t>(writer), Rule::final_touch,
                            "leaves output " + std::to_string(chunk) + " without a final touch");
    return std::nullopt;
  }

  /// Blames a rank whose tree is not the majority's.
  std::optional<Violation> find_other_tree(const Contract& contract, std::uint32_t chunk) {
    if (contract.what() == TUTTI_ALL_TO_ALL) {  // every rank's chunk is another one
      for (int rank = 0; rank < contract.ranks(); ++rank) trees_.push_back(tree(rank, chunk));
      return std::nullopt;
    }
    int candidate = -1, votes = 0;
    for (int rank = 0; rank < contract.ranks(); ++rank) {
      if (!contract.has_output(rank, chunk)) continue;
      if (votes == 0) candidate = rank;
      votes += tree(rank, chunk) == tree(candidate, chunk) ? 1 : -1;
    }
    for (int rank = 0; rank < contract.ranks(); ++rank) {
      if (!contract.has_output(rank, chunk) || tree(rank, chunk) == tree(candidate, chunk)) continue;
      const auto writer = static_cast<std::uint32_t>(run_.writer(program_.output_cell(operation_, rank, chunk)));
      return Simulation::at(program_, writer, Rule::association,
                            "output " + std::to_string(chunk) + " is another expression tree than on rank " +
                                std::to_string(candidate) +
                                ": the same contributions, reduced in another order, so bits may differ");
    }
    trees_.push_back(tree(candidate, chunk));
    if (options_.tree == Tree::any || !contract.reducing() || trees_.back() == declared_tree(contract, chunk))
      return std::nullopt;
    const auto writer = static_cast<std::uint32_t>(run_.writer(program_.output_cell(operation_, candidate, chunk)));
    return Simulation::at(program_, writer, Rule::association,
                          "output " + std::to_string(chunk) + " is not the " + std::string(tree_name(options_.tree)) +
                              " tree that the row declares (src/plan/tree.h)");
  }

  std::uint64_t declared_tree(const Contract& contract, std::uint32_t chunk) const {
    std::vector<std::uint64_t> leaves;
    for (int rank = 0; rank < contract.ranks(); ++rank)
      leaves.push_back(leaf_hash(run_.input_sum(operation_, rank, chunk)));
    return declared_hash(options_.tree, leaves);
  }

  std::uint64_t tree(int rank, std::uint32_t chunk) const {
    return run_.value(program_.output_cell(operation_, rank, chunk)).tree;
  }

  Violation at_end_of(int rank, Rule rule, const std::string& text) const {
    const std::uint32_t end = program_.thread_begin[static_cast<std::size_t>(rank * program_.lanes) + 1];
    // The last instruction of this operation in lane 0 is its next_operation: the step before it, if any.
    std::uint32_t last = end - 1;
    while (program_.code[last].operation != operation_) --last;
    if (last > program_.thread_begin[static_cast<std::size_t>(rank * program_.lanes)] &&
        program_.code[last - 1].operation == operation_)
      --last;
    return Simulation::at(program_, last, rule, text);
  }

  /// "output 3 misses rank 5's contribution, holds rank 2's 2 times": counted by a run for each rank.
  std::string explain(int rank, std::uint32_t chunk) const {
    const std::string where = "output " + std::to_string(chunk);
    const Contract& contract = program_.operations[operation_].contract;
    if (contract.ranks() > kMostRanksToExplain) return where + " does not hold each contribution exactly once";
    const std::int32_t cell = program_.output_cell(operation_, rank, chunk);
    std::string faults;
    constexpr int kMostShown = 4;
    int shown = 0;
    for (int other = 0; other < contract.ranks() && shown < kMostShown; ++other) {
      const std::uint64_t count = count_in(cell, {.only_rank = other});
      const std::uint64_t wanted = contract.contributes(other, chunk) ? 1 : 0;
      if (count == wanted) continue;
      ++shown;
      faults += (faults.empty() ? "" : ", ") + describe_count(other, count, wanted);
    }
    if (faults.empty()) return where + " holds other chunks than its own";
    return where + " " + faults;
  }

  static std::string describe_count(int other, std::uint64_t count, std::uint64_t wanted) {
    const std::string whose = "rank " + std::to_string(other) + "'s contribution";
    if (count == 0) return "misses " + whose;
    if (wanted == 0) return "holds " + whose + ", which does not belong there";
    return "holds " + whose + " " + std::to_string(count) + " times";
  }

  std::uint64_t count_in(std::int32_t cell, const Words& words) const {
    Simulation counting(program_, options_, words);
    if (counting.run()) return 0;
    return counting.value(cell).sum;
  }

  const Program& program_;
  const SimulateOptions options_;
  const Simulation& run_;
  std::size_t operation_ = 0;
  std::vector<std::uint64_t> trees_;
};

CheckOutcome check_program(std::span<const OperationSource> sources, bool lanes_meet, const SimulateOptions& options) {
  CheckOutcome outcome;
  ProgramResult made = make_program(sources, lanes_meet);
  if (made.violation) {
    outcome.violation = std::move(made.violation);
    return outcome;
  }
  outcome.violation = Matching(made.program).find();
  if (outcome.violation) return outcome;
  Simulation run(made.program, options);
  outcome.violation = run.run();
  outcome.steps = run.stats().steps;
  outcome.messages = run.stats().messages;
  outcome.rounds = run.stats().rounds;
  outcome.most_in_flight = run.stats().most_in_flight;
  if (outcome.violation) return outcome;
  OutputProof proof(made.program, options, run);
  outcome.violation = proof.find();
  outcome.trees = proof.take_trees();
  return outcome;
}

CheckOutcome refused(const std::string& text) {
  CheckOutcome outcome;
  outcome.violation = Violation{Rule::malformed, -1, -1, -1, 0, text};
  return outcome;
}

}  // namespace

CheckOutcome check_schedules(std::span<const Schedule> schedules, const CheckOptions& options) {
  if (schedules.empty()) return refused("no schedules to check");
  const Contract contract(options.what, static_cast<int>(schedules.size()), options.root, schedules.front().chunks);
  const OperationSource source{contract, schedules, {}};
  return check_program({&source, 1}, true,
                       {.credits = options.credits, .return_every = 1, .check_marks = false, .tree = options.tree});
}

CheckOutcome check_lowered(std::span<const LoweredPlan> plans, const CheckOptions& options) {
  if (plans.empty()) return refused("no plans to check");
  const Contract contract(options.what, static_cast<int>(plans.size()), options.root, plans.front().chunks);
  const OperationSource source{contract, {}, plans};
  return check_program({&source, 1}, true,
                       {.credits = options.credits, .return_every = 1, .check_marks = true, .tree = options.tree});
}

int lowered_credits(std::span<const LoweredPlan> plans, int credits) {
  for (const LoweredPlan& plan : plans)
    for (const auto& lane : plan.lanes)
      for (const Action& action : lane)
        if (action.forward >= 0) return credits + 1;
  return credits;
}

CheckOutcome check_sequence(std::span<const SequencedOperation> operations, const SequenceOptions& options) {
  std::vector<OperationSource> sources;
  for (const SequencedOperation& operation : operations) {
    if (operation.plans.empty()) return refused("no plans to check");
    const Contract contract(operation.what, static_cast<int>(operation.plans.size()), operation.root,
                            operation.plans.front().chunks);
    sources.push_back({contract, {}, operation.plans});
  }
  if (sources.empty()) return refused("no operations to check");
  return check_program(
      sources, !options.slices,
      {.credits = options.window, .return_every = options.return_every, .check_marks = true, .tree = Tree::any});
}

}  // namespace tutti::core
