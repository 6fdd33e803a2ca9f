// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tutti's C++20 interface: a header-only layer over tutti.h. A program in a few lines:
///
///     auto comm = tutti::Communicator::from_environment().value();      // started by `tutti run -n 4 ./program`
///     std::vector<float> data(1024, static_cast<float>(comm.rank()));
///     comm.all_reduce(data).or_throw();                                 // every rank: 0 + 1 + 2 + 3
///     tutti::Work work = comm.async().broadcast(data, 0).value();       // returns at once ...
///     work.wait(std::chrono::seconds(5)).or_throw();                    // ... done
///
/// Errors are values: functions return Status, or Result<T> with a value in it, and both are [[nodiscard]]. Who prefers
/// exceptions asks for them at the call: Status::or_throw() and Result<T>::value() throw tutti::Error. Nothing else
/// here throws but std::bad_alloc.
///
/// Handles (Communicator, Work, Registration, Buffer, Group) are move-only and release what they hold. One thread at a
/// time uses a communicator and its works; different communicators may be used by different threads at once. Every
/// wait has a deadline (Config::settings: "timeout=30s", CallOptions::timeout).
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

// ---- Buffers and element types ----------------------------------------------------------------------------------

/// Storage of the 16-bit floats: bits only, for who has no type of their own. A type with the same bits (an arithmetic
/// library's half) joins by specialising ElementType.
struct Float16 {
  std::uint16_t bits = 0;
  bool operator==(const Float16&) const = default;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
  bool operator==(const Bfloat16&) const = default;
};

/// The 8-bit floats of the OCP OFP8 specification, as bits.
struct Float8E4m3 {
  std::uint8_t bits = 0;
  bool operator==(const Float8E4m3&) const = default;
};
struct Float8E5m2 {
  std::uint8_t bits = 0;
  bool operator==(const Float8E5m2&) const = default;
};

/// Maps a C++ type to the DataType with the same bits: `static constexpr DataType value`. Integers map by size and
/// sign.
template <class T>
struct ElementType {};
template <>
struct ElementType<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct ElementType<double> {
  static constexpr DataType value = DataType::float64;
};
template <>
struct ElementType<Float16> {
  static constexpr DataType value = DataType::float16;
};
template <>
struct ElementType<Bfloat16> {
  static constexpr DataType value = DataType::bfloat16;
};
template <>
struct ElementType<Float8E4m3> {
  static constexpr DataType value = DataType::float8_e4m3;
};
template <>
struct ElementType<Float8E5m2> {
  static constexpr DataType value = DataType::float8_e5m2;
};
template <>
struct ElementType<bool> {
  static constexpr DataType value = DataType::boolean;
};
template <>
struct ElementType<std::byte> {
  static constexpr DataType value = DataType::uint8;
};
template <class T>
concept MappedInteger =
    std::integral<T> && !std::same_as<T, bool> && (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8);
template <MappedInteger T>
struct ElementType<T> {
  static constexpr DataType value = sizeof(T) == 1   ? (std::is_signed_v<T> ? DataType::int8 : DataType::uint8)
                                    : sizeof(T) == 4 ? (std::is_signed_v<T> ? DataType::int32 : DataType::uint32)
                                                     : (std::is_signed_v<T> ? DataType::int64 : DataType::uint64);
};

template <class T>
concept Element = requires {
  { ElementType<std::remove_const_t<T>>::value } -> std::convertible_to<DataType>;
};

/// What a collective can read: contiguous elements that outlive the expression (a vector, array, span, Buffer).
template <class R>
concept Input = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && std::ranges::borrowed_range<R> &&
    Element<std::ranges::range_value_t<R>>;
/// What a collective can write.
template <class R>
concept Output = Input<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
/// An output of the same element type as the input `In`.
template <class R, class In>
concept OutputFor =
    Output<R> && std::same_as<std::ranges::range_value_t<R>, std::remove_const_t<std::ranges::range_value_t<In>>>;

