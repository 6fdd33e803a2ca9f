// SPDX-License-Identifier: Apache-2.0
// The C ABI of tutti/tutti.h: translates between C and the library, nothing else.
#include <algorithm>
#include <cstring>
#include <new>

#include "src/comm/group.h"
#include "src/comm/small_call.h"
#include "tutti/tutti.h"

using tutti::core::Call;
using tutti::core::Communicator;
using tutti::core::Group;
using tutti::core::Operation;
using tutti::core::Process;
using tutti::core::Result;
using tutti::core::SmallCall;
using tutti::core::SmallEnd;
using tutti::core::Status;
using tutti::core::UniqueIdBytes;

struct tutti_comm {
  std::unique_ptr<Communicator> communicator;
};
struct tutti_registration {
  Process* process;
  std::uint64_t id;
};

namespace {

thread_local std::string last_error;

tutti_code report(const Status& status) {
  if (status.is_ok()) return TUTTI_OK;
  last_error = status.message() + (status.remedy().empty() ? "" : " (" + status.remedy() + ")");
  return status.code();
}

Status missing(const char* parameter) {
  return Status::error(TUTTI_INVALID_ARGUMENT, std::string(parameter) + " is NULL");
}

/// No exception leaves the library: running out of memory is an error like any other.
template <class Body>
tutti_code guarded(Body body) {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(Status::error(TUTTI_UNAVAILABLE, "out of memory"));
  } catch (const std::exception& error) {
    return report(Status::error(TUTTI_INTERNAL, std::string("unexpected exception: ") + error.what()));
  }
}

UniqueIdBytes to_bytes(const tutti_unique_id& id) {
  UniqueIdBytes bytes;
  std::copy(std::begin(id.bytes), std::end(id.bytes), bytes.begin());
  return bytes;
}

/// A tutti_work is the operation itself.
Operation* operation_of(const tutti_work* work) {
  return const_cast<Operation*>(reinterpret_cast<const Operation*>(work));
}

/// Strings of a config must outlive a deferred creation.
struct OwnedConfig {
  explicit OwnedConfig(const tutti_config* config) : given(config != nullptr) {
    if (!config) return;
    value = {};
    std::memcpy(&value, config, std::min(config->struct_size, sizeof value));
    value.struct_size = config->struct_size;
    if (config->struct_size < sizeof value) return;
    if (value.name) name = value.name;
    if (value.settings) settings = value.settings;
  }
  const tutti_config* get() {
    if (value.name) value.name = name.c_str();
    if (value.settings) value.settings = settings.c_str();
    return given ? &value : nullptr;
  }
  bool given;
  tutti_config value{};
  std::string name, settings;
};

/// Runs a creation now, or at the end of the open group.
template <class Create>
Status create_or_defer(tutti_comm** comm, const tutti_config* config, const tutti_comm* parent, Create create) {
  *comm = nullptr;
  auto body = [comm, owned = std::make_shared<OwnedConfig>(config), create]() -> Status {
    Result<std::unique_ptr<Communicator>> made = create(owned->get());
    if (!made.is_ok()) return made.status();
    if (*made) *comm = new tutti_comm{std::move(*made)};
    return {};
  };
  if (!Group::current().open()) return body();
  Group::current().add_creation(parent, std::move(body));
  return {};
}

Status fill_call(Call& call, const tutti_call* options) {
  if (!options) return {};
  if (options->struct_size < sizeof(tutti_call))
    return Status::error(TUTTI_INVALID_ARGUMENT, "tutti_call::struct_size is " + std::to_string(options->struct_size))
        .with_remedy("set it to sizeof(tutti_call), here " + std::to_string(sizeof(tutti_call)));
  call.tag = options->tag;
  call.timeout_s = options->timeout_s;
  if (options->algorithm) call.algorithm = options->algorithm;
  return {};
}

