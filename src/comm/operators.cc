// SPDX-License-Identifier: Apache-2.0
#include "src/comm/operators.h"

#include "src/comm/communicator.h"
#include "src/comm/process.h"

namespace tutti::core {

Result<tutti_op> OperatorTable::make(const void* scalar, tutti_dtype type, const Communicator& owner) {
  if (dtype_bytes(type) == 0)
    return Status::error(TUTTI_INVALID_ARGUMENT, "type is " + std::to_string(static_cast<int>(type)))
        .with_remedy("allowed: a type of tutti/dtypes.def but bool");
  if (!can_pre_multiply(type))
    return Status::error(TUTTI_UNSUPPORTED, "pre_mul_sum of " + std::string(dtype_name(type)) + " is not supported")
        .with_remedy("numbers can be multiplied; bool has sum, prod, max, min and the bitwise operators");
  if (Process::forked()) return Process::refuse_fork();  // the lock may be held for ever
  const std::lock_guard lock(mutex_);
  constexpr std::size_t kMost = 1'000'000'000;  // half of the values: a free one is never far
  if (operators_.size() >= kMost) return Status::error(TUTTI_UNAVAILABLE, "too many operators: destroy some");
  for (;;) {
    const int handle = next_;
    if (next_ == TUTTI_OP_LAST) wrapped_ = true;
    next_ = next_ == TUTTI_OP_LAST ? kFirst : next_ + 1;
    if (operators_.try_emplace(handle, Operator{&owner, owner.name(), type, read_factor(type, scalar)}).second)
      return static_cast<tutti_op>(handle);
  }
}

Result<const OperatorTable::Operator*> OperatorTable::find(tutti_op op, const Communicator& owner) const {
  const int handle = static_cast<int>(op);
  const std::string text = "op " + std::to_string(handle);
  const auto found = operators_.find(handle);
  if (found == operators_.end()) {
    if (handle >= kFirst && (wrapped_ || handle < next_))
      return Status::error(TUTTI_INVALID_ARGUMENT, text + " has been destroyed")
          .with_remedy("tutti_op_destroy, or its communicator's end, came before");
    return Status::error(TUTTI_INVALID_ARGUMENT, text + " is no operator")
        .with_remedy("allowed: TUTTI_SUM .. TUTTI_BXOR, or what tutti_op_create_pre_mul_sum gave");
  }
  if (found->second.owner != &owner)
    return Status::error(TUTTI_INVALID_ARGUMENT, text + " belongs to communicator \"" + found->second.owner_name +
                                                     "\", not to this one, \"" + owner.name() + "\"")
        .with_remedy("make one for each communicator");
  return &found->second;
}

Status OperatorTable::destroy(tutti_op op, const Communicator& owner) {
  if (static_cast<unsigned>(op) < TUTTI_OP_COUNT)
    return Status::error(TUTTI_INVALID_ARGUMENT, "op is " + std::string(op_name(op)) + ", which is built in")
        .with_remedy("destroy only what tutti_op_create_pre_mul_sum gave");
  if (Process::forked()) return Process::refuse_fork();
  const std::lock_guard lock(mutex_);
  TUTTI_TRY(find(op, owner));
  operators_.erase(static_cast<int>(op));
  return {};
}

Status OperatorTable::resolve(Call& call, const Communicator& owner) {
  if (!is_reduction(call.what) || static_cast<unsigned>(call.op) < TUTTI_OP_COUNT) return {};
  if (Process::forked()) return Process::refuse_fork();
  const std::lock_guard lock(mutex_);
  TUTTI_TRY(found, find(call.op, owner));
  if (found->type != call.type)
    return Status::error(TUTTI_INVALID_ARGUMENT, "op " + std::to_string(static_cast<int>(call.op)) + " multiplies " +
                                                     std::string(dtype_name(found->type)) + ", the call's type is " +
                                                     std::string(dtype_name(call.type)))
        .with_remedy("make one for each type");
  call.op = TUTTI_PRE_MUL_SUM;
  call.factor = found->factor;
  return {};
}

void OperatorTable::forget(const Communicator& owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(operators_, [&](const auto& entry) { return entry.second.owner == &owner; });
}

}  // namespace tutti::core
