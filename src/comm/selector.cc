// SPDX-License-Identifier: Apache-2.0
#include "src/comm/selector.h"

#include <algorithm>
#include <array>
#include <bit>

#include "src/base/random.h"
#include "src/base/text.h"
#include "src/base/types.h"

namespace tutti::core {

namespace {

std::string row_names(tutti_collective form) {
  std::string names;
  for (const Algorithm& row : algorithms())
    if (row.what == form) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string_view reproducible_name(Reproducible level) {
  constexpr std::array<std::string_view, 3> kNames{"none", "l2", "l4"};
  return kNames[static_cast<std::size_t>(level)];
}

}  // namespace

std::string Selector::exclusion(const Algorithm& row, tutti_collective what) const {
  if (!admits(row, ranks_)) {
    if (row.needs.power_of_two && !std::has_single_bit(static_cast<unsigned>(ranks_)))
      return "wants a power of two of ranks";
    if (row.needs.max_ranks > 0 && ranks_ > row.needs.max_ranks)
      return "runs over at most " + std::to_string(row.needs.max_ranks) + " ranks";
    return "does not run over " + std::to_string(ranks_) + " ranks";
  }
  if (what == TUTTI_ALL_TO_ALL_V && row.needs.forwards)
    return "forwards blocks of other ranks, whose sizes a rank does not know";
  if (reproducible_ == Reproducible::none || !is_reduction(what)) return "";
  const Tree wanted = wanted_tree(equal_form(what));
  if (wanted == Tree::any)
    return "does not add in the order that reproducible=" + std::string(reproducible_name(reproducible_)) + " wants";
  if (row.tree != wanted) return "does not add in the order that is wanted: " + std::string(tree_name(wanted));
  return "";
}

Tree Selector::wanted_tree(tutti_collective form) const {
  // By preference: a level that is content with any fixed tree takes the one whose rows are cheapest.
  constexpr std::array kFixed{Tree::rank_order, Tree::balanced};
  for (std::size_t i = reproducible_ == Reproducible::l4 ? 1 : 0; i < kFixed.size(); ++i)
    for (const Algorithm& row : algorithms())
      if (row.what == form && row.tree == kFixed[i] && admits(row, ranks_)) return kFixed[i];
  return Tree::any;
}

double Selector::predicted_ns(const Algorithm& row, tutti_collective what, std::uint64_t bytes) const {
  // Only own counts are known there: a choice by size would differ between ranks.
  return predict_ns(row.cost(ranks_), cost_, what == TUTTI_ALL_TO_ALL_V ? 0 : bytes);
}

std::vector<Candidate> Selector::consider(tutti_collective what, std::uint64_t bytes) const {
  const tutti_collective form = equal_form(what);
  std::vector<Candidate> found;
  for (const Algorithm& row : algorithms()) {
    if (row.what != form) continue;
    Candidate candidate{&row, {}, 0, exclusion(row, what)};
    if (candidate.excluded.empty()) {
      candidate.predicted = predict(row.cost(ranks_), cost_, what == TUTTI_ALL_TO_ALL_V ? 0 : bytes);
      candidate.predicted_ns = candidate.predicted.total_ns();
    }
    found.push_back(std::move(candidate));
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    if (a.excluded.empty() != b.excluded.empty()) return a.excluded.empty();
    return a.predicted_ns < b.predicted_ns;
  });
  return found;
}

std::vector<Candidate> Selector::candidates(tutti_collective what, std::uint64_t bytes) const {
  std::vector<Candidate> found = consider(what, bytes);
  std::erase_if(found, [](const Candidate& candidate) { return !candidate.excluded.empty(); });
  return found;
}

std::string_view forced_row(const Config& config, tutti_collective what) {
  const std::string_view name = config.forced_algorithm(what);
  if (name.empty() || find_algorithm(equal_form(what), name)) return name;
  // Not this collective's. Named for it alone, or no row at all: choose() says so.
  const bool bare = config.forced_algorithm(TUTTI_SEND) == name;
  const auto all = algorithms();
  const bool known = std::any_of(all.begin(), all.end(), [&](const Algorithm& row) { return row.name == name; });
  return bare && known ? std::string_view() : name;
}

Result<const Algorithm*> Selector::choose(tutti_collective what, std::uint64_t bytes, std::string_view forced) const {
  const tutti_collective form = equal_form(what);
  const std::string name(collective_name(what));
  if (!forced.empty()) {
    const Algorithm* row = find_algorithm(form, forced);
    if (!row)
      return Status::error(TUTTI_INVALID_ARGUMENT,
                           "algorithm \"" + std::string(forced) + "\" does not exist for " + name)
          .with_remedy("one of: " + row_names(form) + "; see `tutti plan --list`");
    if (const std::string why = exclusion(*row, what); !why.empty())
      return Status::error(TUTTI_UNSUPPORTED,
                           "algorithm \"" + std::string(forced) + "\" of " + name + " cannot be used here: it " + why)
          .with_remedy("see the restrictions in `tutti plan --list`");
    return row;
  }
  const Algorithm* best = nullptr;
  double best_ns = 0;
  for (const Algorithm& row : algorithms()) {
    if (row.what != form || !exclusion(row, what).empty()) continue;
    const double ns = predicted_ns(row, what, bytes);
    if (!best || ns < best_ns) {
      best = &row;
      best_ns = ns;
    }
  }
  if (!best) {
    const std::string level(reproducible_name(reproducible_));
    const bool fixed = reproducible_ != Reproducible::none && is_reduction(what);
    return Status::error(TUTTI_UNSUPPORTED, "no algorithm for " + name + " over " + std::to_string(ranks_) + " ranks" +
                                                (fixed ? " with reproducible=" + level : ""))
        .with_remedy("`tutti plan --why --collective " + name + " --ranks " + std::to_string(ranks_) +
                     (fixed ? " --reproducible " + level : "") + "` says what excludes each");
  }
  return best;
}

std::string Selector::explain(tutti_collective what, std::uint64_t bytes, std::string_view forced) const {
  auto chosen = choose(what, bytes, forced);
  std::string text = std::string(collective_name(what)) + " of " + std::to_string(bytes) + " bytes over " +
                     std::to_string(ranks_) + " ranks: ";
  if (!chosen.is_ok()) return text + chosen.status().to_string() + "\n";
  text += std::string((*chosen)->name) + (forced.empty() ? ", the cheapest by the model" : ", as asked for");
  if (reproducible_ != Reproducible::none && is_reduction(what))
    text += " among those that add by the tree \"" + std::string(tree_name((*chosen)->tree)) + "\"";
  text += "\n";
  text += text_format("  link %s: alpha %.0f ns, overhead %.0f ns, beta %.3f, gamma %.3f, delta %.3f ns/B\n",
                      std::string(cost_.kind).c_str(), cost_.alpha_ns, cost_.overhead_ns, cost_.beta_ns, cost_.gamma_ns,
                      cost_.delta_ns);
  text += "  constants: " + cost_.origin + "\n";
  for (const Candidate& candidate : consider(what, bytes)) {
    const std::string name(candidate.row->name);
    if (!candidate.excluded.empty()) {
      text += text_format("  %-20s %12s   %s\n", name.c_str(), "-", candidate.excluded.c_str());
      continue;
    }
    const RowCost cost = candidate.row->cost(ranks_);
    text += text_format("  %-20s %12s = %g rounds, %g messages, %.3f n sent, %.3f n reduced\n", name.c_str(),
                        microseconds_text(candidate.predicted_ns).c_str(), cost.rounds, cost.messages, cost.sent,
                        cost.reduced);
  }
  return text;
}

std::uint64_t selection_hash(int ranks) {
  std::uint64_t hash = static_cast<std::uint64_t>(ranks);
  for (const Algorithm& row : algorithms()) {
    hash = hash_combine(hash_combine(hash, static_cast<std::uint64_t>(row.what)), hash_text(row.name));
    hash = hash_combine(hash, (row.needs.forwards ? 1U : 0U) + 2 * static_cast<std::uint64_t>(row.tree));
    if (!admits(row, ranks)) continue;
    const RowCost cost = row.cost(ranks);
    for (const double term : {cost.rounds, cost.sent, cost.reduced, cost.messages})
      hash = hash_combine(hash, std::bit_cast<std::uint64_t>(term));
  }
  return hash;
}

}  // namespace tutti::core