/// Memory from tutti_alloc for `size()` elements: page-aligned, touched, mappable by every local rank: the fastest
/// kind of buffer. A contiguous range.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "Buffer holds plain data");

 public:
  Buffer() = default;  ///< empty
  /// Errors: invalid_argument (bytes overflow), unavailable (memory).
  static Result<Buffer> make(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T))
      return Status(Code::invalid_argument, "Buffer::make: count " + std::to_string(count) + " of " +
                                                std::to_string(sizeof(T)) + " bytes each is more than size_t holds");
    void* pointer = nullptr;
    const Status status = Status::from_c(tutti_alloc(count * sizeof(T), &pointer));
    if (!status) return status;
    return Buffer(static_cast<T*>(pointer), count);
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~Buffer() { tutti_free(data_); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }

 private:
  Buffer(T* data, std::size_t size) : data_(data), size_(size) {}
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An announced buffer (Communicator::register_buffer). Deregisters when destroyed: before the memory is freed and
/// before the communicator goes.
class Registration {
 public:
  Registration() = default;  ///< empty
  explicit Registration(tutti_registration* handle) : handle_(handle) {}
  Registration(Registration&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    Registration taken(std::move(other));
    std::swap(handle_, taken.handle_);
    return *this;
  }
  ~Registration() {
    if (handle_ != nullptr) tutti_deregister_buffer(handle_);
  }

 private:
  tutti_registration* handle_ = nullptr;
};

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

// ---- Communicators ----------------------------------------------------------------------------------------------

/// Names one communicator to be: a job id and a secret. Make it on one rank, hand its bytes to the others by any means.
struct UniqueId {
  tutti_unique_id raw{};

  /// A fresh id. Errors: unavailable (no random numbers).
  static Result<UniqueId> create() { return get(&tutti_unique_id_create); }
  /// The one `tutti run` left in TUTTI_UNIQUE_ID. Errors: unavailable (not set), invalid_argument (malformed).
  static Result<UniqueId> from_environment() { return get(&tutti_unique_id_from_environment); }

 private:
  static Result<UniqueId> get(tutti_code (*function)(tutti_unique_id*)) {
    UniqueId id;
    const Status status = Status::from_c(function(&id.raw));
    if (!status) return status;
    return id;
  }
};

struct Config {
  std::string name{};      ///< in every log line, error and record; empty: "comm-N"
  std::string settings{};  ///< "timeout=30s;slice_bytes=256K": any knob of docs/knobs.md; wins over the environment
};

/// Options of one operation.
struct CallOptions {
  std::uint64_t tag = 0;               ///< shown in records and errors; no other meaning
  std::chrono::nanoseconds timeout{};  ///< deadline from the start of the operation; 0: the communicator's
  std::string algorithm{};             ///< a row of `tutti plan --list`; empty: the selector's choice
};

/// The blocks of a form with a count per rank (all_gather_v, ...): spans of one number per rank, in elements. They may
/// change once the call has returned.
struct Blocks {
  std::span<const std::uint64_t> counts;
  std::span<const std::uint64_t> displacements = {};  ///< where each block begins; empty: packed in rank order

  /// Elements from the begin of the buffer to the end of the last block that is not empty.
  std::uint64_t extent() const {
    std::uint64_t packed = 0, end = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      const std::uint64_t first = displacements.empty() ? packed : displacements[r];
      packed += counts[r];
      if (counts[r] > 0 && first + counts[r] > end) end = first + counts[r];
    }
    return end;
  }
};

namespace detail {

/// The handle at an address that stays: inside a group the library fills it in at the group's end, after the
/// Communicator was moved.
struct CommunicatorSlot {
  tutti_comm* handle = nullptr;
  std::function<void(const tutti_event&)> hook;

  CommunicatorSlot() = default;
  CommunicatorSlot(const CommunicatorSlot&) = delete;
  CommunicatorSlot& operator=(const CommunicatorSlot&) = delete;
  ~CommunicatorSlot() { tutti_comm_destroy(handle); }
};

/// Keeps the slots that a group of this thread has yet to fill, in case their communicators go first.
inline void keep_until_group_end(std::shared_ptr<CommunicatorSlot> slot) {
  thread_local std::vector<std::shared_ptr<CommunicatorSlot>> pending;
  if (slot->handle != nullptr)
    pending.clear();  // made at once, so no group is open
  else
    pending.push_back(std::move(slot));
}

class Call {
 public:
  explicit Call(const CallOptions& options) {
    call_.struct_size = sizeof call_;
    call_.tag = options.tag;
    call_.timeout_s = std::chrono::duration<double>(options.timeout).count();
    call_.algorithm = options.algorithm.empty() ? nullptr : options.algorithm.c_str();
  }
  /// Null where nothing is asked for: such calls may take the library's shortest way.
  const tutti_call* get() const {
    const bool asks = call_.tag != 0 || call_.timeout_s != 0 || call_.algorithm != nullptr;
    return asks ? &call_ : nullptr;
  }

