// SPDX-License-Identifier: Apache-2.0
/// \file
/// Part of tutti.hpp: the C enumerations under C++ names, and errors as values.
#ifndef TUTTI_STATUS_HPP
#define TUTTI_STATUS_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

// ---- Words: the C enumerations under C++ names ------------------------------------------------------------------

/// What went wrong, by what the caller can do about it; types.h says more about each.
enum class Code : int {
  ok = TUTTI_OK,
  invalid_argument = TUTTI_INVALID_ARGUMENT,
  unsupported = TUTTI_UNSUPPORTED,
  unavailable = TUTTI_UNAVAILABLE,
  peer_lost = TUTTI_PEER_LOST,
  timeout = TUTTI_TIMEOUT,
  aborted = TUTTI_ABORTED,
  mismatch = TUTTI_MISMATCH,
  internal = TUTTI_INTERNAL,
  in_progress = TUTTI_IN_PROGRESS,
};

/// Reduction operators. avg: floats are multiplied by 1/ranks before the sum, integers divide the sum. min and max
/// follow IEEE 754-2019 minimum and maximum: NaN wins, -0 < +0. band, bor, bxor: integers and bool. For bool, sum and
/// max mean or, prod and min mean and; there is no avg.
enum class Op : int {
  sum = TUTTI_SUM,
  prod = TUTTI_PROD,
  max = TUTTI_MAX,
  min = TUTTI_MIN,
  avg = TUTTI_AVG,
  band = TUTTI_BAND,
  bor = TUTTI_BOR,
  bxor = TUTTI_BXOR,
};

/// Element types, for the raw forms: DataType::float32 and so on, one per row of dtypes.def.
enum class DataType : int {
#define X(name, ENUMERATOR, bytes, value) name = value,
#include "tutti/dtypes.def"
#undef X
};

/// What explain() is asked about, and what an event reports.
enum class Collective : int {
  all_reduce = TUTTI_ALL_REDUCE,
  all_gather = TUTTI_ALL_GATHER,
  reduce_scatter = TUTTI_REDUCE_SCATTER,
  broadcast = TUTTI_BROADCAST,
  barrier = TUTTI_BARRIER,
  send = TUTTI_SEND,
  recv = TUTTI_RECV,
  reduce = TUTTI_REDUCE,
  gather = TUTTI_GATHER,
  scatter = TUTTI_SCATTER,
  all_to_all = TUTTI_ALL_TO_ALL,
  all_gather_v = TUTTI_ALL_GATHER_V,
  reduce_scatter_v = TUTTI_REDUCE_SCATTER_V,
  gather_v = TUTTI_GATHER_V,
  scatter_v = TUTTI_SCATTER_V,
  all_to_all_v = TUTTI_ALL_TO_ALL_V,
};

/// As `peer` of recv: whoever sends first.
inline constexpr int any_source = TUTTI_ANY_SOURCE;

/// "peer_lost" for Code::peer_lost. Static storage.
inline const char* name(Code code) { return tutti_code_name(static_cast<tutti_code>(code)); }
/// "float32" for DataType::float32. Static storage.
inline const char* name(DataType type) { return tutti_dtype_name(static_cast<tutti_dtype>(type)); }
/// Bytes of one element.
inline std::size_t bytes_of(DataType type) { return tutti_dtype_bytes(static_cast<tutti_dtype>(type)); }
/// Version of the library in use: major * 10000 + minor * 100 + patch.
inline int version() { return tutti_version(); }

// ---- Errors -----------------------------------------------------------------------------------------------------

/// What Status::or_throw and Result::value throw.
class Error : public std::exception {
 public:
  Error(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  Code code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Code code_;
  std::string text_;
};

/// How a call ended: ok, or a code with a text that says what happened, which rank, and what to do about it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  /// Of a C function that just returned `code` on this thread: takes the text along.
  static Status from_c(tutti_code code) {
    return code == TUTTI_OK ? Status() : Status(static_cast<Code>(code), tutti_last_error());
  }

  bool is_ok() const noexcept { return code_ == Code::ok; }
  explicit operator bool() const noexcept { return is_ok(); }
  Code code() const noexcept { return code_; }
  const std::string& text() const noexcept { return text_; }

  /// Throws Error unless ok. Built without exceptions: prints the text to stderr and aborts.
  void or_throw() const {
    if (is_ok()) return;
#if defined(__cpp_exceptions)
    throw Error(code_, text_);
#else
    std::fprintf(stderr, "tutti: %s\n", text_.c_str());
    std::abort();
#endif
  }

 private:
  Code code_ = Code::ok;
  std::string text_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): `return value;`
  /// `status` must be an error.
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor): `return status;`

  bool is_ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return is_ok(); }
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code(); }
  const std::string& text() const noexcept { return status_.text(); }

  /// The value; throws Error if there is none.
  T& value() & {
    status_.or_throw();
    return *value_;
  }
  T value() && {
    status_.or_throw();
    return std::move(*value_);
  }
  /// The value, unchecked: only after is_ok().
  T& operator*() noexcept { return *value_; }
  const T& operator*() const noexcept { return *value_; }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tutti

#endif  // TUTTI_STATUS_HPP
