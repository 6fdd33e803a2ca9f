// SPDX-License-Identifier: Apache-2.0
#include "src/plan/contract.h"

namespace tutti::core {

Status Contract::validate() const {
  const std::string name(collective_name(what_));
  if (static_cast<unsigned>(what_) >= TUTTI_COLLECTIVE_COUNT || is_point_to_point(what_))
    return Status::error(TUTTI_INVALID_ARGUMENT, "collective " + name + " has no schedule: it is point to point");
  if (ranks_ < 1) return Status::error(TUTTI_INVALID_ARGUMENT, "ranks is " + std::to_string(ranks_) + ", must be >= 1");
  if (root_ < 0 || root_ >= ranks_)
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "root is " + std::to_string(root_) + ", must be 0.." + std::to_string(ranks_ - 1));
  if (has_blocks(what_) && chunks_ != static_cast<std::uint32_t>(ranks_))
    return Status::error(TUTTI_INVALID_ARGUMENT, name + " has " + std::to_string(chunks_) +
                                                     " chunks, must have one per rank (" + std::to_string(ranks_) +
                                                     "): they are the user's blocks");
  if (what_ == TUTTI_BARRIER && chunks_ != 1)
    return Status::error(TUTTI_INVALID_ARGUMENT,
                         "barrier has " + std::to_string(chunks_) + " chunks, must have 1 (empty)");
  if (chunks_ < 1) return Status::error(TUTTI_INVALID_ARGUMENT, name + " has no chunks, must have at least 1");
  return Status::ok();
}

std::string Contract::describe_piece(std::uint32_t piece) const {
  if (what_ != TUTTI_ALL_TO_ALL) return "a piece of chunk " + std::to_string(piece);
  return "rank " + std::to_string(piece / chunks_) + "'s block for rank " + std::to_string(piece % chunks_);
}

}  // namespace tutti::core