/// The one path of every other operation: blocking, asynchronous, or deferred to the end of a group.
Status operate(tutti_comm* comm, Call& call, const tutti_call* options, int* source, tutti_work** work) {
  if (!comm) return missing("comm");
  TUTTI_TRY(fill_call(call, options));
  Communicator& communicator = *comm->communicator;
  if (tutti::core::is_variable(call.what)) {
    call.count = tutti::core::total_count(call.blocks, communicator.ranks());
    // Elsewhere the displacements may be anything.
    if (tutti::core::is_rooted(call.what) && call.peer != communicator.rank()) call.blocks.displacements = nullptr;
  }
  Group& group = Group::current();
  const Status resolved = communicator.process().operators().resolve(call, communicator);
  if (resolved.is_ok() && !group.open() && !work) return communicator.run(call, source);
  auto prepared = resolved.is_ok() ? communicator.prepare(call, source) : Result<Operation*>(resolved);
  if (!prepared.is_ok()) {
    if (group.open()) group.note_error(prepared.status());
    return prepared.status();
  }
  Operation* operation = *prepared;
  if (group.open()) {
    group.add_operation(operation, work == nullptr);
  } else {
    Status submitted = communicator.submit(*operation);
    if (!submitted.is_ok()) {
      operation->release();
      return submitted;
    }
  }
  if (work) *work = reinterpret_cast<tutti_work*>(operation);
  return {};
}

/// Whether a call may go the short way (small_call.h).
bool is_plain(const tutti_comm* comm, const tutti_call* options, tutti_work** work) {
  return !options && !work && comm && !Group::any_open();
}

// The ways on from there. Not inline: the short way shall stay short.
[[gnu::noinline, gnu::cold]] tutti_code continue_small(tutti_comm* comm, tutti_collective what, const SmallCall& call) {
  return guarded([&] { return comm->communicator->continue_small(what, call); });
}
[[gnu::noinline]] tutti_code run(tutti_comm* comm, Call arguments, const tutti_call* options, tutti_work** work) {
  return guarded([&] { return operate(comm, arguments, options, nullptr, work); });
}

}  // namespace

int tutti_version(void) { return TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH; }
const char* tutti_code_name(tutti_code code) { return tutti::core::code_name(code); }
const char* tutti_last_error(void) { return last_error.c_str(); }
size_t tutti_dtype_bytes(tutti_dtype type) { return tutti::core::dtype_bytes(type); }
const char* tutti_dtype_name(tutti_dtype type) {
  return tutti::core::dtype_bytes(type) ? tutti::core::dtype_name(type).data() : nullptr;
}

tutti_code tutti_unique_id_create(tutti_unique_id* id) {
  return guarded([&]() -> Status {
    if (!id) return missing("id");
    TUTTI_TRY(bytes, tutti::core::make_unique_id());
    std::copy(bytes.begin(), bytes.end(), id->bytes);
    return {};
  });
}

tutti_code tutti_unique_id_from_environment(tutti_unique_id* id) {
  return guarded([&]() -> Status {
    if (!id) return missing("id");
    TUTTI_TRY(config, tutti::core::Config::from_environment());
    if (config.unique_id().empty())
      return Status::error(TUTTI_UNAVAILABLE, "TUTTI_UNIQUE_ID is not set")
          .with_remedy("start the program by `tutti run -n N`");
    auto bytes = tutti::core::parse_unique_id(config.unique_id());
    if (!bytes.is_ok()) return Status(bytes.status()).with_context("TUTTI_UNIQUE_ID");
    std::copy(bytes->begin(), bytes->end(), id->bytes);
    return {};
  });
}

tutti_code tutti_comm_create(const tutti_unique_id* id, int rank, int ranks, const tutti_config* config,
                             tutti_comm** comm) {
  return guarded([&]() -> Status {
    if (!id) return missing("id");
    if (!comm) return missing("comm");
    return create_or_defer(comm, config, nullptr, [bytes = to_bytes(*id), rank, ranks](const tutti_config* owned) {
      return Communicator::create(bytes, rank, ranks, owned);
    });
  });
}

tutti_code tutti_comm_create_from_environment(const tutti_config* config, tutti_comm** comm) {
  return guarded([&]() -> Status {
    if (!comm) return missing("comm");
    TUTTI_TRY(environment, tutti::core::Config::from_environment());
    TUTTI_TRY(launch, environment.launch_info());
    if (!launch)
      return Status::error(TUTTI_UNAVAILABLE, "RANK and WORLD_SIZE are not set")
          .with_remedy("start the program by `tutti run -n N`");
    tutti_unique_id id;
    if (launch->world_size == 1 && environment.unique_id().empty()) {
      if (const tutti_code code = tutti_unique_id_create(&id)) return Status::error(code, last_error);
    } else if (const tutti_code code = tutti_unique_id_from_environment(&id)) {
      return Status::error(code, last_error);
    }
    return create_or_defer(comm, config, nullptr,
                           [bytes = to_bytes(id), rank = launch->rank, ranks = launch->world_size](
                               const tutti_config* owned) { return Communicator::create(bytes, rank, ranks, owned); });
  });
}

