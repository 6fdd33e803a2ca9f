// SPDX-License-Identifier: Apache-2.0
/// \file
/// Part of tutti.hpp: every operation of a communicator, blocking and asynchronous from one text.
#ifndef TUTTI_OPERATIONS_HPP
#define TUTTI_OPERATIONS_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/buffers.hpp"
#include "tutti/work.hpp"

namespace tutti {

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

}  // namespace tutti

#endif  // TUTTI_OPERATIONS_HPP
