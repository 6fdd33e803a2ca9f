// SPDX-License-Identifier: Apache-2.0
// The part of Worker that calls, times and checks one row in one placement.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "perf/common/element.h"
#include "perf/common/verify.h"
#include "perf/common/worker.h"

namespace tutti::perf {
namespace {

uint64_t largest_bytes(const Row& row) { return std::max(row.operands.send, row.operands.recv) * row.element_bytes; }

const char* op_name(const Row& row) {
  for (const NamedOp& candidate : named_ops())
    if (candidate.op == row.op && candidate.premultiplied == row.premultiplied) return candidate.name.c_str();
  return "?";
}

/// The operator of one call of one rank. A pre-multiplied sum is made before and destroyed after every call, as
/// nccl-tests does it: both belong to what is measured.
class CallOp {
 public:
  CallOp(const Row& row, int rank, tutti_comm* comm) : value(row.op), comm_(row.premultiplied ? comm : nullptr) {
    if (!row.premultiplied) return;
    const uint64_t scalar = encode_number(row.type, premultiplier(rank));
    code = tutti_op_create_pre_mul_sum(&scalar, row.type, comm, &value);
  }
  ~CallOp() {
    if (comm_ != nullptr && code == TUTTI_OK) tutti_op_destroy(value, comm_);
  }
  CallOp(const CallOp&) = delete;
  CallOp& operator=(const CallOp&) = delete;

  tutti_op value;
  tutti_code code = TUTTI_OK;

