// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tutti/types.h"

namespace tutti::core {

/// The result of an operation that returns nothing. OK is a null pointer, so success costs one register; an error
/// carries a code, a text (cause first), an optional remedy and the rank it blames (-1: none).
/// Report an error once, where it is detected; callers add context with `with_context`, not repeats.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status ok() { return {}; }
  static Status error(tutti_code code, std::string message, int failing_rank = -1);
  /// Cause from errno: "MESSAGE: Connection refused". Code defaults to unavailable.
  static Status from_errno(int errno_value, std::string message, tutti_code code = TUTTI_UNAVAILABLE);

  bool is_ok() const { return detail_ == nullptr; }
  tutti_code code() const { return detail_ ? detail_->code : TUTTI_OK; }
  int failing_rank() const { return detail_ ? detail_->failing_rank : -1; }
  const std::string& message() const;
  const std::string& remedy() const;

  Status with_remedy(std::string remedy) &&;
  Status with_rank(int rank) &&;
  /// Prefixes the message with "context: ".
  Status with_context(const std::string& context) &&;

  /// "peer_lost: rank 3 ... (remedy)". "ok" for success.
  std::string to_string() const;

 private:
  struct Detail {
    tutti_code code;
    int failing_rank;
    std::string message;
    std::string remedy;
  };
  std::shared_ptr<Detail> detail_;
};

const char* code_name(tutti_code code);

/// A value or the Status that says why there is none. Never holds an OK status.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace status_detail {
inline Status take_status(Status status) { return status; }
template <class T>
Status take_status(const Result<T>& result) {
  return result.status();
}
}  // namespace status_detail

// The one control-flow macro. TUTTI_TRY(expression) returns its error from the enclosing function;
// TUTTI_TRY(name, expression) also binds the value of a Result to `auto name`.
#define TUTTI_TRY_PICK(_1, _2, NAME, ...) NAME
#define TUTTI_TRY(...) TUTTI_TRY_PICK(__VA_ARGS__, TUTTI_TRY_VALUE, TUTTI_TRY_STATUS, )(__VA_ARGS__)
#define TUTTI_TRY_STATUS(expression)                                                                        \
  do {                                                                                                      \
    if (auto tutti_status_ = ::tutti::core::status_detail::take_status(expression); !tutti_status_.is_ok()) \
      return tutti_status_;                                                                                 \
  } while (false)
#define TUTTI_TRY_CONCAT2(a, b) a##b
#define TUTTI_TRY_CONCAT(a, b) TUTTI_TRY_CONCAT2(a, b)
#define TUTTI_TRY_VALUE(name, expression)                                                                            \
  auto TUTTI_TRY_CONCAT(tutti_result_, __LINE__) = (expression);                                                     \
  if (!TUTTI_TRY_CONCAT(tutti_result_, __LINE__).is_ok()) return TUTTI_TRY_CONCAT(tutti_result_, __LINE__).status(); \
  auto name = std::move(TUTTI_TRY_CONCAT(tutti_result_, __LINE__)).value()

/// For broken invariants only (a bug in Tutti): prints the site and aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
#define TUTTI_CHECK(expression) ((expression) ? (void)0 : ::tutti::core::check_failed(#expression, __FILE__, __LINE__))

}  // namespace tutti::core
