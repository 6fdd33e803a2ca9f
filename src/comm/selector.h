// SPDX-License-Identifier: Apache-2.0
// The one owner of the decision which row runs. A pure function of facts equal on all ranks: collective, bytes, ranks,
// the cost table and the agreed `algorithm` knob.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/comm/cost_model.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

struct Candidate {
  const Algorithm* row = nullptr;
  double predicted_ns = 0;
};

class Selector {
 public:
  Selector(int ranks, LinkCost cost) : ranks_(ranks), cost_(cost) {}

  /// `forced`: row name from the call or the knob; empty: the cheapest row. Errors: invalid_argument (unknown name,
  /// lists the rows), unsupported (the row does not admit this rank count).
  Result<const Algorithm*> choose(tutti_collective what, std::uint64_t bytes, std::string_view forced) const;
  /// Rows that admit this rank count, cheapest first; ties keep registry order.
  std::vector<Candidate> candidates(tutti_collective what, std::uint64_t bytes) const;
  /// The reason of a choice, as text of several lines.
  std::string explain(tutti_collective what, std::uint64_t bytes, std::string_view forced) const;
  const LinkCost& cost() const { return cost_; }

 private:
  int ranks_;
  LinkCost cost_;
};

}  // namespace tutti::core