 private:
  tutti_call call_{};
};

template <class R>
constexpr DataType type_of = ElementType<std::ranges::range_value_t<R>>::value;

inline Status wrong_size(const char* function, const char* what, std::uint64_t got, std::uint64_t wanted) {
  return Status(Code::invalid_argument, std::string(function) + ": " + what + " has " + std::to_string(got) +
                                            " elements; it needs " + std::to_string(wanted));
}

}  // namespace detail

/// An operator of this rank: its contributions are multiplied by a factor, then summed (Communicator::pre_mul_sum).
/// Given where an Op is expected, for elements of the factor's type. The operator ends with this object, or with its
/// communicator if that goes first; operations under way are not affected.
class [[nodiscard]] PreMulSum {
 public:
  PreMulSum() = default;  ///< Empty: as an Op it is none, and reductions give invalid_argument.
  PreMulSum(PreMulSum&& other) noexcept : slot_(std::move(other.slot_)), op_(std::exchange(other.op_, TUTTI_OP_LAST)) {}
  PreMulSum& operator=(PreMulSum&& other) noexcept {
    PreMulSum taken(std::move(other));
    std::swap(slot_, taken.slot_);
    std::swap(op_, taken.op_);
    return *this;
  }
  ~PreMulSum() {
    if (const auto slot = slot_.lock()) tutti_op_destroy(op_, slot->handle);
  }

  operator Op() const noexcept { return static_cast<Op>(op_); }  // NOLINT(google-explicit-constructor)

 private:
  friend class Communicator;
  PreMulSum(std::weak_ptr<detail::CommunicatorSlot> slot, tutti_op op) : slot_(std::move(slot)), op_(op) {}

  std::weak_ptr<detail::CommunicatorSlot> slot_;
  tutti_op op_ = TUTTI_OP_LAST;
};

/// The operations of a communicator, once for both ways of calling them: Operations<Status> (Communicator itself)
/// blocks until the result is there; Operations<Result<Work>> (Communicator::async()) returns at once, and buffers
/// belong to Tutti until the Work is done.
///
/// Collectives: every rank calls the same ones, with equal counts, types, operators and roots, in the same order. Sizes
/// are elements; 0 is valid. Buffers are host memory of any alignment; in place where it says so, other overlap is
/// invalid_argument. One thread at a time per communicator.
/// Errors: invalid_argument, unsupported (type x op, algorithm), peer_lost, timeout, aborted, mismatch (ranks called
/// different things: the text shows both calls). After an error the communicator refuses work with that first text.
template <class Outcome>
class Operations {
 public:
  /// For calls of tutti.h; stays owned by the Communicator. Null: an empty one.
  tutti_comm* handle() const noexcept { return raw_slot_ == nullptr ? nullptr : raw_slot_->handle; }

