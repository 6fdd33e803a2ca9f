// SPDX-License-Identifier: Apache-2.0
#include "src/comm/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/base/random.h"
#include "src/base/text.h"

namespace tutti::core {

namespace {

// All measured on virtual machines of two cores, 2026-11-30, and only used where nothing was measured:
// alpha: hand-over of a cache line between cores, 132-170 ns on a Xeon, 75-300 on an AMD machine.
// turn: yield hand-over between two threads of one core, 5.1-5.3 us.
// overhead: one line written or read and checked, about 35-45 ns of instructions for a whole operation.
// beta: stores into lines that the peer has read, 7-20 GB/s.
// gamma, delta: reading lines that the peer has just written, 10-20 GB/s, which is slower than the arithmetic or the
//   local stores that go with it.
constexpr std::array<CostTerm, kCostTerms> kTerms = {{
    {"alpha_ns", &CostConstants::alpha_ns, 150.0},
    {"turn_ns", &CostConstants::turn_ns, 5200.0},
    {"overhead_ns", &CostConstants::overhead_ns, 25.0},
    {"beta_ns_per_byte", &CostConstants::beta_ns, 0.06},
    {"gamma_ns_per_byte", &CostConstants::gamma_ns, 0.06},
    {"delta_ns_per_byte", &CostConstants::delta_ns, 0.06},
}};

}  // namespace

const std::array<CostTerm, kCostTerms>& cost_terms() { return kTerms; }

CostConstants documented_constants() {
  CostConstants constants{};
  for (const CostTerm& term : kTerms) constants.*term.value = term.documented;
  return constants;
}

int make_plausible(CostConstants& constants) {
  int changed = 0;
  for (const CostTerm& term : kTerms) {
    double& value = constants.*term.value;
    const double before = value;
    if (std::isfinite(value) && value > 0)
      value = std::clamp(value, term.documented / kPlausibleFactor, term.documented * kPlausibleFactor);
    else
      value = term.documented;
    changed += value == before ? 0 : 1;
  }
  return changed;
}

std::uint64_t CostTable::hash() const {
  std::uint64_t hash = 0;
  for (const CostTerm& term : kTerms)
    hash = hash_combine(hash_combine(hash, hash_text(term.name)), std::bit_cast<std::uint64_t>(constants.*term.value));
  return hash;
}

LinkCost shared_memory_cost(const CostTable& table, int local_ranks, int cores) {
  const CostConstants& constants = table.constants;
  LinkCost cost{
      "shm",       constants.alpha_ns, constants.overhead_ns, constants.beta_ns, constants.gamma_ns, constants.delta_ns,
      table.origin};
  if (local_ranks > cores) {
    // In every round each core gives each of its ranks one turn. Every byte is moved by one of the few cores, so the
    // other terms stretch with the crowd, too.
    const double crowd = static_cast<double>(local_ranks) / std::max(1, cores);
    cost.kind = "shm, more ranks than cores";
    cost.alpha_ns = constants.turn_ns * crowd;
    cost.overhead_ns *= crowd;
    cost.beta_ns *= crowd;
    cost.gamma_ns *= crowd;
    cost.delta_ns *= crowd;
  }
  return cost;
}

Prediction predict(const RowCost& row, const LinkCost& link, std::uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  const double copied = std::max(0.0, row.sent - row.reduced);
  return {.rounds_ns = row.rounds * link.alpha_ns,
          .messages_ns = row.messages * link.overhead_ns,
          .sent_ns = n * row.sent * link.beta_ns,
          .reduced_ns = n * row.reduced * link.gamma_ns,
          .copied_ns = n * copied * link.delta_ns};
}

std::string microseconds_text(double ns) { return text_format("%.2f us", ns / 1000.0); }

}  // namespace tutti::core
