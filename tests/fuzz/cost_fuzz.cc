// SPDX-License-Identifier: Apache-2.0
// A cost table, as a file or as rank 0 sends it, from arbitrary bytes. What is accepted must be plausible, keep its
// bits through its own text, and give finite costs.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "src/comm/cost_cache.h"

namespace tutti::core {
namespace {

void run(std::string_view input) {
  const auto refused = [](const Status& status) {
    return status.code() == TUTTI_INVALID_ARGUMENT && !status.message().empty();
  };
  if (auto kept = parse_cost_table(input, CostTableUse::cache); !kept.is_ok()) TUTTI_CHECK(refused(kept.status()));
  auto table = parse_cost_table(input, CostTableUse::named);
  if (!table.is_ok()) {
    TUTTI_CHECK(refused(table.status()));
    return;
  }
  CostConstants plausible = table->constants;
  TUTTI_CHECK(make_plausible(plausible) == 0);
  auto again = parse_cost_table(format_cost_table(*table), CostTableUse::named);
  TUTTI_CHECK(again.is_ok() && again->hash() == table->hash());
  const RowCost row{.rounds = 1, .sent = 1, .reduced = 1, .messages = 1};
  TUTTI_CHECK(std::isfinite(predict_ns(row, shared_memory_cost(*table, 1000, 1), UINT64_MAX)));
}

}  // namespace
}  // namespace tutti::core

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tutti::core::run(std::string_view(reinterpret_cast<const char*>(data), bytes));
  return 0;
}