  /// out[i] = op over all ranks of in[i]. Both have the same size.
  /// Wire: 2 * (P - 1) / P * size elements per rank for "ring" (Patarasuk & Yuan, JPDC 69(2), 2009).
  template <Input In, OutputFor<In> Out>
  Outcome all_reduce(In&& in, Out&& out, Op op = Op::sum, const CallOptions& options = {}) const {
    if (std::ranges::size(in) != std::ranges::size(out))
      return detail::wrong_size("all_reduce", "out", std::ranges::size(out), std::ranges::size(in));
    return all_reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<In>, op,
                      options);
  }
  /// In place.
  template <Output Data>
  Outcome all_reduce(Data&& data, Op op = Op::sum, const CallOptions& options = {}) const {
    return all_reduce(std::ranges::data(data), std::ranges::data(data), std::ranges::size(data), detail::type_of<Data>,
                      op, options);
  }
  /// Raw: `count` elements of `type` each; in place when in == out.
  Outcome all_reduce(const void* in, void* out, std::uint64_t count, DataType type, Op op = Op::sum,
                     const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_all_reduce(in, out, count, c(type), c(op), handle(), call, work);
    });
  }

  /// Block r of out = in of rank r, on every rank; out holds ranks() times in. In place: in is block rank() of out.
  /// Wire: (P - 1) * in.size() elements per rank for "ring".
  template <Input In, OutputFor<In> Out>
  Outcome all_gather(In&& in, Out&& out, const CallOptions& options = {}) const {
    const std::uint64_t count = std::ranges::size(in);
    if (std::ranges::size(out) != count * ranks())
      return detail::wrong_size("all_gather", "out", std::ranges::size(out), count * ranks());
    return all_gather(std::ranges::data(in), std::ranges::data(out), count, detail::type_of<In>, options);
  }
  /// Raw: `count` elements from each rank, ranks() * count in out.
  Outcome all_gather(const void* in, void* out, std::uint64_t count, DataType type,
                     const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_all_gather(in, out, count, c(type), handle(), call, work);
    });
  }

  /// out = op over all ranks of block rank() of in; in holds ranks() times out. In place: out is block rank() of in.
  /// Wire: (P - 1) * out.size() elements per rank for "ring".
  template <Input In, OutputFor<In> Out>
  Outcome reduce_scatter(In&& in, Out&& out, Op op = Op::sum, const CallOptions& options = {}) const {
    const std::uint64_t count = std::ranges::size(out);
    if (std::ranges::size(in) != count * ranks())
      return detail::wrong_size("reduce_scatter", "in", std::ranges::size(in), count * ranks());
    return reduce_scatter(std::ranges::data(in), std::ranges::data(out), count, detail::type_of<In>, op, options);
  }
  /// Raw: `count` elements in out, ranks() * count in `in`.
  Outcome reduce_scatter(const void* in, void* out, std::uint64_t count, DataType type, Op op = Op::sum,
                         const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_reduce_scatter(in, out, count, c(type), c(op), handle(), call, work);
    });
  }

  /// data on every rank = data of `root`. In place.
  template <Output Data>
  Outcome broadcast(Data&& data, int root, const CallOptions& options = {}) const {
    return broadcast(std::ranges::data(data), std::ranges::data(data), std::ranges::size(data), detail::type_of<Data>,
                     root, options);
  }
  /// Raw: `in` is read on root only and may equal out.
  Outcome broadcast(const void* in, void* out, std::uint64_t count, DataType type, int root,
                    const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_broadcast(in, out, count, c(type), root, handle(), call, work);
    });
  }

  /// out on `root` = op over all ranks of in[i]; out is not used elsewhere and may be empty there.
  template <Input In, OutputFor<In> Out>
  Outcome reduce(In&& in, Out&& out, int root, Op op = Op::sum, const CallOptions& options = {}) const {
    if (is_rank(root) && std::ranges::size(out) != std::ranges::size(in))
      return detail::wrong_size("reduce", "out", std::ranges::size(out), std::ranges::size(in));
    return reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::type_of<In>, root, op,
                  options);
  }
  /// In place on root; elsewhere data is read only.
  template <Output Data>
  Outcome reduce(Data&& data, int root, Op op = Op::sum, const CallOptions& options = {}) const {
    return reduce(std::ranges::data(data), std::ranges::data(data), std::ranges::size(data), detail::type_of<Data>,
                  root, op, options);
  }
  /// Raw: `count` elements of `type` each; in place when in == out.
  Outcome reduce(const void* in, void* out, std::uint64_t count, DataType type, int root, Op op = Op::sum,
                 const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_reduce(in, out, count, c(type), c(op), root, handle(), call, work);
    });
  }

  /// Block r of out on `root` = in of rank r. out holds ranks() times in on root; it is not used elsewhere and may be
  /// empty there. In place on root: in is block root of out.
  template <Input In, OutputFor<In> Out>
  Outcome gather(In&& in, Out&& out, int root, const CallOptions& options = {}) const {
    const std::uint64_t count = std::ranges::size(in);
    if (is_rank(root) && std::ranges::size(out) != count * ranks())
      return detail::wrong_size("gather", "out", std::ranges::size(out), count * ranks());
    return gather(std::ranges::data(in), std::ranges::data(out), count, detail::type_of<In>, root, options);
  }
  /// Raw: `count` elements from each rank.
  Outcome gather(const void* in, void* out, std::uint64_t count, DataType type, int root,
                 const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_gather(in, out, count, c(type), root, handle(), call, work);
    });
  }

  /// out = block rank() of in on `root`. in holds ranks() times out on root; it is not used elsewhere and may be empty
  /// there. In place on root: out is block root of in.
  template <Input In, OutputFor<In> Out>
  Outcome scatter(In&& in, Out&& out, int root, const CallOptions& options = {}) const {
    const std::uint64_t count = std::ranges::size(out);
    if (is_rank(root) && std::ranges::size(in) != count * ranks())
      return detail::wrong_size("scatter", "in", std::ranges::size(in), count * ranks());
    return scatter(std::ranges::data(in), std::ranges::data(out), count, detail::type_of<In>, root, options);
  }
  /// Raw: `count` elements to each rank.
  Outcome scatter(const void* in, void* out, std::uint64_t count, DataType type, int root,
                  const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_scatter(in, out, count, c(type), root, handle(), call, work);
    });
  }

  /// Block s of out = block rank() of in of rank s: a transposition. Both have the same size, a multiple of ranks(). No
  /// in-place form.
  template <Input In, OutputFor<In> Out>
  Outcome all_to_all(In&& in, Out&& out, const CallOptions& options = {}) const {
    const std::uint64_t size = std::ranges::size(in), blocks = ranks();
    if (std::ranges::size(out) != size) return detail::wrong_size("all_to_all", "out", std::ranges::size(out), size);
    if (blocks > 0 && size % blocks != 0)
      return detail::wrong_size("all_to_all", "in", size, (size / blocks + 1) * blocks);
    return all_to_all(std::ranges::data(in), std::ranges::data(out), blocks > 0 ? size / blocks : 0,
                      detail::type_of<In>, options);
  }
  /// Raw: `count` elements to and from each rank.
  Outcome all_to_all(const void* in, void* out, std::uint64_t count, DataType type,
                     const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_all_to_all(in, out, count, c(type), handle(), call, work);
    });
  }

  /// As all_gather, reduce_scatter, gather, scatter and all_to_all, with a count of elements for each rank. Every rank
  /// gives the same counts; displacements are its own affair. The buffer that holds all blocks must reach to the end of
  /// the last one, the other one holds exactly this rank's block. In place: the smaller buffer is this rank's (the
  /// root's) block of the larger one.
  template <Input In, OutputFor<In> Out>
  Outcome all_gather_v(In&& in, Out&& out, const Blocks& blocks, const CallOptions& options = {}) const {
    if (Status status = fit("all_gather_v", blocks, {"in", std::ranges::size(in)}, {"out", std::ranges::size(out)});
        !status)
      return status;
    return all_gather_v(std::ranges::data(in), std::ranges::data(out), blocks, detail::type_of<In>, options);
  }
  /// Raw.
  Outcome all_gather_v(const void* in, void* out, const Blocks& blocks, DataType type,
                       const CallOptions& options = {}) const {
    if (Status status = fit("all_gather_v", blocks); !status) return status;
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_all_gather_v(in, out, blocks.counts.data(), displacements_of(blocks), c(type), handle(), call, work);
    });
  }
  template <Input In, OutputFor<In> Out>
  Outcome reduce_scatter_v(In&& in, Out&& out, const Blocks& blocks, Op op = Op::sum,
                           const CallOptions& options = {}) const {
    if (Status status = fit("reduce_scatter_v", blocks, {"out", std::ranges::size(out)}, {"in", std::ranges::size(in)});
        !status)
      return status;
    return reduce_scatter_v(std::ranges::data(in), std::ranges::data(out), blocks, detail::type_of<In>, op, options);
  }
  /// Raw.
  Outcome reduce_scatter_v(const void* in, void* out, const Blocks& blocks, DataType type, Op op = Op::sum,
                           const CallOptions& options = {}) const {
    if (Status status = fit("reduce_scatter_v", blocks); !status) return status;
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_reduce_scatter_v(in, out, blocks.counts.data(), displacements_of(blocks), c(type), c(op), handle(),
                                    call, work);
    });
  }
  template <Input In, OutputFor<In> Out>
  Outcome gather_v(In&& in, Out&& out, const Blocks& blocks, int root, const CallOptions& options = {}) const {
    const std::uint64_t held = is_rank(root) ? std::ranges::size(out) : blocks.extent();
    if (Status status = fit("gather_v", blocks, {"in", std::ranges::size(in)}, {"out", held}); !status) return status;
    return gather_v(std::ranges::data(in), std::ranges::data(out), blocks, detail::type_of<In>, root, options);
  }
  /// Raw.
  Outcome gather_v(const void* in, void* out, const Blocks& blocks, DataType type, int root,
                   const CallOptions& options = {}) const {
    if (Status status = fit("gather_v", blocks); !status) return status;
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_gather_v(in, out, blocks.counts.data(), displacements_of(blocks), c(type), root, handle(), call,
                            work);
    });
  }
  template <Input In, OutputFor<In> Out>
  Outcome scatter_v(In&& in, Out&& out, const Blocks& blocks, int root, const CallOptions& options = {}) const {
    const std::uint64_t held = is_rank(root) ? std::ranges::size(in) : blocks.extent();
    if (Status status = fit("scatter_v", blocks, {"out", std::ranges::size(out)}, {"in", held}); !status) return status;
    return scatter_v(std::ranges::data(in), std::ranges::data(out), blocks, detail::type_of<In>, root, options);
  }
  /// Raw.
  Outcome scatter_v(const void* in, void* out, const Blocks& blocks, DataType type, int root,
                    const CallOptions& options = {}) const {
    if (Status status = fit("scatter_v", blocks); !status) return status;
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_scatter_v(in, out, blocks.counts.data(), displacements_of(blocks), c(type), root, handle(), call,
                             work);
    });
  }

  /// sent.counts[s] elements of in go to rank s, received.counts[s] elements of out come from rank s. Each rank knows
  /// its own counts only; where two ranks disagree about theirs, all get a mismatch that names both. No in-place form.
  template <Input In, OutputFor<In> Out>
  Outcome all_to_all_v(In&& in, const Blocks& sent, Out&& out, const Blocks& received,
                       const CallOptions& options = {}) const {
    if (std::ranges::size(in) < sent.extent())
      return detail::wrong_size("all_to_all_v", "in", std::ranges::size(in), sent.extent());
    if (std::ranges::size(out) < received.extent())
      return detail::wrong_size("all_to_all_v", "out", std::ranges::size(out), received.extent());
    return all_to_all_v(std::ranges::data(in), sent, std::ranges::data(out), received, detail::type_of<In>, options);
  }
  /// Raw.
  Outcome all_to_all_v(const void* in, const Blocks& sent, void* out, const Blocks& received, DataType type,
                       const CallOptions& options = {}) const {
    for (const Blocks* blocks : {&sent, &received})
      if (Status status = fit("all_to_all_v", *blocks); !status) return status;
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_all_to_all_v(in, sent.counts.data(), displacements_of(sent), out, received.counts.data(),
                                displacements_of(received), c(type), handle(), call, work);
    });
  }

  /// Done once every rank has called it.
  Outcome barrier(const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) { return tutti_barrier(handle(), call, work); });
  }

  /// Sends to rank `peer` (itself allowed). Messages of one (sender, receiver, tag) arrive in order. Up to 4 KiB it may
  /// complete before the receive is posted; larger ones wait for it. Errors: also mismatch (the receive's size
  /// differs).
  template <Input In>
  Outcome send(In&& in, int peer, std::uint32_t tag = 0, const CallOptions& options = {}) const {
    return send(std::ranges::data(in), std::ranges::size(in), detail::type_of<In>, peer, tag, options);
  }
  /// Raw: `count` elements of `type`.
  Outcome send(const void* in, std::uint64_t count, DataType type, int peer, std::uint32_t tag = 0,
               const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_send(in, count, c(type), peer, tag, handle(), call, work);
    });
  }

  /// Receives exactly out.size() elements from `peer` (any_source allowed). *source (may be null; must live until the
  /// operation is done) becomes the sender's rank.
  template <Output Out>
  Outcome recv(Out&& out, int peer, std::uint32_t tag = 0, int* source = nullptr,
               const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_recv(std::ranges::data(out), std::ranges::size(out), c(detail::type_of<Out>), peer, tag, handle(),
                        call, source, work);
    });
  }
  /// Raw: `count` elements of `type`.
  Outcome recv(void* out, std::uint64_t count, DataType type, int peer, std::uint32_t tag = 0, int* source = nullptr,
               const CallOptions& options = {}) const {
    return run(options, [&](const tutti_call* call, tutti_work** work) {
      return tutti_recv(out, count, c(type), peer, tag, handle(), call, source, work);
    });
  }

 protected:
  friend class Communicator;
  explicit Operations(detail::CommunicatorSlot* slot) : raw_slot_(slot) {}

  static tutti_dtype c(DataType type) { return static_cast<tutti_dtype>(type); }
  static tutti_op c(Op op) { return static_cast<tutti_op>(op); }
  std::uint64_t ranks() const {
    const int ranks = tutti_comm_ranks(handle());
    return ranks > 0 ? static_cast<std::uint64_t>(ranks) : 0;
  }
  bool is_rank(int rank) const { return tutti_comm_rank(handle()) == rank; }
  static const std::uint64_t* displacements_of(const Blocks& blocks) {
    return blocks.displacements.empty() ? nullptr : blocks.displacements.data();
  }
  /// The spans have a number for each rank.
  Status fit(const char* function, const Blocks& blocks) const {
    if (handle() == nullptr) return {};  // the C function says so
    if (blocks.counts.size() != ranks()) return detail::wrong_size(function, "counts", blocks.counts.size(), ranks());
    if (!blocks.displacements.empty() && blocks.displacements.size() != ranks())
      return detail::wrong_size(function, "displacements", blocks.displacements.size(), ranks());
    return {};
  }
  struct Held {
    const char* name;
    std::uint64_t size;
  };
  /// And the buffers hold one block, and all of them.
  Status fit(const char* function, const Blocks& blocks, const Held& one, const Held& all) const {
    if (Status status = fit(function, blocks); !status || handle() == nullptr) return status;
    const std::uint64_t own = blocks.counts[static_cast<std::size_t>(tutti_comm_rank(handle()))];
    if (one.size != own) return detail::wrong_size(function, one.name, one.size, own);
    return all.size < blocks.extent() ? detail::wrong_size(function, all.name, all.size, blocks.extent()) : Status();
  }
  template <class Function>
  Outcome run(const CallOptions& options, const Function& function) const {
    const detail::Call call(options);
    if constexpr (std::is_same_v<Outcome, Status>) {
      return Status::from_c(function(call.get(), nullptr));
    } else {
      tutti_work* work = nullptr;
      const Status status = Status::from_c(function(call.get(), &work));
      if (!status) return status;
      return Work(work);
    }
  }

  detail::CommunicatorSlot* raw_slot_;  // of the Communicator; null: empty
};

