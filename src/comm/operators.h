// SPDX-License-Identifier: Apache-2.0
// Operators that users make: pre-multiplied sums, behind handles that are values of tutti_op.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "src/base/status.h"
#include "src/comm/operation.h"

namespace tutti::core {

/// All of a process, so that a handle in the wrong hands can be told from one that is gone. Thread-safe.
class OperatorTable {
 public:
  /// `scalar`: one element of `type`; copied. `owner`'s alone from now on; nothing of it is touched but the name, here.
  /// Errors: unsupported (bool), invalid_argument (no such type), unavailable (a thousand million are in use).
  Result<tutti_op> make(const void* scalar, tutti_dtype type, const Communicator& owner);
  Status destroy(tutti_op op, const Communicator& owner);
  /// Replaces the handle in a reduction's call by TUTTI_PRE_MUL_SUM and its factor. A call of another operator stays as
  /// it is. Errors: invalid_argument (another communicator's, of another type, destroyed).
  Status resolve(Call& call, const Communicator& owner);
  /// `owner` ends.
  void forget(const Communicator& owner);

 private:
  static constexpr int kFirst = TUTTI_PRE_MUL_SUM + 1;

  struct Operator {
    const Communicator* owner;
    std::string owner_name;
    tutti_dtype type;
    Factor factor;
  };
  /// With the lock held.
  Result<const Operator*> find(tutti_op op, const Communicator& owner) const;

  std::mutex mutex_;
  std::unordered_map<int, Operator> operators_;
  int next_ = kFirst;     // handles in order, so that one that is gone does not soon mean another
  bool wrapped_ = false;  // next_ has been through all of them
};

}  // namespace tutti::core