tutti_code tutti_comm_split(tutti_comm* parent, int color, int key, const tutti_config* config, tutti_comm** comm) {
  return guarded([&]() -> Status {
    if (!parent) return missing("parent");
    if (!comm) return missing("comm");
    return create_or_defer(comm, config, parent, [parent, color, key](const tutti_config* owned) {
      return parent->communicator->split(color, key, owned);
    });
  });
}

tutti_code tutti_comm_destroy(tutti_comm* comm) {
  return guarded([&]() -> Status {
    if (comm && Process::forked()) return Process::refuse_fork();
    delete comm;
    return {};
  });
}

tutti_code tutti_comm_abort(tutti_comm* comm, const char* reason) {
  return guarded([&]() -> Status {
    if (!comm) return missing("comm");
    if (Process::forked()) return Process::refuse_fork();
    comm->communicator->abort(reason ? reason : "");
    return {};
  });
}

tutti_code tutti_op_create_pre_mul_sum(const void* scalar, tutti_dtype type, tutti_comm* comm, tutti_op* op) {
  return guarded([&]() -> Status {
    if (!scalar) return missing("scalar");
    if (!comm) return missing("comm");
    if (!op) return missing("op");
    TUTTI_TRY(made, comm->communicator->process().operators().make(scalar, type, *comm->communicator));
    *op = made;
    return {};
  });
}

tutti_code tutti_op_destroy(tutti_op op, tutti_comm* comm) {
  return guarded([&]() -> Status {
    if (!comm) return missing("comm");
    return comm->communicator->process().operators().destroy(op, *comm->communicator);
  });
}

int tutti_comm_rank(const tutti_comm* comm) { return comm ? comm->communicator->rank() : -1; }
int tutti_comm_ranks(const tutti_comm* comm) { return comm ? comm->communicator->ranks() : -1; }
const char* tutti_comm_name(const tutti_comm* comm) { return comm ? comm->communicator->name().c_str() : nullptr; }

tutti_code tutti_comm_status(tutti_comm* comm) {
  return guarded([&]() -> Status { return comm ? comm->communicator->status() : missing("comm"); });
}

