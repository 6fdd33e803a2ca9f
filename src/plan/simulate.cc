// SPDX-License-Identifier: Apache-2.0
#include "src/plan/simulate.h"

#include <algorithm>

#include "src/plan/tree.h"
#include "src/plan/word_mix.h"

namespace tutti::core {

Simulation::Simulation(const Program& program, const SimulateOptions& options, Words words)
    : program_(program), options_(options), words_(words) {
  const std::size_t threads = program.threads();
  const std::size_t operations = program.operations.size();
  position_.assign(program.thread_begin.begin(), program.thread_begin.end() - 1);
  depth_.assign(threads, 0);
  queued_.assign(threads, 0);
  posted_.assign(threads, 0);
  arrived_.assign(threads, 0);
  arrivals_.assign(operations * static_cast<std::size_t>(program.ranks), 0);
  window_ = static_cast<std::uint32_t>(std::max(options.credits, 1));
  edges_.resize(program.edges.size());
  ring_.resize(program.edges.size() * window_);
  values_.resize(program.cells);
  writer_.assign(program.cells, -1);
  piece_.assign(program.cells, 0);
  final_.assign(program.cells, 0);
  clobbered_.assign(program.cells, 0);
  if (program.lanes > 1) {
    has_lanes_ = true;
    clocks_.reset(threads, program.edges.size(), program.snapshots);
    snapshot_depths_.assign(program.snapshots, 0);
    write_epoch_.assign(program.cells, 0);
    write_lane_.assign(program.cells, 0);
    read_epoch_.assign(std::size_t{program.cells} * static_cast<std::size_t>(program.lanes), 0);
    alias_epoch_ = read_epoch_;
  }
  const auto is_barrier = [](const ProgramOperation& operation) { return operation.contract.is_barrier(); };
  if (std::any_of(program.operations.begin(), program.operations.end(), is_barrier)) {
    bit_words_ = (static_cast<std::uint32_t>(program.ranks) + 63) / 64;
    bits_.assign(threads * bit_words_, 0);
    payload_bits_.resize(ring_.size() * bit_words_);
    snapshot_bits_.assign(std::size_t{program.snapshots} * bit_words_, 0);
    exit_bits_.assign(operations * static_cast<std::size_t>(program.ranks) * bit_words_, 0);
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      const auto rank = static_cast<std::uint32_t>(program.rank_of(thread));
      bits(thread)[rank / 64] |= std::uint64_t{1} << (rank % 64);
    }
  }
}

std::uint64_t Simulation::word(std::size_t operation, int rank, std::uint32_t chunk) const {
  if (words_.only_rank >= 0) return rank == words_.only_rank ? 1 : 0;
  return mix_word((std::uint64_t{chunk} << 32 | static_cast<std::uint32_t>(rank)) ^ mix_word(operation + 1));
}

std::uint64_t Simulation::input_sum(std::size_t operation, int rank, std::uint32_t chunk) const {
  return word(operation, rank, chunk);
}

bool Simulation::heard_of(std::size_t operation, int rank, int other) const {
  const std::size_t base =
      (operation * static_cast<std::size_t>(program_.ranks) + static_cast<std::size_t>(rank)) * bit_words_;
  const auto bit = static_cast<std::size_t>(other);
  return (exit_bits_[base + bit / 64] >> (bit % 64) & 1) != 0;
}

std::optional<Violation> Simulation::run() {
  for (std::uint32_t thread = program_.threads(); thread-- > 0;) wake(thread);
  while (!queue_.empty() && !violation_) {
    const std::uint32_t thread = queue_.back();
    queue_.pop_back();
    queued_[thread] = 0;
    run_thread(thread);
  }
  if (violation_) return violation_;
  for (std::uint32_t thread = 0; thread < program_.threads(); ++thread)
    if (position_[thread] != program_.thread_begin[thread + 1]) return explain_deadlock();
  return std::nullopt;
}

