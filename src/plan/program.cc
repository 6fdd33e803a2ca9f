// SPDX-License-Identifier: Apache-2.0
#include "src/plan/program.h"

#include <algorithm>

#include "src/plan/validate.h"

namespace tutti::core {

namespace {

/// The dense edge table has ranks^2 * lanes entries of 4 bytes; this bounds it to 256 MiB.
constexpr std::size_t kMostEdges = std::size_t{1} << 26;

Violation malformed(int rank, const std::string& text) { return {Rule::malformed, rank, -1, -1, 0, text}; }

class ProgramMaker {
 public:
  ProgramMaker(std::span<const OperationSource> sources, bool lanes_meet) : sources_(sources) {
    program_.lanes_meet = lanes_meet;
  }

  ProgramResult run() {
    if (auto violation = prepare()) return {Program{}, std::move(violation)};
    const std::uint32_t threads = program_.threads();
    program_.thread_begin.reserve(threads + 1);
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      program_.thread_begin.push_back(static_cast<std::uint32_t>(program_.code.size()));
      for (std::size_t op = 0; op < sources_.size(); ++op) {
        operation_ = op;
        thread_ = thread;
        starts_.push_back(static_cast<std::uint32_t>(program_.code.size()));
        if (program_.lowered) {
          add_actions();
        } else {
          add_steps();
        }
        add(InstructionKind::next_operation);
      }
    }
    program_.thread_begin.push_back(static_cast<std::uint32_t>(program_.code.size()));
    resolve_waits();
    return {std::move(program_), std::nullopt};
  }

 private:
  // ---- shape ---------------------------------------------------------------------------------------------------

  std::optional<Violation> prepare() {
    program_.ranks = sources_.front().contract.ranks();
    program_.lowered = !sources_.front().plans.empty();
    std::size_t steps = 0;
    std::uint64_t cells = 0;
    for (const OperationSource& source : sources_) {
      if (Status status = source.contract.validate(); !status.is_ok()) return malformed(-1, status.message());
      const std::size_t given = program_.lowered ? source.plans.size() : source.schedules.size();
      if (given != static_cast<std::size_t>(program_.ranks))
        return malformed(-1, std::to_string(given) + " schedules for " + std::to_string(program_.ranks) + " ranks");
      std::uint32_t scratch = 0;
      for (int rank = 0; rank < program_.ranks; ++rank) {
        auto violation = program_.lowered
                             ? inspect(source, source.plans[static_cast<std::size_t>(rank)], rank, steps)
                             : inspect(source, source.schedules[static_cast<std::size_t>(rank)], rank, steps);
        if (violation) return violation;
        scratch = std::max(scratch, scratch_of(source, rank));
      }
      const std::uint64_t per_rank = std::uint64_t{source.contract.chunks()} + scratch;
      if (cells + per_rank * static_cast<std::uint64_t>(program_.ranks) > 0x7fffffffu)
        return malformed(-1, "too many chunks to check");
      program_.operations.push_back(
          {source.contract, static_cast<std::uint32_t>(per_rank), static_cast<std::uint32_t>(cells)});
      cells += per_rank * static_cast<std::uint64_t>(program_.ranks);
    }
    program_.cells = static_cast<std::uint32_t>(cells);
    const std::size_t ranks = static_cast<std::size_t>(program_.ranks);
    if (ranks * ranks * static_cast<std::size_t>(program_.lanes) > kMostEdges)
      return malformed(-1, "too many ranks and lanes to check at once: " + std::to_string(ranks) + " x " +
                               std::to_string(program_.lanes));
    edge_of_.assign(ranks * ranks * static_cast<std::size_t>(program_.lanes), -1);
    program_.code.reserve(steps + sources_.size() * program_.threads());
    program_.operands.reserve(steps + steps / 2);
    return std::nullopt;
  }

  std::uint32_t scratch_of(const OperationSource& source, int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return program_.lowered ? source.plans[r].scratch_chunks : source.schedules[r].scratch_chunks;
  }

  template <class Plan>
  static std::optional<Violation> inspect_shape(const OperationSource& source, const Plan& plan, int rank) {
    if (plan.rank != rank || plan.ranks != source.contract.ranks())
      return malformed(rank,
                       "its schedule is for rank " + std::to_string(plan.rank) + " of " + std::to_string(plan.ranks));
    if (plan.chunks != source.contract.chunks())
      return malformed(rank, "cuts the buffers into " + std::to_string(plan.chunks) + " chunks, rank 0 into " +
                                 std::to_string(source.contract.chunks()));
    return std::nullopt;
  }

  std::optional<Violation> inspect(const OperationSource& source, const Schedule& schedule, int rank,
                                   std::size_t& steps) {
    if (auto violation = inspect_shape(source, schedule, rank)) return violation;
    steps += schedule.steps.size();
    program_.lanes = std::max(program_.lanes, lane_count(schedule));
    return find_malformed(schedule, source.contract);
  }

