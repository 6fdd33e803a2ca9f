// SPDX-License-Identifier: Apache-2.0
// Small collectives of one group that share an exchange. Their inputs are packed into one buffer, the row that each of
// them would have run alone runs once over it, and the outputs are unpacked:
//
//   2 operations, 4 chunks       A0 A1 A2 A3   B0 B1 B2 B3
//   packed, chunk by chunk       A0 B0 | A1 B1 | A2 B2 | A3 B3
//
// Chunk c of the buffer is made of the chunks c of the operations, so every element passes through the same ranks and
// operands as it would alone: fused and unfused give the same bits, whatever the row.
//
// Which operations fuse is a function of facts that are equal on all ranks (the order of the calls, the plans, the cost
// table): buffers have no say.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/cost_model.h"
#include "src/comm/operation.h"
#include "src/plan/contract.h"

namespace tutti::core {

struct CallEntry;

/// Operations that one exchange may carry. Half of what a control page remembers: when ranks disagree, the lists of
/// both can be told.
constexpr std::size_t kMostFused = kDescriptors / 2;

/// Bytes of its packed buffer: what is more would come out of the caches between packing and sending, and each
/// communicator keeps its buffer.
constexpr std::uint64_t kMostFusedBytes = std::uint64_t{4} << 20;

/// Whether packing an operation costs less than the rounds and messages that it saves. `bytes`: the larger buffer of a
/// rank; all of it is copied once into the packed buffer or once out of it, and at most as much the other way.
bool worth_fusing(const RowCost& row, const LinkCost& link, std::uint64_t bytes);

/// Calls of one group must be independent: a later one does not read what an earlier one of the same exchange writes.
/// Errors: invalid_argument, naming both. `operations`: of one communicator, in order.
Status check_independent(const std::vector<Operation*>& operations, int rank, int ranks);

/// The exchange that is being built or runs. Keeps its memory: the next one of the same sizes allocates nothing. Used
/// by the holder of the drive token only.
class FusedExchange {
 public:
  explicit FusedExchange(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  bool empty() const { return operations_.empty(); }
  const std::vector<Operation*>& operations() const { return operations_; }
  void clear() { operations_.clear(); }

  /// Begins with one operation.
  void open(Operation& operation, const CallEntry& entry);
  /// Adds an operation if it can share the exchange.
  bool add(Operation& operation, const CallEntry& entry);
  /// Of all the calls, in order; the first one's number is mixed in by the caller.
  std::uint64_t hash() const;

  const Plan& plan() const { return *plan_; }
  /// Of the packed buffer.
  const std::vector<ChunkRange>& chunks() const { return packed_; }
  /// Fills in buffers, chunks and edges; slices and streams are set already. Packs the inputs.
  /// Errors: unavailable (memory).
  Status bind(Bindings& bindings);
  /// The results are there: to the users' buffers.
  void unpack();

 private:
  /// A chunk of one operation: where it lies in the user's buffers.
  struct PieceRange {
    std::uint64_t input, output, bytes;
  };
  template <class Copy>
  void for_each_piece(std::uint32_t chunk, const Copy& copy) const;
  void append(Operation& operation, const CallEntry& entry);
  std::byte* output() const { return buffer_.get() + (separate() ? bytes_ : 0); }
  /// all_to_all has no in-place form.
  bool separate() const { return what_ == TUTTI_ALL_TO_ALL; }
  Contract contract() const;

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  int rank_, ranks_;
  tutti_collective what_ = TUTTI_BARRIER;
  tutti_dtype type_ = TUTTI_INT8;
  tutti_op op_ = TUTTI_SUM;
  int root_ = -1;
  const Plan* plan_ = nullptr;
  std::vector<Operation*> operations_;
  std::vector<std::uint64_t> fingerprints_;
  std::vector<PieceRange> ranges_;  // [operation * chunks + chunk]
  std::vector<ChunkRange> packed_;  // by chunk
  std::uint64_t bytes_ = 0;
  EdgeTable edges_;
  std::unique_ptr<std::byte, Free> buffer_;
  std::size_t capacity_ = 0;
};

}  // namespace tutti::core