void Simulation::wake(std::uint32_t thread) {
  if (queued_[thread] != 0 || position_[thread] == program_.thread_begin[thread + 1]) return;
  queued_[thread] = 1;
  queue_.push_back(thread);
}

void Simulation::run_thread(std::uint32_t thread) {
  const std::uint32_t end = program_.thread_begin[thread + 1];
  while (position_[thread] != end) {
    const Instruction& instruction = program_.code[position_[thread]];
    current_ = position_[thread];
    if (!is_ready(thread, instruction)) return;
    // A rendezvous send that was posted has nothing left to do once its message is gone.
    if (posted_[thread] == 0) execute(thread, instruction);
    if (violation_) return;
    if (options_.credits == 0 && instruction.out_edge >= 0) {
      posted_[thread] ^= 1;
      if (posted_[thread] != 0) return;  // the receiver wakes this thread
    }
    if (has_lanes_) {
      clocks_.step(thread, epoch(thread));
      if (instruction.snapshot >= 0) {
        const auto snapshot = static_cast<std::size_t>(instruction.snapshot);
        clocks_.save(thread, snapshot);
        snapshot_depths_[snapshot] = depth_[thread];
        if (bit_words_ > 0) std::copy_n(bits(thread), bit_words_, &snapshot_bits_[snapshot * bit_words_]);
      }
    }
    ++position_[thread];
    if (program_.lanes > 1) {
      const std::uint32_t first = thread - thread % static_cast<std::uint32_t>(program_.lanes);
      for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(program_.lanes); ++lane)
        if (first + lane != thread) wake(first + lane);
    }
  }
}

bool Simulation::has_credit(const EdgeState& edge) const {
  const auto lot = static_cast<std::uint64_t>(options_.return_every);
  return edge.sent - edge.consumed / lot * lot < window_;
}

bool Simulation::is_ready(std::uint32_t thread, const Instruction& instruction) {
  if (posted_[thread] != 0) return edges_[static_cast<std::size_t>(instruction.out_edge)].count == 0;
  if (instruction.kind == InstructionKind::wait)
    return position_[instruction.wait_thread] - program_.thread_begin[instruction.wait_thread] >=
           instruction.wait_count;
  if (instruction.kind == InstructionKind::next_operation) return meets_other_lanes(thread, instruction);
  for (std::uint32_t k = 0; k < instruction.operand_count; ++k) {
    const Reference& operand = program_.operands[instruction.first_operand + k];
    if (operand.edge >= 0 && edges_[static_cast<std::size_t>(operand.edge)].count <= operand.nth) return false;
  }
  return instruction.out_edge < 0 || has_credit(edges_[static_cast<std::size_t>(instruction.out_edge)]);
}

bool Simulation::meets_other_lanes(std::uint32_t thread, const Instruction& instruction) {
  if (!program_.lanes_meet || program_.lanes == 1) return true;
  std::uint32_t& here = arrivals_[instruction.operation * static_cast<std::size_t>(program_.ranks) +
                                  static_cast<std::size_t>(program_.rank_of(thread))];
  if (arrived_[thread] == 0) {
    arrived_[thread] = 1;
    if (++here == static_cast<std::uint32_t>(program_.lanes)) {
      const std::uint32_t first = thread - thread % static_cast<std::uint32_t>(program_.lanes);
      for (std::uint32_t lane = 0; lane < here; ++lane)
        if (first + lane != thread) wake(first + lane);
    }
  }
  if (here < static_cast<std::uint32_t>(program_.lanes)) return false;
  arrived_[thread] = 0;
  return true;
}