[[gnu::flatten]] tutti_code tutti_all_reduce(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_op op,
                                             tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  if (is_plain(comm, call, work)) {
    const SmallCall small{type, op, count, in, out};
    const SmallEnd end = comm->communicator->run_small<TUTTI_ALL_REDUCE>(small);
    if (end == SmallEnd::done) return TUTTI_OK;
    if (end == SmallEnd::late) return continue_small(comm, TUTTI_ALL_REDUCE, small);
  }
  return run(comm, {TUTTI_ALL_REDUCE, type, op, -1, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_all_gather(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_comm* comm,
                            const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_ALL_GATHER, type, TUTTI_SUM, -1, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_reduce_scatter(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_op op,
                                tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_REDUCE_SCATTER, type, op, -1, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_broadcast(const void* in, void* out, uint64_t count, tutti_dtype type, int root, tutti_comm* comm,
                           const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_BROADCAST, type, TUTTI_SUM, root, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_reduce(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_op op, int root,
                        tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_REDUCE, type, op, root, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_gather(const void* in, void* out, uint64_t count, tutti_dtype type, int root, tutti_comm* comm,
                        const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_GATHER, type, TUTTI_SUM, root, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_scatter(const void* in, void* out, uint64_t count, tutti_dtype type, int root, tutti_comm* comm,
                         const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_SCATTER, type, TUTTI_SUM, root, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_all_to_all(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_comm* comm,
                            const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_ALL_TO_ALL, type, TUTTI_SUM, -1, count, in, out, 0, 0, 0, {}}, call, work);
}

tutti_code tutti_all_gather_v(const void* in, void* out, const uint64_t* counts, const uint64_t* displacements,
                              tutti_dtype type, tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_ALL_GATHER_V, type, TUTTI_SUM, -1, 0, in, out, 0, 0, 0, {}, {counts, displacements}}, call,
             work);
}

tutti_code tutti_reduce_scatter_v(const void* in, void* out, const uint64_t* counts, const uint64_t* displacements,
                                  tutti_dtype type, tutti_op op, tutti_comm* comm, const tutti_call* call,
                                  tutti_work** work) {
  return run(comm, {TUTTI_REDUCE_SCATTER_V, type, op, -1, 0, in, out, 0, 0, 0, {}, {counts, displacements}}, call,
             work);
}

tutti_code tutti_gather_v(const void* in, void* out, const uint64_t* counts, const uint64_t* displacements,
                          tutti_dtype type, int root, tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_GATHER_V, type, TUTTI_SUM, root, 0, in, out, 0, 0, 0, {}, {counts, displacements}}, call,
             work);
}

tutti_code tutti_scatter_v(const void* in, void* out, const uint64_t* counts, const uint64_t* displacements,
                           tutti_dtype type, int root, tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_SCATTER_V, type, TUTTI_SUM, root, 0, in, out, 0, 0, 0, {}, {counts, displacements}}, call,
             work);
}

tutti_code tutti_all_to_all_v(const void* in, const uint64_t* send_counts, const uint64_t* send_displacements,
                              void* out, const uint64_t* recv_counts, const uint64_t* recv_displacements,
                              tutti_dtype type, tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  Call arguments{TUTTI_ALL_TO_ALL_V, type, TUTTI_SUM, -1, 0, in, out, 0, 0, 0, {}};
  arguments.blocks = {send_counts, send_displacements};
  arguments.received = {recv_counts, recv_displacements};
  return run(comm, arguments, call, work);
}

[[gnu::flatten]] tutti_code tutti_barrier(tutti_comm* comm, const tutti_call* call, tutti_work** work) {
  if (is_plain(comm, call, work)) {
    const SmallCall small{TUTTI_INT8, TUTTI_SUM, 0, nullptr, nullptr};
    const SmallEnd end = comm->communicator->run_small<TUTTI_BARRIER>(small);
    if (end == SmallEnd::done) return TUTTI_OK;
    if (end == SmallEnd::late) return continue_small(comm, TUTTI_BARRIER, small);
  }
  return run(comm, {}, call, work);
}

tutti_code tutti_send(const void* in, uint64_t count, tutti_dtype type, int peer, uint32_t tag, tutti_comm* comm,
                      const tutti_call* call, tutti_work** work) {
  return run(comm, {TUTTI_SEND, type, TUTTI_SUM, peer, count, in, nullptr, 0, tag, 0, {}}, call, work);
}

tutti_code tutti_recv(void* out, uint64_t count, tutti_dtype type, int peer, uint32_t tag, tutti_comm* comm,
                      const tutti_call* call, int* source, tutti_work** work) {
  return guarded([&] {
    Call arguments{TUTTI_RECV, type, TUTTI_SUM, peer, count, nullptr, out, 0, tag, 0, {}};
    return operate(comm, arguments, call, source, work);
  });
}

tutti_code tutti_work_wait(tutti_work* work, double timeout_s) {
  return guarded([&]() -> Status {
    if (!work) return missing("work");
    Operation& operation = *operation_of(work);
    if (operation.done()) return operation.status();
    if (Process::forked()) return Process::refuse_fork();
    if (!operation.submitted.load(std::memory_order_acquire))
      return Status::error(TUTTI_INVALID_ARGUMENT, "work belongs to a group that is still open")
          .with_remedy("call tutti_group_end first");
    Status status =
        operation.communicator->wait(operation, timeout_s >= 0 ? tutti::core::seconds_to_ns(timeout_s) : -1);
    if (status.code() == TUTTI_IN_PROGRESS) return Status::error(TUTTI_TIMEOUT, status.message());
    return status;
  });
}

tutti_code tutti_work_test(tutti_work* work) {
  return guarded([&]() -> Status {
    if (!work) return missing("work");
    Operation& operation = *operation_of(work);
    if (!operation.done() && operation.submitted.load(std::memory_order_acquire) && !Process::forked())
      operation.communicator->poke();
    return operation.done() ? operation.status() : Status::error(TUTTI_IN_PROGRESS, "the operation has not finished");
  });
}

tutti_code tutti_work_times(const tutti_work* work, tutti_times* times) {
  return guarded([&]() -> Status {
    if (!work) return missing("work");
    if (!times) return missing("times");
    if (times->struct_size < sizeof(tutti_times))
      return Status::error(TUTTI_INVALID_ARGUMENT, "tutti_times::struct_size is " + std::to_string(times->struct_size))
          .with_remedy("set it to sizeof(tutti_times)");
    operation_of(work)->fill_times(*times);
    return {};
  });
}

tutti_code tutti_work_on_complete(tutti_work* work, void (*fn)(tutti_code code, void* argument), void* argument) {
  return guarded([&]() -> Status {
    if (!work) return missing("work");
    if (!fn) return missing("fn");
    operation_of(work)->on_complete([fn, argument](tutti_code code) { fn(code, argument); });
    return {};
  });
}

void tutti_work_free(tutti_work* work) {
  if (work) operation_of(work)->release();
}

tutti_code tutti_group_begin(void) {
  Group::current().begin();
  return TUTTI_OK;
}

tutti_code tutti_group_end(void) {
  return guarded([] { return Group::current().end(); });
}

tutti_code tutti_alloc(size_t bytes, void** pointer) {
  return guarded([&]() -> Status {
    if (!pointer) return missing("pointer");
    *pointer = nullptr;
    TUTTI_TRY(config, tutti::core::Config::from_environment());
    TUTTI_TRY(process, Process::get(config, ""));
    TUTTI_TRY(memory, process->memory().allocate(bytes));
    *pointer = memory;
    return {};
  });
}

tutti_code tutti_free(void* pointer) {
  return guarded([&]() -> Status {
    if (!pointer) return {};
    if (Process::forked()) return Process::refuse_fork();
    Process* process = Process::current();
    if (!process) return Status::error(TUTTI_INVALID_ARGUMENT, "pointer is not from tutti_alloc");
    return process->memory().free(pointer);
  });
}

tutti_code tutti_register_buffer(tutti_comm* comm, void* pointer, size_t bytes, tutti_registration** registration) {
  return guarded([&]() -> Status {
    if (!comm) return missing("comm");
    if (!pointer) return missing("pointer");
    if (!registration) return missing("registration");
    if (Process::forked()) return Process::refuse_fork();
    Process& process = comm->communicator->process();
    TUTTI_TRY(id, process.memory().register_range(pointer, bytes));
    *registration = new tutti_registration{&process, id};
    return {};
  });
}

tutti_code tutti_deregister_buffer(tutti_registration* registration) {
  return guarded([&]() -> Status {
    if (!registration) return {};
    if (Process::forked()) return Process::refuse_fork();
    Status status = registration->process->memory().deregister(registration->id);
    delete registration;
    return status;
  });
}

tutti_code tutti_explain(tutti_comm* comm, tutti_collective what, uint64_t bytes, char* text, size_t capacity,
                         size_t* needed) {
  return guarded([&]() -> Status {
    if (!comm) return missing("comm");
    if (!text && capacity > 0) return missing("text");
    if (static_cast<unsigned>(what) >= TUTTI_COLLECTIVE_COUNT || tutti::core::is_point_to_point(what))
      return Status::error(TUTTI_INVALID_ARGUMENT, "what is " + std::to_string(static_cast<int>(what)))
          .with_remedy("allowed: a collective of tutti/types.h, not TUTTI_SEND or TUTTI_RECV");
    const std::string full = comm->communicator->explain(what, bytes);
    if (needed) *needed = full.size() + 1;
    if (capacity == 0) return {};
    const std::size_t copied = std::min(full.size(), capacity - 1);
    std::memcpy(text, full.data(), copied);
    text[copied] = 0;
    return {};
  });
}

tutti_code tutti_set_event_hook(tutti_comm* comm, void (*fn)(const tutti_event* event, void* argument),
                                void* argument) {
  return guarded([&]() -> Status {
    if (!comm) return missing("comm");
    comm->communicator->set_event_hook(fn, argument);
    return {};
  });
}