  std::optional<Violation> inspect(const OperationSource& source, const LoweredPlan& plan, int rank,
                                   std::size_t& steps) {
    if (auto violation = inspect_shape(source, plan, rank)) return violation;
    for (const auto& lane : plan.lanes) steps += lane.size();
    program_.lanes = std::max(program_.lanes, static_cast<int>(plan.lanes.size()));
    return find_malformed(plan, source.contract);
  }

  // ---- instructions ----------------------------------------------------------------------------------------------

  int rank() const { return program_.rank_of(thread_); }

  Instruction& add(InstructionKind kind) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.operation = static_cast<std::uint16_t>(operation_);
    instruction.first_operand = static_cast<std::uint32_t>(program_.operands.size());
    instruction.step = static_cast<std::uint32_t>(program_.code.size()) - starts_.back();
    program_.code.push_back(instruction);
    return program_.code.back();
  }

  std::int32_t cell_of(Slot slot) const {
    if (slot.where() == Space::input) return -1;
    const ProgramOperation& op = program_.operations[operation_];
    const std::uint32_t base = slot.where() == Space::output ? 0 : op.contract.chunks();
    return program_.output_cell(operation_, rank(), base + slot.chunk);
  }

  std::int32_t edge_between(int sender, int receiver, int lane) {
    const std::size_t ranks = static_cast<std::size_t>(program_.ranks);
    const std::size_t key = (static_cast<std::size_t>(sender) * ranks + static_cast<std::size_t>(receiver)) *
                                static_cast<std::size_t>(program_.lanes) +
                            static_cast<std::size_t>(lane);
    if (edge_of_[key] < 0) {
      edge_of_[key] = static_cast<std::int32_t>(program_.edges.size());
      program_.edges.push_back({static_cast<std::uint32_t>(sender * program_.lanes + lane),
                                static_cast<std::uint32_t>(receiver * program_.lanes + lane)});
      taken_by_.push_back(~std::size_t{0});
      taken_.push_back(0);
    }
    return edge_of_[key];
  }

  void read(Instruction& instruction, Slot slot) {
    program_.operands.push_back({slot, cell_of(slot), -1, 0});
    ++instruction.operand_count;
  }

  void take(Instruction& instruction, Slot slot, int sender, int lane) {
    const std::int32_t edge = edge_between(sender, rank(), lane);
    const auto e = static_cast<std::size_t>(edge);
    const std::size_t here = program_.code.size();
    if (taken_by_[e] != here) {
      taken_by_[e] = here;
      taken_[e] = 0;
    }
    program_.operands.push_back({slot, -1, edge, taken_[e]++});
    ++instruction.operand_count;
  }

  void add_steps() {
    const Schedule& schedule = sources_[operation_].schedules[static_cast<std::size_t>(rank())];
    const int lane = program_.lane_of(thread_);
    std::size_t previous = ~std::size_t{0};  // code index of the reduce or receives that may go on
    for (const Step& step : schedule.steps) {
      if (step.lane != lane) continue;
      add_step(step);
      // Consecutive reduces into one slot round once, at the last of them; receives into other slots between them do
      // not count (src/plan/schedule.h).
      Instruction& now = program_.code.back();
      if (step.op == StepOp::reduce) {
        now.rounds = true;
        if (previous != ~std::size_t{0} && program_.code[previous].cell == now.cell)
          program_.code[previous].rounds = false;
        previous = program_.code.size() - 1;
      } else if (step.op != StepOp::recv || (previous != ~std::size_t{0} && program_.code[previous].cell == now.cell)) {
        previous = ~std::size_t{0};
      }
    }
  }

  void add_step(const Step& step) {
    switch (step.op) {
      case StepOp::send: {
        Instruction& send = add(InstructionKind::send);
        read(send, step.src);
        send.out_edge = edge_between(rank(), step.peer, step.lane);
        break;
      }
      case StepOp::recv: {
        Instruction& receive = add(InstructionKind::receive);
        take(receive, step.dst, step.peer, step.lane);
        receive.cell = cell_of(step.dst);
        receive.piece = piece_held(step.dst);
        break;
      }
      case StepOp::copy: {
        Instruction& copy = add(InstructionKind::copy);
        read(copy, step.src);
        copy.cell = cell_of(step.dst);
        copy.piece = piece_held(step.dst);
        break;
      }
      case StepOp::reduce: {
        Instruction& reduce = add(InstructionKind::reduce);
        read(reduce, step.dst);
        read(reduce, step.src);
        reduce.cell = cell_of(step.dst);
        break;
      }
      case StepOp::wait: add_wait(step.src.chunk, step.dst.chunk); break;
    }
    finish(step.site, step.src, step.dst);
  }