/// A group of ranks that act together; this process's (or thread's) seat in it. Operations<Status> above are its
/// blocking operations.
class Communicator : public Operations<Status> {
 public:
  using AsyncOperations = Operations<Result<Work>>;

  /// Joins the communicator `id` as `rank` of `ranks` (processes of this machine, threads, or a mix). Blocks until all
  /// have come or the knob `init_timeout` has passed; the error then names who is missing. Several ranks of one thread:
  /// inside one Group, valid after its end.
  /// Errors: invalid_argument, timeout, peer_lost, mismatch (agreed settings differ), unavailable.
  static Result<Communicator> create(const UniqueId& id, int rank, int ranks, const Config& config = {}) {
    return make(config, [&](const tutti_config* raw, tutti_comm** comm) {
      return tutti_comm_create(&id.raw, rank, ranks, raw, comm);
    });
  }
  /// The same with rank, ranks and id as `tutti run` sets them.
  static Result<Communicator> from_environment(const Config& config = {}) {
    return make(config, [](const tutti_config* raw, tutti_comm** comm) {
      return tutti_comm_create_from_environment(raw, comm);
    });
  }
  /// Collective over this communicator: ranks of equal `color` form a new one, ordered by (key, rank). A negative
  /// colour gets an empty Communicator. It outlives this one if need be.
  Result<Communicator> split(int color, int key = 0, const Config& config = {}) const {
    return make(config, [&](const tutti_config* raw, tutti_comm** comm) {
      return tutti_comm_split(handle(), color, key, raw, comm);
    });
  }

