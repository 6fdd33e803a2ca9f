// SPDX-License-Identifier: Apache-2.0
// The proofs that a whole row of the registry must pass.
#include <algorithm>
#include <random>

#include "src/base/types.h"
#include "src/plan/check.h"

namespace tutti::core {

namespace {

/// Up to here every root is tried; above, the first, the second and the last.
constexpr int kEveryRoot = 16;

/// Above, only the schedules and the lowered plans are proved, one operation each: sequences of three over 1000 ranks
/// would take gigabytes, and what they add (windows, left-overs) does not depend on such numbers.
constexpr int kMostSequencedRanks = 300;

std::vector<int> roots_of(const Algorithm& row, int ranks) {
  if (!is_rooted(row.what) || ranks == 1) return {0};
  std::vector<int> roots;
  if (ranks > kEveryRoot) return {0, 1, ranks - 1};
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

std::string label(const Algorithm& row, int ranks, int root, std::string_view what) {
  std::string text = std::string(collective_name(row.what)) + "/" + std::string(row.name) + " over " +
                     std::to_string(ranks) + " ranks";
  if (is_rooted(row.what)) text += ", root " + std::to_string(root);
  return text + ", " + std::string(what);
}

LowerOptions options_of(const Algorithm& row, bool fuse) {
  LowerOptions options = lower_options(row.what, row.needs.credits);
  options.fuse = fuse;
  return options;
}

/// All proofs of one row, rank count and root, as they go.
class RowChecker {
 public:
  RowChecker(const Algorithm& row, int ranks, int root) : row_(row), ranks_(ranks), root_(root) {}

  Status run(RowProof& proof) {
    TUTTI_TRY(schedules, build_all(row_, ranks_, root_));
    const CheckOptions options{row_.what, root_, row_.needs.credits, row_.tree};
    const CheckOutcome plain = check_schedules(schedules, options);
    TUTTI_TRY(count(plain, "schedules", proof));
    for (const bool fuse : {true, false}) {
      if (!fuse && ranks_ > kMostSequencedRanks) break;
      TUTTI_TRY(plans, lower_all(schedules, options_of(row_, fuse)));
      const int credits = lowered_credits(plans, row_.needs.credits);
      // Without fusion every reduce rounds by itself, so only the fused plans hold the schedule's expression trees.
      const CheckOutcome lowered = check_lowered(plans, {row_.what, root_, credits, fuse ? row_.tree : Tree::any});
      TUTTI_TRY(count(lowered, fuse ? "lowered" : "lowered without fusion", proof));
      if (fuse && lowered.trees != plain.trees)
        return Status::error(TUTTI_INTERNAL, label(row_, ranks_, root_, "lowered") +
                                                 ": computes other expression trees than the schedules");
      if (ranks_ <= kMostSequencedRanks) TUTTI_TRY(run_sequences(plans, credits, proof));
    }
    return {};
  }

 private:
  Status run_sequences(std::span<const LoweredPlan> plans, int credits, RowProof& proof) {
    const SequencedOperation operation{plans, row_.what, root_};
    const std::vector<SequencedOperation> three(3, operation);
    // Three in a row with no more credit than the row asks for, then with a window of line slots.
    SequenceOptions options{.window = credits, .return_every = 1, .slices = false};
    TUTTI_TRY(count(check_sequence(three, options), "three back to back", proof));
    options = {};
    TUTTI_TRY(count(check_sequence(three, options), "three back to back in a window of slots", proof));
    if (row_.what == TUTTI_BARRIER) return {};  // an empty message has one slice
    options = {.window = credits, .return_every = 1, .slices = true};
    return count(check_sequence(three, options), "three slices", proof);
  }

  Status count(const CheckOutcome& outcome, std::string_view what, RowProof& proof) {
    if (!outcome.ok())
      return to_status(*outcome.violation, std::string(row_.file.empty() ? row_.name : row_.file) + ".cc")
          .with_context(label(row_, ranks_, root_, what));
    proof.steps += outcome.steps;
    ++proof.proofs;
    return {};
  }

  const Algorithm& row_;
  const int ranks_;
  const int root_;
};

}  // namespace

Result<std::vector<Schedule>> build_all(const Algorithm& row, int ranks, int root) {
  if (ranks < 1 || !admits(row, ranks))
    return Status::error(TUTTI_UNSUPPORTED, std::string(collective_name(row.what)) + "/" + std::string(row.name) +
                                                " does not run over " + std::to_string(ranks) + " ranks");
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<std::size_t>(ranks));
  Placement placement;
  placement.ranks = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    placement.rank = rank;
    TUTTI_TRY(schedule, row.build({.placement = &placement, .root = root}));
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

Result<std::vector<LoweredPlan>> lower_all(std::span<const Schedule> schedules, const LowerOptions& options) {
  std::vector<LoweredPlan> plans;
  plans.reserve(schedules.size());
  for (const Schedule& schedule : schedules) {
    TUTTI_TRY(plan, lower(schedule, options));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Result<RowProof> check_row(const Algorithm& row, int ranks) {
  RowProof proof;
  for (const int root : roots_of(row, ranks)) TUTTI_TRY(RowChecker(row, ranks, root).run(proof));
  return proof;
}

Result<MixProof> check_mixes(std::span<const Algorithm> rows, int ranks, int mixes, std::uint64_t seed) {
  constexpr int kLongest = 6;  // operations in one mix
  std::mt19937_64 random(seed * 1000003 + static_cast<std::uint64_t>(ranks));
  MixProof proof;
  std::vector<const Algorithm*> candidates;
  for (const Algorithm& row : rows)
    if (admits(row, ranks)) candidates.push_back(&row);
  for (int mix = 0; mix < mixes && !candidates.empty(); ++mix) {
    std::vector<std::vector<LoweredPlan>> plans;
    std::vector<SequencedOperation> operations;
    std::string text = "mix";
    const int length = 2 + static_cast<int>(random() % (kLongest - 1));
    plans.reserve(static_cast<std::size_t>(length));
    for (int k = 0; k < length; ++k) {
      const Algorithm& row = *candidates[random() % candidates.size()];
      const int root = is_rooted(row.what) ? static_cast<int>(random() % static_cast<std::uint64_t>(ranks)) : 0;
      TUTTI_TRY(schedules, build_all(row, ranks, root));
      TUTTI_TRY(lowered, lower_all(schedules, options_of(row, true)));
      plans.push_back(std::move(lowered));
      operations.push_back({plans.back(), row.what, root});
      text +=
          std::string(k == 0 ? " of " : ", ") + std::string(collective_name(row.what)) + "/" + std::string(row.name);
    }
    const CheckOutcome outcome = check_sequence(operations, {});
    if (!outcome.ok())
      return to_status(*outcome.violation, "").with_context(text + " over " + std::to_string(ranks) + " ranks");
    proof.steps += outcome.steps;
    ++proof.mixes;
  }
  return proof;
}

}  // namespace tutti::core
