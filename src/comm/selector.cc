// SPDX-License-Identifier: Apache-2.0
#include "src/comm/selector.h"

#include <algorithm>
#include <cstdio>

#include "src/base/types.h"

namespace tutti::core {

namespace {

std::string row_names(tutti_collective what) {
  std::string names;
  for (const Algorithm& row : algorithms())
    if (row.what == what) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string microseconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", ns / 1000.0);
  return text;
}

}  // namespace

std::vector<Candidate> Selector::candidates(tutti_collective what, std::uint64_t bytes) const {
  std::vector<Candidate> found;
  for (const Algorithm& row : algorithms())
    if (row.what == what && admits(row, ranks_)) found.push_back({&row, predict_ns(row.cost(ranks_), cost_, bytes)});
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.predicted_ns < b.predicted_ns; });
  return found;
}

Result<const Algorithm*> Selector::choose(tutti_collective what, std::uint64_t bytes, std::string_view forced) const {
  if (!forced.empty()) {
    const Algorithm* row = find_algorithm(what, forced);
    if (!row)
      return Status::error(TUTTI_INVALID_ARGUMENT, "algorithm \"" + std::string(forced) + "\" does not exist for " +
                                                       std::string(collective_name(what)))
          .with_remedy("one of: " + row_names(what) + "; see `tutti plan --list`");
    if (!admits(*row, ranks_))
      return Status::error(TUTTI_UNSUPPORTED, "algorithm \"" + std::string(forced) + "\" does not run over " +
                                                  std::to_string(ranks_) + " ranks")
          .with_remedy("see its restrictions in `tutti plan --list`");
    return row;
  }
  const Algorithm* best = nullptr;
  double best_ns = 0;
  for (const Algorithm& row : algorithms()) {
    if (row.what != what || !admits(row, ranks_)) continue;
    const double ns = predict_ns(row.cost(ranks_), cost_, bytes);
    if (!best || ns < best_ns) {
      best = &row;
      best_ns = ns;
    }
  }
  if (!best)
    return Status::error(TUTTI_UNSUPPORTED, "no algorithm for " + std::string(collective_name(what)) + " over " +
                                                std::to_string(ranks_) + " ranks");
  return best;
}

std::string Selector::explain(tutti_collective what, std::uint64_t bytes, std::string_view forced) const {
  auto chosen = choose(what, bytes, forced);
  std::string text = std::string(collective_name(what)) + " of " + std::to_string(bytes) + " bytes over " +
                     std::to_string(ranks_) + " ranks: ";
  if (!chosen.is_ok()) return text + chosen.status().to_string() + "\n";
  text += std::string((*chosen)->name) + (forced.empty() ? ", the cheapest by the model\n" : ", as asked for\n");
  char line[192];
  std::snprintf(line, sizeof line,
                "  link %.*s: alpha %.0f ns, overhead %.0f ns, beta %.3f, gamma %.3f, delta %.3f ns/B\n",
                static_cast<int>(cost_.kind.size()), cost_.kind.data(), cost_.alpha_ns, cost_.overhead_ns,
                cost_.beta_ns, cost_.gamma_ns, cost_.delta_ns);
  text += line;
  for (const Candidate& candidate : candidates(what, bytes)) {
    const RowCost cost = candidate.row->cost(ranks_);
    std::snprintf(line, sizeof line, "  %-20.*s %12s = %g rounds, %g messages, %.3f n sent, %.3f n reduced\n",
                  static_cast<int>(candidate.row->name.size()), candidate.row->name.data(),
                  microseconds(candidate.predicted_ns).c_str(), cost.rounds, cost.messages, cost.sent, cost.reduced);
    text += line;
  }
  return text;
}

}  // namespace tutti::core