  /// Empty: every call gives invalid_argument.
  Communicator() : Operations(nullptr) {}
  Communicator(Communicator&& other) noexcept
      : Operations(std::exchange(other.raw_slot_, nullptr)), slot_(std::move(other.slot_)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    Communicator taken(std::move(other));
    std::swap(raw_slot_, taken.raw_slot_);
    std::swap(slot_, taken.slot_);
    return *this;
  }
  /// Ends the communicator: not collective, does not block; what still runs on this rank fails with `aborted`.
  ~Communicator() = default;

  /// False: empty, got nothing from split, was moved from, or its group has not ended.
  explicit operator bool() const noexcept { return handle() != nullptr; }
  int rank() const { return tutti_comm_rank(handle()); }
  int ranks() const { return tutti_comm_ranks(handle()); }
  const char* name() const { return tutti_comm_name(handle()); }
  /// Ok, or the error that ended this communicator. Never blocks.
  Status status() const { return Status::from_c(tutti_comm_status(handle())); }

  /// The same operations, returning a Work at once. Valid as long as this communicator.
  AsyncOperations async() const { return AsyncOperations(raw_slot_); }

  /// Wakes every waiter of every rank with `aborted` and `reason`. Returns at once. Any thread.
  Status abort(const std::string& reason = {}) const {
    return Status::from_c(tutti_comm_abort(handle(), reason.empty() ? nullptr : reason.c_str()));
  }

