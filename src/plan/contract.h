// SPDX-License-Identifier: Apache-2.0
// What each collective promises, chunk by chunk: the specification that the checker proves schedules against.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/base/types.h"

namespace tutti::core {

/// The promise of one collective over `ranks` ranks whose buffers are cut into `chunks` chunks. Chunk c of every rank
/// means the same elements of the collective, except in all_to_all, where input chunk c of rank r is r's block for rank
/// c, and output chunk c of rank r is c's block for rank r. Forms with a count per rank (all_gather_v) keep the same
/// promise: a schedule has no sizes.
///
///                   rank r's input      rank r's output      output chunk c holds       in place: input c is output c
///   all_reduce      every chunk         every chunk          every rank's chunk c       every c
///   all_gather      chunk r             every chunk          rank c's chunk c           c = r
///   reduce_scatter  every chunk         chunk r              every rank's chunk c       c = r
///   broadcast       every chunk (root)  every chunk          the root's chunk c         every c
///   reduce          every chunk         every chunk (root)   every rank's chunk c       every c
///   gather          chunk r             every chunk (root)   rank c's chunk c           c = r
///   scatter         every chunk (root)  chunk r              the root's chunk c         c = r
///   all_to_all      every chunk         every chunk          rank c's chunk r           none: no in-place form
///   barrier         one empty chunk     one empty chunk      nothing; every exit follows every entry
class Contract {
 public:
  Contract(tutti_collective what, int ranks, int root, std::uint32_t chunks)
      : what_(equal_form(what)), ranks_(ranks), root_(root), chunks_(chunks) {}

  tutti_collective what() const { return what_; }
  int ranks() const { return ranks_; }
  int root() const { return root_; }
  std::uint32_t chunks() const { return chunks_; }
  bool reducing() const { return is_reduction(what_); }
  bool is_barrier() const { return what_ == TUTTI_BARRIER; }

  /// The user gives `rank` this input chunk.
  bool has_input(int rank, std::uint32_t chunk) const {
    if (chunk >= chunks_) return false;
    switch (what_) {
      case TUTTI_ALL_GATHER:
      case TUTTI_GATHER: return is_block_of(rank, chunk);
      case TUTTI_BROADCAST:
      case TUTTI_SCATTER: return rank == root_;
      default: return true;
    }
  }
  /// The user gives `rank` this output chunk, and it must hold its contributions at the end.
  bool has_output(int rank, std::uint32_t chunk) const {
    if (chunk >= chunks_) return false;
    switch (what_) {
      case TUTTI_REDUCE_SCATTER:
      case TUTTI_SCATTER: return is_block_of(rank, chunk);
      case TUTTI_REDUCE:
      case TUTTI_GATHER: return rank == root_;
      default: return true;
    }
  }
  /// Input chunk `contributed_chunk(rank, chunk)` of `contributor` is part of output chunk `chunk` of `rank`, exactly
  /// once; no other rank's is. Only where has_output(rank, chunk).
  bool contributes(int contributor, std::uint32_t chunk) const {
    switch (what_) {
      case TUTTI_ALL_REDUCE:
      case TUTTI_REDUCE_SCATTER:
      case TUTTI_REDUCE: return true;
      case TUTTI_ALL_GATHER:
      case TUTTI_GATHER:
      case TUTTI_ALL_TO_ALL: return is_block_of(contributor, chunk);
      case TUTTI_BROADCAST:
      case TUTTI_SCATTER: return contributor == root_;
      default: return false;
    }
  }
  /// Number of the input chunk that output chunk `chunk` of `rank` is made of.
  std::uint32_t contributed_chunk(int rank, std::uint32_t chunk) const {
    return what_ == TUTTI_ALL_TO_ALL ? static_cast<std::uint32_t>(rank) : chunk;
  }
  /// A number for what lies in an input chunk, and for what belongs into an output chunk: equal where one is (a part
  /// of) the other. The chunk's number but in all_to_all, whose chunk numbers mean another block on each rank.
  std::uint32_t piece_of_input(int rank, std::uint32_t chunk) const {
    return what_ == TUTTI_ALL_TO_ALL ? static_cast<std::uint32_t>(rank) * chunks_ + chunk : chunk;
  }
  std::uint32_t piece_of_output(int rank, std::uint32_t chunk) const {
    return what_ == TUTTI_ALL_TO_ALL ? chunk * chunks_ + static_cast<std::uint32_t>(rank) : chunk;
  }
  /// "a piece of chunk 3", "rank 1's block for rank 3".
  std::string describe_piece(std::uint32_t piece) const;
  /// In an in-place call, input chunk and output chunk `chunk` of `rank` are the same memory.
  bool aliases(int rank, std::uint32_t chunk) const {
    if (is_barrier() || what_ == TUTTI_ALL_TO_ALL) return false;
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
