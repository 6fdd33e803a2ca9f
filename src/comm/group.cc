// SPDX-License-Identifier: Apache-2.0
#include "src/comm/group.h"

#include <thread>

namespace tutti::core {

Group& Group::current() {
  static thread_local Group group;
  return group;
}

void Group::add_operation(Operation* operation, bool blocking) {
  if (!blocking) operation->retain();
  operations_.push_back({operation, blocking});
}

Status Group::run_creations() {
  if (creations_.size() == 1) return creations_.front()();
  std::vector<Status> results(creations_.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < creations_.size(); ++i)
    threads.emplace_back([this, i, &results] { results[i] = creations_[i](); });
  for (std::thread& thread : threads) thread.join();
  for (Status& result : results)
    if (!result.is_ok()) return std::move(result);
  return {};
}

Status Group::end() {
  if (depth_ == 0)
    return Status::error(TUTTI_INVALID_ARGUMENT, "tutti_group_end without tutti_group_begin on this thread");
  if (--depth_ > 0) return {};
  Status first = std::move(error_);
  error_ = {};
  const auto note = [&first](Status status) {
    if (first.is_ok() && !status.is_ok()) first = std::move(status);
  };
  if (!creations_.empty()) note(run_creations());
  creations_.clear();
  std::vector<Entry> operations;
  operations.swap(operations_);
  for (const Entry& entry : operations) note(entry.operation->communicator->submit(*entry.operation));
  for (const Entry& entry : operations) {
    Operation& operation = *entry.operation;
    if (entry.blocking) note(operation.done() ? operation.status() : operation.communicator->wait(operation, -1));
    operation.release();
  }
  return first;
}

}  // namespace tutti::core