  /// Which row a collective of `bytes` (the larger buffer of a rank) would run, and why.
  Result<std::string> explain(Collective what, std::uint64_t bytes) const {
    std::string text;
    std::size_t needed = 512;
    do {
      text.resize(needed);
      const Status status = Status::from_c(
          tutti_explain(handle(), static_cast<tutti_collective>(what), bytes, text.data(), text.size(), &needed));
      if (!status) return status;
    } while (needed > text.size());
    text.resize(needed > 0 ? needed - 1 : 0);  // without the final 0
    return text;
  }

  /// Makes the sum of contributions multiplied beforehand by this rank's `factor`, which may be another on every rank:
  ///   const auto weighted = comm.pre_mul_sum(0.25f).value();
  ///   comm.all_reduce(gradients, weighted);
  /// Not collective; `factor` is of the element's type, integers wrap. Errors: unsupported (bool).
  template <Element T>
  Result<PreMulSum> pre_mul_sum(T factor) const {
    return pre_mul_sum(&factor, ElementType<T>::value);
  }
  /// Raw: *factor is one element of `type`.
  Result<PreMulSum> pre_mul_sum(const void* factor, DataType type) const {
    tutti_op op = TUTTI_OP_LAST;
    const Status status = Status::from_c(tutti_op_create_pre_mul_sum(factor, c(type), handle(), &op));
    if (!status) return status;
    return PreMulSum(slot_, op);
  }

