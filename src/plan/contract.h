// SPDX-License-Identifier: Apache-2.0
// What each collective promises, chunk by chunk: the specification that the checker proves schedules against.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/base/types.h"

namespace tutti::core {

/// The promise of one collective over `ranks` ranks whose buffers are cut into `chunks` chunks. Chunk c of every rank
/// means the same elements of the collective.
///
///                   rank r's input      rank r's output   output chunk c holds       in place: input c is output c
///   all_reduce      every chunk         every chunk       every rank's chunk c       every c
///   all_gather      chunk r             every chunk       rank c's chunk c           c = r
///   reduce_scatter  every chunk         chunk r           every rank's chunk c       c = r
///   broadcast       every chunk (root)  every chunk       the root's chunk c         every c
///   barrier         one empty chunk     one empty chunk   nothing; every exit follows every entry
class Contract {
 public:
  Contract(tutti_collective what, int ranks, int root, std::uint32_t chunks)
      : what_(what), ranks_(ranks), root_(root), chunks_(chunks) {}

  tutti_collective what() const { return what_; }
  int ranks() const { return ranks_; }
  int root() const { return root_; }
  std::uint32_t chunks() const { return chunks_; }
  bool reducing() const { return is_reduction(what_); }
  bool is_barrier() const { return what_ == TUTTI_BARRIER; }

  /// The user gives `rank` this input chunk.
  bool has_input(int rank, std::uint32_t chunk) const {
    if (chunk >= chunks_) return false;
    if (what_ == TUTTI_ALL_GATHER) return is_block_of(rank, chunk);
    if (what_ == TUTTI_BROADCAST) return rank == root_;
    return true;
  }
  /// The user gives `rank` this output chunk, and it must hold its contributions at the end.
  bool has_output(int rank, std::uint32_t chunk) const {
    if (chunk >= chunks_) return false;
    return what_ != TUTTI_REDUCE_SCATTER || is_block_of(rank, chunk);
  }
  /// `contributor`'s input chunk `chunk` is part of output chunk `chunk`, exactly once, on every rank that has it.
  bool contributes(int contributor, std::uint32_t chunk) const {
    switch (what_) {
      case TUTTI_ALL_REDUCE:
      case TUTTI_REDUCE_SCATTER: return true;
      case TUTTI_ALL_GATHER: return is_block_of(contributor, chunk);
      case TUTTI_BROADCAST: return contributor == root_;
      default: return false;
    }
  }
  /// In an in-place call, input chunk and output chunk `chunk` of `rank` are the same memory.
  bool aliases(int rank, std::uint32_t chunk) const {
    if (is_barrier()) return false;
    return has_input(rank, chunk) && has_output(rank, chunk);
  }

  /// invalid_argument unless the collective has a contract and the number of ranks, the root and the chunks fit it.
  Status validate() const;

 private:
  static bool is_block_of(int rank, std::uint32_t chunk) { return chunk == static_cast<std::uint32_t>(rank); }

  tutti_collective what_;
  int ranks_;
  int root_;
  std::uint32_t chunks_;
};

}  // namespace tutti::core
