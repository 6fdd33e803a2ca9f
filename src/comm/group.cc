// SPDX-License-Identifier: Apache-2.0
#include "src/comm/group.h"

#include <algorithm>
#include <thread>

namespace tutti::core {

constinit thread_local int Group::depth_ = 0;

Group& Group::current() {
  static thread_local Group group;
  return group;
}

void Group::add_operation(Operation* operation, bool blocking) {
  if (!blocking) operation->retain();
  operations_.push_back({operation, blocking, false});
}

Status Group::run_creations() {
  std::vector<std::vector<Creation*>> chains;
  for (Creation& creation : creations_) {
    const auto known = std::find_if(chains.begin(), chains.end(), [&](const std::vector<Creation*>& chain) {
      return creation.parent && chain.front()->parent == creation.parent;
    });
    if (known == chains.end())
      chains.push_back({&creation});
    else
      known->push_back(&creation);
  }
  const auto run = [](const std::vector<Creation*>& chain) {
    for (Creation* creation : chain) creation->result = creation->create();
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < chains.size(); ++i) threads.emplace_back(run, std::cref(chains[i]));
  run(chains.front());
  for (std::thread& thread : threads) thread.join();
  for (Creation& creation : creations_)
    if (!creation.result.is_ok()) return std::move(creation.result);
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
  note(run_operations());
  return first;
}

Status Group::run_operations() {
  Status first;
  const auto note = [&first](Status status) {
    if (first.is_ok() && !status.is_ok()) first = std::move(status);
  };
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Communicator* const communicator = operations_[i].operation->communicator;
    if (operations_[i].submitted) continue;
    members_.clear();
    for (std::size_t j = i; j < operations_.size(); ++j) {
      if (operations_[j].submitted || operations_[j].operation->communicator != communicator) continue;
      operations_[j].submitted = true;
      members_.push_back(operations_[j].operation);
    }
    note(members_.size() == 1 ? communicator->submit(*members_.front()) : communicator->submit_group(members_));
  }
  for (const Entry& entry : operations_) {
    Operation& operation = *entry.operation;
    if (entry.blocking) note(operation.done() ? operation.status() : operation.communicator->wait(operation, -1));
    operation.release();
  }
  operations_.clear();
  return first;
}

}  // namespace tutti::core
