// SPDX-License-Identifier: Apache-2.0
/// \file
/// Part of tutti.hpp: operations that run while the caller does something else, and groups of operations.
#ifndef TUTTI_WORK_HPP
#define TUTTI_WORK_HPP

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "tutti/status.hpp"

namespace tutti {

// ---- Asynchronous operations ------------------------------------------------------------------------------------

/// When an operation passed its milestones, on CLOCK_MONOTONIC (the clock of std::chrono::steady_clock); zero: not yet.
struct Times {
  std::chrono::nanoseconds issued{};     ///< the call
  std::chrono::nanoseconds started{};    ///< first progress
  std::chrono::nanoseconds last_peer{};  ///< first bytes of the peer that came last
  std::chrono::nanoseconds done{};       ///< completion
  int last_peer_rank = -1;               ///< rank that came last; -1: none
  std::string algorithm;                 ///< row that ran
};

/// A running operation. Its buffers belong to Tutti until wait() or test() has said that it is done: destroying a Work
/// releases the handle, the operation goes on. Use it from the thread of its communicator.
class [[nodiscard]] Work {
 public:
  Work() = default;  ///< Empty: every call gives invalid_argument.
  explicit Work(tutti_work* handle) : handle_(handle) {}
  Work(Work&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    Work taken(std::move(other));
    std::swap(handle_, taken.handle_);
    return *this;
  }
  ~Work() { tutti_work_free(handle_); }

  /// Blocks until the operation is done, makes progress meanwhile. Errors: those of the operation.
  Status wait() { return Status::from_c(tutti_work_wait(handle_, -1.0)); }
  /// The same for at most `patience`; then Code::timeout, and the operation keeps running.
  template <class Rep, class Period>
  Status wait(std::chrono::duration<Rep, Period> patience) {
    const double seconds = std::chrono::duration<double>(patience).count();
    return Status::from_c(tutti_work_wait(handle_, seconds < 0.0 ? 0.0 : seconds));
  }
  /// True: done. False: still running. Makes progress, never blocks. Errors: those of the operation.
  Result<bool> test() {
    const tutti_code code = tutti_work_test(handle_);
    if (code == TUTTI_IN_PROGRESS) return false;
    const Status status = Status::from_c(code);
    if (!status) return status;
    return true;
  }
  Result<Times> times() const {
    tutti_times raw{};
    raw.struct_size = sizeof raw;
    const Status status = Status::from_c(tutti_work_times(handle_, &raw));
    if (!status) return status;
    using ns = std::chrono::nanoseconds;
    return Times{ns(raw.issued_ns), ns(raw.started_ns), ns(raw.last_peer_ns),
                 ns(raw.done_ns),   raw.last_peer,      raw.algorithm};
  }
  /// Calls `function(Code)` once, on Tutti's callback thread, after completion (also if that is past). It may launch
  /// and wait for operations; it must not throw. It outlives this handle.
  template <std::invocable<Code> Function>
  Status on_complete(Function function) {
    auto kept = std::make_unique<Function>(std::move(function));
    const auto call = [](tutti_code code, void* argument) {
      const std::unique_ptr<Function> owned(static_cast<Function*>(argument));
      (*owned)(static_cast<Code>(code));
    };
    const Status status = Status::from_c(tutti_work_on_complete(handle_, call, kept.get()));
    if (status) kept.release();  // NOLINT(bugprone-unused-return-value): `call` owns it now
    return status;
  }
  tutti_work* handle() const noexcept { return handle_; }

 private:
  tutti_work* handle_ = nullptr;
};

/// Operations of this thread between construction and end() start together at the outermost end: sends and receives
/// among them cannot deadlock, and one thread may act for several ranks. Blocking calls inside return at once and are
/// complete after end(). Communicators made inside are valid after it. Nests.
class [[nodiscard]] Group {
 public:
  Group() : begun_(Status::from_c(tutti_group_begin())), open_(begun_.is_ok()) {}
  Group(Group&&) = delete;
  /// Ends quietly what end() has not: call end() to learn of errors.
  ~Group() {
    if (open_) tutti_group_end();
  }
  /// Starts everything, blocks for the blocking calls inside. Errors: the first of the operations inside.
  Status end() {
    if (!begun_) return begun_;
    if (!open_) return Status(Code::invalid_argument, "Group::end: called twice");
    open_ = false;
    return Status::from_c(tutti_group_end());
  }

 private:
  Status begun_;
  bool open_;
};

}  // namespace tutti

#endif  // TUTTI_WORK_HPP