  /// Announces a buffer: operations on it give the same results and may run without copies.
  template <Output Data>
  Result<Registration> register_buffer(Data&& data) const {
    return register_buffer(std::ranges::data(data), std::ranges::size(data) * sizeof(std::ranges::range_value_t<Data>));
  }
  Result<Registration> register_buffer(void* pointer, std::size_t bytes) const {
    tutti_registration* registration = nullptr;
    const Status status = Status::from_c(tutti_register_buffer(handle(), pointer, bytes, &registration));
    if (!status) return status;
    return Registration(registration);
  }

  /// Calls `hook` at the begin and end of every operation, on the thread that makes the progress: quick, no Tutti
  /// calls, no exceptions. An empty function removes it.
  Status set_event_hook(std::function<void(const tutti_event&)> hook) {
    const auto call = [](const tutti_event* event, void* argument) {
      (*static_cast<std::function<void(const tutti_event&)>*>(argument))(*event);
    };
    Status status = Status::from_c(tutti_set_event_hook(handle(), nullptr, nullptr));
    if (!status || !hook) return status;
    slot_->hook = std::move(hook);  // only while no hook is set: an event would see it half replaced
    return Status::from_c(tutti_set_event_hook(handle(), call, &slot_->hook));
  }

 private:
  using Slot = detail::CommunicatorSlot;
  explicit Communicator(std::shared_ptr<Slot> slot) : Operations(slot.get()), slot_(std::move(slot)) {}

  template <class Function>
  static Result<Communicator> make(const Config& config, const Function& function) {
    tutti_config raw{};
    raw.struct_size = sizeof raw;
    raw.name = config.name.empty() ? nullptr : config.name.c_str();
    raw.settings = config.settings.empty() ? nullptr : config.settings.c_str();
    auto slot = std::make_shared<Slot>();
    const Status status = Status::from_c(function(&raw, &slot->handle));
    if (!status) return status;
    detail::keep_until_group_end(slot);
    return Communicator(std::move(slot));
  }

  std::shared_ptr<Slot> slot_;
};

}  // namespace tutti

#endif  // TUTTI_TUTTI_HPP