 private:
  tutti_comm* comm_;
};

/// "out of place, 1024 elements of float32 sum, root 0".
std::string describe_row(const Program& program, const Row& row) {
  std::string text = std::to_string(row.operands.param) + " elements of " + tutti_dtype_name(row.type);
  if (program.has_op) text += std::string(" ") + op_name(row);
  if (program.has_root) text += ", root " + std::to_string(row.root);
  return text;
}

}  // namespace

/// Iterations walk through the buffers, as nccl-tests' do, so that small rows do not measure the first-level cache
/// alone; iteration 0 is at the start.
/// Iterations that have buffers of their own.
uint64_t Worker::places_of(const Row& row) const {
  const uint64_t bytes = largest_bytes(row);
  return bytes == 0 ? 1 : std::max<uint64_t>(1, max_bytes_ / bytes);
}

Worker::Buffers Worker::buffers_of(const LocalRank& local, const Row& row, bool in_place, uint64_t iteration) const {
  const uint64_t bytes = largest_bytes(row);
  const uint64_t offset =
      bytes * (iteration % places_of(row)) + static_cast<uint64_t>(options().unalign) * row.element_bytes;
  char* recv = local.recv.get() + offset;
  if (!in_place || !process_.program.has_in_place) return {local.send.get() + offset, recv};
  const uint64_t block = static_cast<uint64_t>(local.rank) * row.element_bytes;
  return {recv + block * row.operands.send_in_place, recv + block * row.operands.recv_in_place};
}

/// Inputs of iteration 0; whatever is not input holds kUntouchedByte.
void Worker::prepare(const Row& row, bool in_place) const {
  for (const LocalRank& local : locals_) {
    const Buffers buffers = buffers_of(local, row, in_place, 0);
    char* recv = local.recv.get() + static_cast<uint64_t>(options().unalign) * row.element_bytes;
    std::memset(recv, kUntouchedByte, largest_bytes(row));
    fill(row.type, process_.program.send_layout(row, local.rank), buffers.send);
  }
}

tutti_code Worker::call_once(const Row& row, bool in_place, uint64_t iteration, std::deque<tutti_work*>* works) {
  const Program& program = process_.program;
  const int steps = program.steps != nullptr ? program.steps(row.ranks) : 1;
  tutti_code code = TUTTI_OK;
  for (int step = 0; step < steps && code == TUTTI_OK; ++step) {
    code = in_group(locals_.size() > 1, [&] {
      for (const LocalRank& local : locals_) {
        const Buffers buffers = buffers_of(local, row, in_place, iteration);
        const CallOp op(row, local.rank, local.comm);
        if (op.code != TUTTI_OK) return op.code;
        const Call call{row, local.rank, step, op.value, buffers.send, buffers.recv, local.comm, call_options(), works};
        if (const tutti_code each = program.launch(call); each != TUTTI_OK) return each;
      }
      return TUTTI_OK;
    });
  }
  return code;
}

ExitCode Worker::call_failed(tutti_code code, const Row& row, const char* file, int line) const {
  const Program& program = process_.program;
  return operation_failed(code, locals_[0], std::string(program.operation) + " of " + describe_row(program, row), file,
                          line);
}

/// `aggregate` calls, in one group unless something must happen between them or they depend on each other.
ExitCode Worker::call_iteration(const Row& row, bool in_place, uint64_t iteration) {
  const auto calls = static_cast<uint64_t>(options().aggregate);
  const bool barrier_each = options().blocking == 1;
  // Calls of a group must not read what another one of it writes, as calls in place on one buffer do.
  const bool dependent = in_place && places_of(row) < calls;
  const bool grouped = calls > 1 && !dependent && options().blocking != 1 && options().blocking != 2 &&
                       process_.program.steps == nullptr;
  ExitCode control = ExitCode::ok;
  const tutti_code code = in_group(grouped, [&] {
    for (uint64_t call = 0; call < calls; ++call) {
      const tutti_code each = call_once(row, in_place, iteration * calls + call, nullptr);
      if (each != TUTTI_OK) return each;
      if (barrier_each) control = control_.barrier();
      if (control != ExitCode::ok) break;
    }
    return TUTTI_OK;
  });
  return code != TUTTI_OK ? call_failed(code, row) : control;
}

ExitCode Worker::time_iterations(const Row& row, bool in_place, Placement& placement) {
  const auto iterations = static_cast<size_t>(options().iterations);
  const bool each_iteration = options().per_iteration || options().explain;
  const bool barrier_outside = options().blocking == 3;
  std::vector<double> times(each_iteration ? iterations : 0);
  if (const ExitCode code = control_.barrier(); code != ExitCode::ok) return code;
  double excluded = 0;
  const double start = now();
  double begin = start;
  for (size_t iteration = 0; iteration < iterations; ++iteration) {
    if (const ExitCode code = call_iteration(row, in_place, iteration); code != ExitCode::ok) return code;
    if (!each_iteration && !barrier_outside) continue;
    const double end = now();
    if (each_iteration) times[iteration] = (end - begin) / options().aggregate;
    begin = end;
    if (!barrier_outside) continue;
    if (const ExitCode code = control_.barrier(); code != ExitCode::ok) return code;
    begin = now();
    excluded += begin - end;
  }
  placement.seconds = (now() - start - excluded) / static_cast<double>(iterations) / options().aggregate;
  if (const ExitCode code = control_.barrier(); code != ExitCode::ok) return code;
  if (const ExitCode code = average_time(placement.seconds); code != ExitCode::ok) return code;
  return each_iteration ? gather_iterations(times, placement) : ExitCode::ok;
}

ExitCode Worker::measure(const Row& row, bool in_place, Placement& placement) {
  Row timed = row;
  timed.seed = 99;
  if (options().check > 0) prepare(timed, in_place);
  if (const tutti_code code = call_once(timed, in_place, 0, nullptr); code != TUTTI_OK) return call_failed(code, timed);
  if (const ExitCode code = time_iterations(timed, in_place, placement); code != ExitCode::ok) return code;
  const Bandwidth bandwidth = process_.program.bandwidth(row, placement.seconds);
  placement.algorithm_gbps = bandwidth.algorithm;
  placement.bus_gbps = bandwidth.bus;
  bus_sum_ += bandwidth.bus;
  ++bus_count_;
  if (options().check == 0 || (in_place && !process_.program.check_in_place)) return ExitCode::ok;
  return check(row, in_place, placement);
}

ExitCode Worker::check(Row row, bool in_place, Placement& placement) {
  placement.wrong = 0;
  for (int round = 0; round < options().check && *placement.wrong == 0; ++round) {
    row.seed = ++seed_;
    uint64_t wrong = 0;
    if (const ExitCode code = check_once(row, in_place, wrong); code != ExitCode::ok) return code;
    *placement.wrong += wrong;
  }
  return ExitCode::ok;
}

/// One call on fresh data, every element of every rank compared; `wrong` is the number over all ranks.
ExitCode Worker::check_once(const Row& row, bool in_place, uint64_t& wrong) {
  prepare(row, in_place);
  if (const tutti_code code = call_once(row, in_place, 0, nullptr); code != TUTTI_OK) return call_failed(code, row);
  uint64_t wrong_here = 0;
  std::vector<Verdict> verdicts;
  constexpr double kNoRank = 1e9;
  std::vector<double> lowest = {kNoRank};
  for (const LocalRank& local : locals_) {
    const Buffers buffers = buffers_of(local, row, in_place, 0);
    verdicts.push_back(verify(row.type, process_.program.recv_layout(row, local.rank), buffers.recv));
    wrong_here += verdicts.back().wrong;
    if (verdicts.back().wrong > 0) lowest[0] = std::min(lowest[0], static_cast<double>(local.world_rank));
  }
  std::vector<double> sums = {static_cast<double>(wrong_here), wrong_here > 0 ? 1.0 : 0.0};
  if (const ExitCode code = control_.reduce(sums, TUTTI_SUM); code != ExitCode::ok) return code;
  wrong = static_cast<uint64_t>(sums[0]);
  failed_checks_ += static_cast<uint64_t>(sums[1]);
  if (wrong == 0) return ExitCode::ok;
  if (const ExitCode code = control_.reduce(lowest, TUTTI_MIN); code != ExitCode::ok) return code;
  for (size_t k = 0; k < locals_.size(); ++k)
    if (static_cast<double>(locals_[k].world_rank) == lowest[0]) report_wrong(locals_[k], row, in_place, verdicts[k]);
  return ExitCode::ok;
}

void Worker::report_wrong(const LocalRank& local, const Row& row, bool in_place, const Verdict& verdict) const {
  const Program& program = process_.program;
  std::fprintf(stderr,
               "%s: wrong data on rank %d, %s of %s, %s: element %llu expected %s got %s; %llu of the %llu elements of "
               "this rank are wrong\n",
               program.name, local.world_rank, program.operation, describe_row(program, row).c_str(),
               in_place ? "in place" : "out of place", static_cast<unsigned long long>(verdict.first_wrong),
               verdict.expected.c_str(), verdict.got.c_str(), static_cast<unsigned long long>(verdict.wrong),
               static_cast<unsigned long long>(verdict.elements));
}

}  // namespace tutti::perf