  /// The piece that a scratch slot may hold, if the schedule says so; -1: any.
  std::int64_t piece_held(Slot slot) const {
    const Schedule& schedule = sources_[operation_].schedules[static_cast<std::size_t>(rank())];
    if (slot.where() != Space::scratch || schedule.scratch_holds == kFollowsData) return -1;
    return (schedule.scratch_holds + slot.chunk) % schedule.chunks;
  }

  void finish(std::uint16_t site, Slot src, Slot dst) {
    Instruction& instruction = program_.code.back();
    instruction.site = site;
    instruction.src = src;
    instruction.dst = dst;
  }

  void add_wait(std::uint32_t lane, std::uint32_t step) {
    Instruction& wait = add(InstructionKind::wait);
    wait.wait_thread = static_cast<std::uint32_t>(rank() * program_.lanes) + lane;
    wait.wait_count = step;  // resolve_waits() adds the start of the operation in that thread
  }

  void add_actions() {
    const LoweredPlan& plan = sources_[operation_].plans[static_cast<std::size_t>(rank())];
    const auto lane = static_cast<std::size_t>(program_.lane_of(thread_));
    if (lane >= plan.lanes.size()) return;
    for (const Action& action : plan.lanes[lane]) add_action(plan, action);
  }

  void add_action(const LoweredPlan& plan, const Action& action) {
    const auto tx = [&](std::int32_t edge) {
      const Edge& to = plan.tx[static_cast<std::size_t>(edge)];
      return edge_between(rank(), to.peer, to.lane);
    };
    switch (action.kind) {
      case ActionKind::send: {
        Instruction& send = add(InstructionKind::send);
        read(send, action.src);
        send.out_edge = tx(action.edge);
        break;
      }
      case ActionKind::receive: {
        Instruction& receive = add(InstructionKind::receive);
        const Edge& from = plan.rx[static_cast<std::size_t>(action.edge)];
        take(receive, action.dst, from.peer, from.lane);
        break;
      }
      case ActionKind::copy: read(add(InstructionKind::copy), action.src); break;
      case ActionKind::reduce: {
        Instruction& reduce = add(InstructionKind::reduce);
        reduce.rounds = action.operand_count > 1;
        for (std::uint32_t k = 0; k < action.operand_count; ++k) {
          const Operand& operand = plan.operands[action.first_operand + k];
          if (operand.edge < 0) {
            read(reduce, operand.slot);
          } else {
            const Edge& from = plan.rx[static_cast<std::size_t>(operand.edge)];
            take(reduce, operand.slot, from.peer, from.lane);
          }
        }
        break;
      }
      case ActionKind::wait: add_wait(action.src.chunk, action.dst.chunk); break;
    }
    Instruction& instruction = program_.code.back();
    const bool fuses = action.kind == ActionKind::receive || action.kind == ActionKind::reduce;
    if (fuses && action.forward >= 0) instruction.out_edge = tx(action.forward);
    if (action.kind == ActionKind::copy || (fuses && action.keep)) instruction.cell = cell_of(action.dst);
    if (action.kind != ActionKind::wait && !action.any_chunk) instruction.piece = piece_of(action);
    instruction.scale = action.scale;
    instruction.final = action.final;
    finish(action.site, action.src, action.dst);
  }

  std::int64_t piece_of(const Action& action) const {
    const Contract& contract = program_.operations[operation_].contract;
    return action.chunk_space == Space::output ? contract.piece_of_output(rank(), action.chunk)
                                               : contract.piece_of_input(rank(), action.chunk);
  }

  void resolve_waits() {
    const std::size_t operations = sources_.size();
    for (Instruction& wait : program_.code) {
      if (wait.kind != InstructionKind::wait) continue;
      const std::uint32_t start = starts_[wait.wait_thread * operations + wait.operation];
      Instruction& awaited = program_.code[start + wait.wait_count];
      wait.wait_count += start - program_.thread_begin[wait.wait_thread] + 1;
      if (awaited.snapshot < 0) awaited.snapshot = static_cast<std::int32_t>(program_.snapshots++);
    }
  }

  std::span<const OperationSource> sources_;
  Program program_;
  std::vector<std::int32_t> edge_of_;
  std::vector<std::size_t> taken_by_;  // edge -> code size when its last message was taken
  std::vector<std::uint32_t> taken_;   // edge -> messages taken by that instruction
  std::vector<std::uint32_t> starts_;  // [thread][operation] -> code index
  std::size_t operation_ = 0;
  std::uint32_t thread_ = 0;
};

}  // namespace

ProgramResult make_program(std::span<const OperationSource> operations, bool lanes_meet) {
  return ProgramMaker(operations, lanes_meet).run();
}

}  // namespace tutti::core
