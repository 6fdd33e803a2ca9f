// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "src/base/status.h"

namespace tutti::core {

/// One thing that is known about this machine, or why it is not, and where that was looked up. A missing file or a
/// refused permission is a state of a fact, never an error of the collector: diagnosis must work on sick machines.
template <class T>
class Fact {
 public:
  Fact() = default;
  Fact(T value, std::string source) : value_(std::move(value)), source_(std::move(source)), problem_() {}
  static Fact missing(std::string source, std::string problem) {
    Fact fact;
    fact.source_ = std::move(source);
    fact.problem_ = std::move(problem);
    return fact;
  }
  static Fact missing(std::string source, const Status& status) { return missing(std::move(source), status.message()); }

  bool is_known() const { return value_.has_value(); }
  const T& value() const { return *value_; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  /// The path that was read, as the machine names it.
  const std::string& source() const { return source_; }
  /// "could not read PATH: why"; empty when the value is known.
  const std::string& problem() const { return problem_; }

 private:
  std::optional<T> value_;
  std::string source_;
  std::string problem_ = "was not collected";
};

}  // namespace tutti::core
