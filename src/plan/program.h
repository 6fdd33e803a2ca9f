// SPDX-License-Identifier: Apache-2.0
// The checker's own form of all ranks' schedules or lowered plans, possibly of several operations one after another:
// flat arrays in which every slot is a cell number and every message names its edge. Internal to src/plan/check*.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/plan/contract.h"
#include "src/plan/lower.h"
#include "src/plan/schedule.h"
#include "src/plan/violation.h"

namespace tutti::core {

/// Something an instruction reads: a message of an edge, a cell, or (neither) the rank's input chunk slot.chunk.
struct Reference {
  Slot slot;
  std::int32_t cell = -1;
  std::int32_t edge = -1;
  std::uint32_t nth = 0;  ///< of the messages that this instruction takes from the edge
};

enum class InstructionKind : std::uint8_t { send, receive, reduce, copy, wait, next_operation };

/// Reads its operands, folds them left to right, writes `cell` and sends to `out_edge` where these are >= 0.
struct Instruction {
  InstructionKind kind;
  bool rounds = false;  ///< the fold ends here: 16-bit floats round now
  bool scale = false;
  bool final = false;
  std::uint16_t site = 0;
  std::uint16_t operation = 0;
  std::int32_t cell = -1;
  std::int32_t out_edge = -1;
  std::uint32_t first_operand = 0;
  std::uint32_t operand_count = 0;
  std::int32_t snapshot = -1;  ///< somebody waits for this instruction
  std::uint32_t wait_thread = 0;
  std::uint32_t wait_count = 0;  ///< instructions of wait_thread that must be done
  std::int64_t piece = -1;       ///< what it must move (Contract::piece_of_input); -1: anything
  std::uint32_t step = 0;        ///< index among the lane's steps or actions
  Slot src{}, dst{};             ///< messages: as the schedule names them
};

/// One operation of a sequence.
struct ProgramOperation {
  Contract contract;
  std::uint32_t cells_per_rank = 0;
  std::uint32_t first_cell = 0;
};

struct ProgramEdge {
  std::uint32_t sender = 0;  ///< threads
  std::uint32_t receiver = 0;
};

/// A thread is one lane of one rank: rank * lanes + lane.
struct Program {
  int ranks = 1;
  int lanes = 1;
  bool lowered = false;
  bool lanes_meet = true;  ///< between operations all lanes of a rank wait for each other; false: they are slices
  std::vector<std::uint32_t> thread_begin;  ///< threads + 1
  std::vector<Instruction> code;
  std::vector<Reference> operands;
  std::vector<ProgramEdge> edges;
  std::vector<ProgramOperation> operations;
  std::uint32_t cells = 0;
  std::uint32_t snapshots = 0;

  std::uint32_t threads() const { return static_cast<std::uint32_t>(ranks * lanes); }
  int rank_of(std::uint32_t thread) const { return static_cast<int>(thread) / lanes; }
  int lane_of(std::uint32_t thread) const { return static_cast<int>(thread) % lanes; }
  std::int32_t output_cell(std::size_t operation, int rank, std::uint32_t chunk) const {
    const ProgramOperation& op = operations[operation];
    return static_cast<std::int32_t>(op.first_cell + static_cast<std::uint32_t>(rank) * op.cells_per_rank + chunk);
  }
};

/// What one operation of a sequence runs; one of the two spans is empty.
struct OperationSource {
  Contract contract;
  std::span<const Schedule> schedules;
  std::span<const LoweredPlan> plans;
};

/// Either a program or the first thing that is malformed.
struct ProgramResult {
  Program program;
  std::optional<Violation> violation;
};
ProgramResult make_program(std::span<const OperationSource> operations, bool lanes_meet);

}  // namespace tutti::core