void Simulation::execute(std::uint32_t thread, const Instruction& instruction) {
  if (instruction.kind == InstructionKind::next_operation) return finish_operation(thread, instruction);
  ++stats_.steps;
  if (instruction.kind == InstructionKind::wait) {
    const Instruction& awaited =
        program_.code[program_.thread_begin[instruction.wait_thread] + instruction.wait_count - 1];
    clocks_.join(thread, static_cast<std::size_t>(awaited.snapshot));
    depth_[thread] = std::max(depth_[thread], snapshot_depths_[static_cast<std::size_t>(awaited.snapshot)]);
    const std::uint64_t* heard = snapshot_bits_.data() + static_cast<std::size_t>(awaited.snapshot) * bit_words_;
    for (std::uint32_t k = 0; k < bit_words_; ++k) bits(thread)[k] |= heard[k];
    return;
  }
  Message result;
  if (!read_operands(thread, instruction, result)) return;
  release_messages(instruction);
  if (instruction.cell >= 0) write_cell(thread, instruction, result);
  if (violation_) return;
  if (instruction.out_edge >= 0) post(thread, instruction, result);
}

bool Simulation::read_operands(std::uint32_t thread, const Instruction& instruction, Message& result) {
  std::uint32_t finals = 0;
  for (std::uint32_t k = 0; k < instruction.operand_count; ++k) {
    const Reference& operand = program_.operands[instruction.first_operand + k];
    Message piece;
    const bool read = operand.edge >= 0   ? take_message(thread, instruction, operand, piece)
                      : operand.cell >= 0 ? read_cell(thread, operand, piece)
                                          : read_input(thread, instruction, operand, piece);
    if (!read) return false;
    finals += piece.final ? 1 : 0;
    if (k == 0) {
      result.value = piece.value;
      result.piece = piece.piece;
    } else if (result.piece != piece.piece) {
      const Contract& contract = program_.operations[instruction.operation].contract;
      return fail(Rule::chunk_mixup,
                  "adds " + contract.describe_piece(piece.piece) + " to " + contract.describe_piece(result.piece));
    } else {
      result.value.sum += piece.value.sum;
      result.value.tree = sum_hash(result.value.tree, piece.value.tree);
    }
  }
  if (instruction.rounds) result.value.tree = rounded_hash(result.value.tree);
  return check_piece(thread, instruction, result) && apply_final(instruction, finals, result);
}

bool Simulation::check_piece(std::uint32_t thread, const Instruction& instruction, const Message& result) {
  const Contract& contract = program_.operations[instruction.operation].contract;
  if (instruction.piece >= 0 && instruction.piece != std::int64_t{result.piece}) {
    const std::string wanted = contract.describe_piece(static_cast<std::uint32_t>(instruction.piece));
    return fail(Rule::chunk_mixup, "moves " + contract.describe_piece(result.piece) +
                                       (program_.lowered ? ", but counts its size as that of " + wanted
                                                         : " into " + describe(instruction.dst) +
                                                               ", which the schedule says holds " + wanted));
  }
  if (instruction.cell < 0 || instruction.dst.where() != Space::output) return true;
  if (contract.piece_of_output(program_.rank_of(thread), instruction.dst.chunk) == result.piece) return true;
  return fail(Rule::chunk_mixup,
              "writes " + contract.describe_piece(result.piece) + " to " + describe(instruction.dst));
}

bool Simulation::apply_final(const Instruction& instruction, std::uint32_t finals, Message& result) {
  result.final = finals > 0;
  if (!options_.check_marks) return true;
  const Contract& contract = program_.operations[instruction.operation].contract;
  if (!contract.reducing()) {
    if (instruction.final || instruction.scale)
      return fail(Rule::final_touch, "marks a first or final touch, but " +
                                         std::string(collective_name(contract.what())) + " does not reduce");
    return true;
  }
  if (instruction.kind == InstructionKind::reduce && finals > 0)
    return fail(Rule::final_touch, "reduces a value whose final touch has already happened");
  if (instruction.final && finals > 0) return fail(Rule::final_touch, "finishes a value a second time");
  if (instruction.final) result.final = true;
  return true;
}

