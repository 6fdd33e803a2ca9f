// SPDX-License-Identifier: Apache-2.0
#include "src/comm/plan_cache.h"

#include <algorithm>
#include <string>

#include "src/base/types.h"
#include "src/exec/mailbox.h"
#include "src/plan/check.h"

namespace tutti::core {

namespace {

/// A debug build proves what it is about to run, up to a size at which nobody notices the time.
Status prove(const Algorithm& row, int ranks, int root) {
#if defined(NDEBUG)
  (void)row, (void)ranks, (void)root;
  return {};
#else
  constexpr int kProvedRanks = 16;
  if (ranks > kProvedRanks) return {};
  TUTTI_TRY(schedules, build_all(row, ranks, root));
  const CheckOutcome outcome = check_schedules(schedules, {row.what, root, row.needs.credits});
  if (outcome.ok()) return {};
  return Status::error(TUTTI_INTERNAL,
                       "algorithm " + std::string(row.name) + " is wrong: " + outcome.violation->to_string({}));
#endif
}

}  // namespace

Result<Plan*> PlanCache::get(const Algorithm& row, int root) {
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if ((*it)->row != &row || (*it)->root != root) continue;
    plans_.splice(plans_.begin(), plans_, it);
    return plans_.front().get();
  }
  BuildRequest request;
  request.placement = &placement_;
  request.root = std::max(root, 0);
  auto plan = std::make_unique<Plan>();
  plan->row = &row;
  plan->root = root;
  auto schedule = row.build(request);
  if (!schedule.is_ok()) return Status(schedule.status()).with_context("building " + std::string(row.name));
  auto lowered = lower(*schedule, lower_options(row.what, row.needs.credits));
  if (!lowered.is_ok()) return Status(lowered.status()).with_context("lowering " + std::string(row.name));
  if (row.needs.lanes > kMaxLanes || lowered->lanes.size() > static_cast<std::size_t>(row.needs.lanes))
    return Status::error(TUTTI_UNSUPPORTED, std::string(row.name) + " uses " + std::to_string(lowered->lanes.size()) +
                                                " lanes and states " + std::to_string(row.needs.lanes) +
                                                "; the executor has " + std::to_string(kMaxLanes));
  TUTTI_TRY(prove(row, placement_.ranks, request.root));
  plan->lowered = std::move(*lowered);
  plans_.push_front(std::move(plan));
  if (plans_.size() > kCapacity) {
    plans_.pop_back();
    ++generation_;
  }
  return plans_.front().get();
}

}  // namespace tutti::core
