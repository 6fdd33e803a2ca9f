// SPDX-License-Identifier: Apache-2.0
#include "perf/common/worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "perf/common/element.h"
#include "perf/common/format.h"

namespace tutti::perf {

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void FreeMemory::operator()(char* pointer) const {
  if (from_tutti)
    tutti_free(pointer);
  else
    std::free(pointer);
}

ExitCode create_ranks(Process& process, int first, int count) {
  tutti_config config{};
  config.struct_size = sizeof config;
  config.name = "perf";
  const int ranks = process.world_ranks();
  const int offset = process.environment.process * process.local_ranks();
  const tutti_code code = in_group(count > 1, [&] {
    for (int local = first; local < first + count; ++local) {
      const tutti_code each =
          tutti_comm_create(&process.id, offset + local, ranks, &config, &process.worlds[static_cast<size_t>(local)]);
      if (each != TUTTI_OK) return each;
    }
    return TUTTI_OK;
  });
  if (code == TUTTI_OK) return ExitCode::ok;
  std::string who = "rank " + std::to_string(offset + first);
  if (count > 1) who = "ranks " + std::to_string(offset + first) + " to " + std::to_string(offset + first + count - 1);
  return checked(code, who + " of " + std::to_string(ranks) + " joining communicator \"perf\"");
}

Worker::Worker(Process& process, int thread)
    : process_(process), thread_(thread), max_bytes_(process.options.max_bytes) {
  call_.struct_size = sizeof call_;
  call_.timeout_s = process.options.timeout_s;
}

Worker::~Worker() {
  for (LocalRank& local : locals_) {
    for (tutti_registration* registration : local.registrations) tutti_deregister_buffer(registration);
    if (local.comm != local.world) tutti_comm_destroy(local.comm);
  }
}

void Worker::print(const std::string& text) const {
  if (!prints() || text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  set_line_open(text.back() != '\n');
  std::fflush(stdout);
}

ExitCode Worker::run() {
  memory_start_ = resident_memory();
  ExitCode code = connect();
  if (code == ExitCode::ok) code = describe();
  if (code == ExitCode::ok) code = agree_on_memory();
  if (code == ExitCode::ok) code = process_.program.run != nullptr ? ExitCode::ok : allocate();
  memory_allocated_ = resident_memory();
  if (code == ExitCode::ok) code = process_.program.run != nullptr ? process_.program.run(*this) : sweep();
  if (code == ExitCode::ok || code == ExitCode::wrong_data) return code;
  give_up();
  return passed_on(code);
}

/// Ranks that wait for this thread, between two measurements or in one, would do so until their deadline. A
/// communicator that is broken already is left alone: its own report to the others names the culprit better than this
/// one could.
void Worker::give_up() {
  const std::string error = tutti_last_error();
  const int rank = locals_.empty() ? -1 : locals_[0].world_rank;
  const std::string reason = "rank " + std::to_string(rank) + " of the benchmark gave up: " + error;
  control_.abort(reason);
  for (const LocalRank& local : locals_)
    if (local.comm != nullptr && tutti_comm_status(local.comm) == TUTTI_OK)
      tutti_comm_abort(local.comm, reason.c_str());
  if (prints()) process_.json.abandon(error);
}

ExitCode Worker::connect() {
  const int per_thread = options().ranks_per_thread;
  const int first = thread_ * per_thread;
  if (options().parallel_init)
    if (const ExitCode code = create_ranks(process_, first, per_thread); code != ExitCode::ok) return code;
  std::vector<tutti_comm*> worlds;
  for (int local = first; local < first + per_thread; ++local) {
    LocalRank rank;
    rank.world = rank.comm = process_.worlds[static_cast<size_t>(local)];
    rank.world_rank = rank.rank = tutti_comm_rank(rank.world);
    worlds.push_back(rank.world);
    locals_.push_back(std::move(rank));
  }
  ranks_ = process_.world_ranks();
  if (const ExitCode code = control_.create(worlds); code != ExitCode::ok) return code;
  const Environment& environment = process_.environment;
  if (!environment.split.empty()) {
    group_ = group_of(environment.split, environment.process).value_or(0);
    tutti_config config{};
    config.struct_size = sizeof config;
    config.name = "perf-group";
    const tutti_code code = in_group(locals_.size() > 1, [&] {
      for (LocalRank& local : locals_) {
        local.comm = nullptr;
        const tutti_code split = tutti_comm_split(local.world, group_, local.world_rank, &config, &local.comm);
        if (split != TUTTI_OK) return split;
      }
      return TUTTI_OK;
    });
    if (code != TUTTI_OK) return operation_failed(code, locals_[0], "split of NCCL_TESTS_SPLIT");
    for (LocalRank& local : locals_) local.rank = tutti_comm_rank(local.comm);
    ranks_ = tutti_comm_ranks(locals_[0].comm);
  }
  memory_connected_ = resident_memory();
  // Only now: the library counts the CPUs of the process when its first communicator is made.
  if (options().bind) bind_thread(environment.local_process * options().threads + thread_);
  return ExitCode::ok;
}

/// A fixed-size record of one rank, for gather.
struct DeviceRecord {
  int rank, group, pid, index;
  char host[64], name[112];
};

ExitCode Worker::describe() {
  const Environment& environment = process_.environment;
  const std::string host = host_name(), name = processor_name();
  const int first_device =
      environment.first_device >= 0 ? environment.first_device : environment.local_process * process_.local_ranks();
  std::vector<DeviceRecord> records;
  for (size_t k = 0; k < locals_.size(); ++k) {
    DeviceRecord record{};
    record.rank = locals_[k].world_rank;
    record.group = group_;
    record.pid = getpid();
    record.index = first_device + thread_ * options().ranks_per_thread + static_cast<int>(k);
    std::snprintf(record.host, sizeof record.host, "%s", host.c_str());
    std::snprintf(record.name, sizeof record.name, "%s", name.c_str());
    records.push_back(record);
  }
  std::vector<char> all;
  if (const ExitCode code = control_.gather(records.data(), sizeof(DeviceRecord), all); code != ExitCode::ok)
    return code;
  if (!prints()) return ExitCode::ok;
  std::string lines = "# Using devices\n";
  std::vector<Device> first_of_process;
  const auto per_process = static_cast<size_t>(process_.local_ranks());
  for (size_t rank = 0; rank * sizeof(DeviceRecord) < all.size(); ++rank) {
    DeviceRecord record;
    std::memcpy(&record, all.data() + rank * sizeof record, sizeof record);
    Device device{record.rank, record.group, record.pid, record.index, record.host, record.name};
    lines += device_line(device);
    if (rank % per_process == 0) first_of_process.push_back(std::move(device));
  }
  print(lines);
  process_.json.configuration(options(), first_of_process);
  return ExitCode::ok;
}

/// Both buffers of every rank of this machine must fit into three quarters of the memory that is free now.
ExitCode Worker::agree_on_memory() {
  const uint64_t available = available_memory();
  const auto ranks_here = static_cast<uint64_t>(process_.environment.local_processes * process_.local_ranks());
  const uint64_t limit = available / 4 * 3 / ranks_here / 2;
  std::vector<double> smallest = {available == 0 ? 1e18 : static_cast<double>(limit)};
  if (const ExitCode code = control_.reduce(smallest, TUTTI_MIN); code != ExitCode::ok) return code;
  if (smallest[0] < static_cast<double>(max_bytes_)) {
    max_bytes_ = static_cast<uint64_t>(smallest[0]) / 4096 * 4096;
    reduced_ = true;
    print("#\n# Reducing maxBytes to " + std::to_string(max_bytes_) + " due to memory limitation\n");
  }
  return ExitCode::ok;
}

ExitCode Worker::allocate() {
  for (LocalRank& local : locals_)
    for (auto* buffer : {&local.send, &local.recv})
      if (const ExitCode code = allocate_buffer(local, *buffer); code != ExitCode::ok) return code;
  return ExitCode::ok;
}

ExitCode Worker::allocate_buffer(LocalRank& local, std::unique_ptr<char, FreeMemory>& buffer) {
  // Room for -u elements of the largest type, in whole pages.
  const uint64_t bytes = (max_bytes_ + 8 * static_cast<uint64_t>(options().unalign) + 4095) / 4096 * 4096;
  const std::string what =
      "rank " + std::to_string(local.world_rank) + " allocating " + std::to_string(bytes) + " bytes";
  if (options().local_register == 0) {
    auto* pointer = static_cast<char*>(std::aligned_alloc(4096, bytes));
    if (pointer == nullptr) return failed(ExitCode::internal, what + ": out of memory; use a smaller -e");
    buffer = {pointer, FreeMemory{false}};
  } else {
    void* pointer = nullptr;
    if (const tutti_code code = tutti_alloc(bytes, &pointer); code != TUTTI_OK) return checked(code, what);
    buffer = {static_cast<char*>(pointer), FreeMemory{true}};
    tutti_registration* registration = nullptr;
    const tutti_code code = tutti_register_buffer(local.comm, pointer, bytes, &registration);
    if (code != TUTTI_OK)
      return operation_failed(code, local, "register_buffer of " + std::to_string(bytes) + " bytes");
    local.registrations.push_back(registration);
  }
  std::memset(buffer.get(), 0, bytes);  // first touch here, never in a timed call
  return ExitCode::ok;
}

ExitCode Worker::average_time(double& seconds) {
  tutti_op op = TUTTI_SUM;
  double divisor = 1;
  std::vector<double> value = {seconds};
  switch (options().average) {
    case 0:
      if (thread_ != 0 || process_.environment.process != 0) value[0] = 0;
      break;
    case 2: op = TUTTI_MIN; break;
    case 3: op = TUTTI_MAX; break;
    default: divisor = static_cast<double>(process_.environment.processes) * options().threads; break;
  }
  const ExitCode code = control_.reduce(value, op);
  seconds = value[0] / divisor;
  return code;
}

ExitCode Worker::gather_iterations(const std::vector<double>& mine, Placement& placement) {
  const size_t count = mine.size();
  std::vector<double> of_ranks;  // the ranks of a thread share their times
  for (size_t k = 0; k < locals_.size(); ++k) of_ranks.insert(of_ranks.end(), mine.begin(), mine.end());
  std::vector<char> bytes;
  if (const ExitCode code = control_.gather(of_ranks.data(), count * sizeof(double), bytes); code != ExitCode::ok)
    return code;
  std::vector<double> all(bytes.size() / sizeof(double));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  placement.iteration_seconds.assign(count, 0.0);
  placement.process_seconds.assign(static_cast<size_t>(process_.environment.processes),
                                   std::vector<double>(count, 0.0));
  const auto per_process = static_cast<size_t>(process_.local_ranks());
  for (size_t rank = 0; rank * count < all.size(); ++rank)
    for (size_t k = 0; k < count; ++k) {
      const double time = all[rank * count + k];
      double& slowest = placement.iteration_seconds[k];
      double& of_process = placement.process_seconds[rank / per_process][k];
      slowest = std::max(slowest, time);
      of_process = std::max(of_process, time);
    }
  return ExitCode::ok;
}

ExitCode Worker::operation_failed(tutti_code code, const LocalRank& local, const std::string& what, const char* file,
                                  int line) const {
  return checked_within(code, options().timeout_s, "rank " + std::to_string(local.world_rank) + " " + what, file, line);
}

}  // namespace tutti::perf