bool Simulation::take_message(std::uint32_t thread, const Instruction& instruction, const Reference& reference,
                              Message& piece) {
  const EdgeState& edge = edges_[static_cast<std::size_t>(reference.edge)];
  const std::size_t slot = static_cast<std::size_t>(reference.edge) * window_ + (edge.head + reference.nth) % window_;
  piece = ring_[slot];
  if (piece.operation != instruction.operation)
    return fail(Rule::unmatched, "takes a message of operation " + std::to_string(piece.operation) +
                                     " while in operation " + std::to_string(instruction.operation));
  depth_[thread] = std::max(depth_[thread], piece.depth);
  const auto from = static_cast<std::size_t>(reference.edge);
  if (has_lanes_) clocks_.receive(thread, program_.edges[from].sender, from, piece.stamp);
  for (std::uint32_t k = 0; k < bit_words_; ++k) bits(thread)[k] |= payload_bits_[slot * bit_words_ + k];
  return true;
}

void Simulation::release_messages(const Instruction& instruction) {
  for (std::uint32_t k = 0; k < instruction.operand_count; ++k) {
    const Reference& operand = program_.operands[instruction.first_operand + k];
    if (operand.edge < 0) continue;
    EdgeState& edge = edges_[static_cast<std::size_t>(operand.edge)];
    edge.head = (edge.head + 1) % window_;
    --edge.count;
    ++edge.consumed;
    wake(program_.edges[static_cast<std::size_t>(operand.edge)].sender);
  }
}

void Simulation::post(std::uint32_t thread, const Instruction& instruction, Message message) {
  const auto e = static_cast<std::size_t>(instruction.out_edge);
  EdgeState& edge = edges_[e];
  const std::size_t slot = e * window_ + (edge.head + edge.count) % window_;
  message.operation = instruction.operation;
  message.depth = depth_[thread] + 1;
  stats_.rounds = std::max(stats_.rounds, message.depth);
  ++stats_.messages;
  if (has_lanes_) message.stamp = clocks_.send(thread, epoch(thread));
  if (bit_words_ > 0) std::copy_n(bits(thread), bit_words_, &payload_bits_[slot * bit_words_]);
  ring_[slot] = message;
  ++edge.count;
  ++edge.sent;
  stats_.most_in_flight = std::max(stats_.most_in_flight, edge.count);
  wake(program_.edges[e].receiver);
}

bool Simulation::read_cell(std::uint32_t thread, const Reference& reference, Message& piece) {
  const auto cell = static_cast<std::size_t>(reference.cell);
  if (writer_[cell] < 0)
    return fail(Rule::unwritten, "reads " + describe(reference.slot) + ", to which nothing has been written");
  if (has_lanes_ && race(thread, reference.cell, false, false)) return false;
  piece.value = values_[cell];
  piece.piece = piece_[cell];
  piece.final = final_[cell] != 0;
  return true;
}

bool Simulation::read_input(std::uint32_t thread, const Instruction& instruction, const Reference& reference,
                            Message& piece) {
  const std::uint32_t chunk = reference.slot.chunk;
  const Contract& contract = program_.operations[instruction.operation].contract;
  const int rank = program_.rank_of(thread);
  if (contract.aliases(rank, chunk)) {
    const std::int32_t cell = program_.output_cell(instruction.operation, rank, chunk);
    if (clobbered_[static_cast<std::size_t>(cell)] != 0)
      return fail(
          Rule::in_place,
          "reads input " + std::to_string(chunk) + ", which in an in-place call is output " + std::to_string(chunk) +
              " and was overwritten by " + "step " +
              std::to_string(program_.code[static_cast<std::size_t>(writer_[static_cast<std::size_t>(cell)])].step));
    if (has_lanes_ && race(thread, cell, true, false)) return false;
  }
  if (options_.check_marks && contract.reducing() && !instruction.scale)
    return fail(Rule::scale, "reads input " + std::to_string(chunk) + " raw but does not scale it");
  piece.value.sum = word(instruction.operation, rank, chunk);
  piece.value.tree = leaf_hash(word(instruction.operation, rank, chunk));
  piece.piece = contract.piece_of_input(rank, chunk);
  piece.final = false;
  return true;
}

