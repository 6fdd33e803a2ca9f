// SPDX-License-Identifier: Apache-2.0
// The one owner of the decision which row runs. A pure function of facts equal on all ranks: collective, bytes, ranks,
// the cost table and the agreed knobs `algorithm` and `reproducible`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/config.h"
#include "src/comm/cost_model.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

/// What a reduction's bits may depend on (docs/determinism.md); the order of the knob's choices.
enum class Reproducible : std::uint8_t {
  none,  ///< everything but the run
  l2,    ///< not on message size, chunks, lanes or transport
  l4,    ///< nor on the number of ranks
};

struct Candidate {
  const Algorithm* row = nullptr;
  Prediction predicted;
  double predicted_ns = 0;  ///< predicted.total_ns()
  std::string excluded;     ///< why the row may not run; empty: it may. Nothing is predicted then.
};

/// The row that the setting `algorithm` asks for, empty: none. A bare name ("ring") counts for every collective that
/// has such a row, and for all if none has, so that a wrong name is found.
std::string_view forced_row(const Config& config, tutti_collective what);

class Selector {
 public:
  Selector(int ranks, LinkCost cost, Reproducible reproducible = Reproducible::none)
      : ranks_(ranks), cost_(std::move(cost)), reproducible_(reproducible) {}

  /// `bytes`: the larger buffer of a rank; all ranks must say the same. For all_to_all_v, where a rank knows its own
  /// counts only, it is not looked at.
  /// `forced`: row name from the call or the knob; empty: the cheapest row. Errors: invalid_argument (unknown name,
  /// lists the rows), unsupported (the row does not admit this form, rank count or level of reproducibility).
  Result<const Algorithm*> choose(tutti_collective what, std::uint64_t bytes, std::string_view forced) const;
  /// Rows that may run, cheapest first; ties keep registry order.
  std::vector<Candidate> candidates(tutti_collective what, std::uint64_t bytes) const;
  /// All rows of the collective: the candidates, then the others with the reason.
  std::vector<Candidate> consider(tutti_collective what, std::uint64_t bytes) const;
  /// The reason of a choice, as text of several lines.
  std::string explain(tutti_collective what, std::uint64_t bytes, std::string_view forced) const;
  const LinkCost& cost() const { return cost_; }
  Reproducible reproducible() const { return reproducible_; }

 private:
  std::string exclusion(const Algorithm& row, tutti_collective what) const;
  /// The one tree of all sums of a reduction, whatever the size; `any`: there is none for this number of ranks.
  Tree wanted_tree(tutti_collective form) const;
  double predicted_ns(const Algorithm& row, tutti_collective what, std::uint64_t bytes) const;

  int ranks_;
  LinkCost cost_;
  Reproducible reproducible_;
};

/// Of everything but the cost table that a selection over `ranks` ranks depends on: the rows with their restrictions
/// and costs. Ranks whose libraries differ in that would choose differently.
std::uint64_t selection_hash(int ranks);

}  // namespace tutti::core
