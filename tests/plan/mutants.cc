// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/mutants.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "src/base/types.h"
#include "src/plan/check.h"
#include "src/plan/interpret.h"
#include "src/plan/mutate.h"

namespace tutti::core {

void MutantCount::add(const MutantCount& other) {
  mutants += other.mutants;
  harmful += other.harmful;
  rejected += other.rejected;
  lowered += other.lowered;
  survivors.insert(survivors.end(), other.survivors.begin(), other.survivors.end());
}

namespace {

/// Mutants that the checker accepts are odd but correct schedules, so lowering must keep them correct.
bool lowers_correctly(const std::vector<Schedule>& schedules, const Algorithm& row, int root) {
  auto plans = lower_all(schedules, lower_options(row.what, 1));
  if (!plans.is_ok()) return false;
  const CheckOutcome plain = check_schedules(schedules, {row.what, root, row.needs.credits});
  const CheckOutcome lowered =
      check_lowered(*plans, {row.what, root, lowered_credits(*plans, row.needs.credits), row.tree});
  return lowered.ok() && lowered.trees == plain.trees;
}

}  // namespace

MutantCount count_mutants(const Algorithm& row, int ranks, const MutantOptions& options) {
  MutantCount count;
  // A root in the middle, so that numbering relative to it shows.
  const int root = is_rooted(row.what) ? ranks / 2 : 0;
  auto built = build_all(row, ranks, root);
  EXPECT_TRUE(built.is_ok()) << built.status().to_string();
  std::vector<Schedule> schedules = std::move(*built);
  const std::vector<Schedule> original = schedules;
  const CheckOptions check_options{row.what, root, row.needs.credits, row.tree};
  const Judge judge(original, {row.what, root, row.needs.credits, false, row.tree != Tree::any});
  EXPECT_FALSE(judge.is_harmful(original, 3)) << "the judge refuses the row itself";

  std::vector<Mutation> mutations = list_mutations(original);
  if (options.at_most > 0 && mutations.size() > options.at_most) {
    std::mt19937_64 random(options.seed * 1000003 + static_cast<std::uint64_t>(ranks));
    for (std::size_t k = 0; k < options.at_most; ++k)
      std::swap(mutations[k], mutations[k + random() % (mutations.size() - k)]);
    mutations.resize(options.at_most);
  }
  for (const Mutation& mutation : mutations) {
    Schedule& place = schedules[static_cast<std::size_t>(mutation.rank)];
    place = mutate(original, mutation);
    const bool rejected = !check_schedules(schedules, check_options).ok();
    const bool harmful = judge.is_harmful(schedules, options.interleavings);
    const bool broken = !rejected && !lowers_correctly(schedules, row, root);
    place = original[static_cast<std::size_t>(mutation.rank)];
    ++count.mutants;
    count.harmful += harmful ? 1 : 0;
    count.rejected += rejected ? 1 : 0;
    count.lowered += rejected || broken ? 0 : 1;
    if (broken)
      count.survivors.push_back("lowering breaks " + std::to_string(ranks) + " ranks, " + describe(original, mutation));
    if (harmful && !rejected)
      count.survivors.push_back(std::to_string(ranks) + " ranks, " + describe(original, mutation));
  }
  return count;
}

std::string summary(const std::string& label, const MutantCount& count) {
  const std::uint64_t harmless = count.mutants - count.harmful;
  const std::uint64_t strict = count.rejected + count.survivors.size() - count.harmful;
  const auto percent = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  char text[256];
  std::snprintf(text, sizeof text,
                "%-34s %8llu mutants, %8llu harmful, %llu of them accepted; harmless %4.1f %%, the checker rejects "
                "%5.1f %% of these",
                label.c_str(), static_cast<unsigned long long>(count.mutants),
                static_cast<unsigned long long>(count.harmful), static_cast<unsigned long long>(count.survivors.size()),
                percent(harmless, count.mutants), percent(strict, harmless));
  return text;
}

}  // namespace tutti::core