void Simulation::write_cell(std::uint32_t thread, const Instruction& instruction, const Message& result) {
  const auto cell = static_cast<std::size_t>(instruction.cell);
  if (has_lanes_ && race(thread, instruction.cell, false, true)) return;
  values_[cell] = result.value;
  piece_[cell] = result.piece;
  final_[cell] = result.final ? 1 : 0;
  writer_[cell] = static_cast<std::int32_t>(current_);
  // In place, copying a chunk onto itself changes nothing - unless an average scales it on the way.
  const Contract& contract = program_.operations[instruction.operation].contract;
  const Reference& first = program_.operands[instruction.first_operand];
  const bool onto_itself = instruction.kind == InstructionKind::copy && first.cell < 0 && first.edge < 0 &&
                           instruction.dst.where() == Space::output && first.slot.chunk == instruction.dst.chunk;
  if (!onto_itself || contract.reducing()) clobbered_[cell] = 1;
}

void Simulation::finish_operation(std::uint32_t thread, const Instruction& instruction) {
  if (bit_words_ == 0) return;
  const auto rank = static_cast<std::uint32_t>(program_.rank_of(thread));
  const std::size_t base = (instruction.operation * static_cast<std::size_t>(program_.ranks) + rank) * bit_words_;
  for (std::uint32_t k = 0; k < bit_words_; ++k) {
    exit_bits_[base + k] |= bits(thread)[k];
    bits(thread)[k] = 0;
  }
  bits(thread)[rank / 64] |= std::uint64_t{1} << (rank % 64);
}

// ---- hazards -------------------------------------------------------------------------------------------------------

bool Simulation::known(std::uint32_t thread, std::uint32_t other, std::uint32_t epoch) const {
  return epoch == 0 || other == thread || clocks_.knows(thread, other, epoch);
}

/// True, with the violation set, if this access and one of another lane are unordered. `input_alias`: the access is to
/// the input chunk that shares the output cell's memory in an in-place call. Records the access otherwise.
bool Simulation::race(std::uint32_t thread, std::int32_t cell, bool input_alias, bool writes) {
  const auto lanes = static_cast<std::uint32_t>(program_.lanes);
  const std::uint32_t first = thread - thread % lanes;
  const auto c = static_cast<std::size_t>(cell);
  const auto complain = [&](std::uint32_t lane, std::uint32_t epoch, const char* other_does, bool alias) {
    const std::uint32_t other = program_.thread_begin[first + lane] + epoch - 1;
    const std::string what = std::string(writes ? "writes" : "reads") + " a slot that " + place(first + lane) +
                             " step " + std::to_string(program_.code[other].step) + " (line " +
                             std::to_string(program_.code[other].site) + ") " + other_does +
                             "; neither a wait nor a message orders the two";
    fail(alias ? Rule::in_place : Rule::race, what + (alias ? " (input and output share memory in place)" : ""));
    return true;
  };
  if (!known(thread, first + write_lane_[c], write_epoch_[c]))
    return complain(write_lane_[c], write_epoch_[c], "writes", input_alias);
  if (writes) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      if (!known(thread, first + lane, read_epoch_[c * lanes + lane]))
        return complain(lane, read_epoch_[c * lanes + lane], "reads", false);
      if (!known(thread, first + lane, alias_epoch_[c * lanes + lane]))
        return complain(lane, alias_epoch_[c * lanes + lane], "reads", true);
    }
    write_lane_[c] = static_cast<std::uint8_t>(thread - first);
    write_epoch_[c] = epoch(thread);
  } else {
    (input_alias ? alias_epoch_ : read_epoch_)[c * lanes + (thread - first)] = epoch(thread);
  }
  return false;
}

// ---- messages for people -------------------------------------------------------------------------------------------

