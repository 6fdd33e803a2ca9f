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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <utility>

#include "tutti/buffers.hpp"
#include "tutti/operations.hpp"
#include "tutti/status.hpp"
#include "tutti/work.hpp"

namespace tutti {

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