Violation Simulation::at(const Program& program, std::uint32_t instruction, Rule rule, std::string text) {
  const auto after = std::upper_bound(program.thread_begin.begin(), program.thread_begin.end(), instruction);
  const auto thread = static_cast<std::uint32_t>(after - program.thread_begin.begin() - 1);
  const Instruction& place = program.code[instruction];
  if (program.operations.size() > 1) text = "operation " + std::to_string(place.operation) + ": " + text;
  if (program.lowered) text = "lowered: " + text;
  return {rule,       program.rank_of(thread), program.lane_of(thread), static_cast<int>(place.step),
          place.site, std::move(text)};
}

bool Simulation::fail(Rule rule, std::string text) {
  violation_ = at(program_, current_, rule, std::move(text));
  return false;
}

std::string Simulation::place(std::uint32_t thread) const {
  return "rank " + std::to_string(program_.rank_of(thread)) + " lane " + std::to_string(program_.lane_of(thread));
}

/// The thread that a blocked thread waits for.
std::uint32_t Simulation::blocker(std::uint32_t thread) const {
  const Instruction& instruction = program_.code[position_[thread]];
  if (instruction.kind == InstructionKind::wait) return instruction.wait_thread;
  if (instruction.kind == InstructionKind::next_operation) {
    const auto lanes = static_cast<std::uint32_t>(program_.lanes);
    const std::uint32_t first = thread - thread % lanes;
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
      if (arrived_[first + lane] == 0) return first + lane;
  }
  for (std::uint32_t k = 0; k < instruction.operand_count; ++k) {
    const Reference& operand = program_.operands[instruction.first_operand + k];
    if (operand.edge >= 0 && posted_[thread] == 0 &&
        edges_[static_cast<std::size_t>(operand.edge)].count <= operand.nth)
      return program_.edges[static_cast<std::size_t>(operand.edge)].sender;
  }
  return program_.edges[static_cast<std::size_t>(instruction.out_edge)].receiver;
}

std::string Simulation::blocked_on(std::uint32_t thread) const {
  const Instruction& instruction = program_.code[position_[thread]];
  const std::uint32_t other = blocker(thread);
  const std::string who = "rank " + std::to_string(program_.rank_of(other));
  if (instruction.kind == InstructionKind::wait || instruction.kind == InstructionKind::next_operation)
    return "waits for lane " + std::to_string(program_.lane_of(other));
  if (instruction.out_edge >= 0 && program_.edges[static_cast<std::size_t>(instruction.out_edge)].receiver == other &&
      (instruction.kind == InstructionKind::send || posted_[thread] != 0))
    return "waits to send to " + who + " (" +
           std::to_string(edges_[static_cast<std::size_t>(instruction.out_edge)].count) +
           " messages unconsumed, credits " + std::to_string(options_.credits) + ")";
  return "waits for a message of " + who;
}

Violation Simulation::explain_deadlock() const {
  std::uint32_t thread = 0;
  const auto finished = [this](std::uint32_t t) { return position_[t] == program_.thread_begin[t + 1]; };
  while (finished(thread)) ++thread;
  // After as many hops as there are threads, the chain has reached its cycle or a finished thread.
  for (std::uint32_t hop = 0; hop < program_.threads() && !finished(blocker(thread)); ++hop) thread = blocker(thread);
  std::string text = blocked_on(thread);
  if (finished(blocker(thread))) return at(program_, position_[thread], Rule::unmatched, text + ", which has ended");
  constexpr int kMostShown = 4;
  std::uint32_t next = blocker(thread);
  for (int shown = 1; next != thread; next = blocker(next), ++shown) {
    if (shown == kMostShown) {
      text += ", and so on in a circle";
      break;
    }
    const Instruction& instruction = program_.code[position_[next]];
    text += ", which in step " + std::to_string(instruction.step) + " (line " + std::to_string(instruction.site) +
            ") " + blocked_on(next);
  }
  return at(program_, position_[thread], Rule::deadlock, text);
}

}  // namespace tutti::core
