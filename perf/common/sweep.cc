// SPDX-License-Identifier: Apache-2.0
// The part of Worker that goes through types, operators, roots and sizes, and prints.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <limits>

#include "perf/common/element.h"
#include "perf/common/format.h"
#include "perf/common/worker.h"

namespace tutti::perf {
namespace {

uint64_t row_bytes(const Row& row) { return std::max(row.operands.send, row.operands.recv) * row.element_bytes; }

/// The next size of a sweep, or more than any limit when it would not fit 64 bits.
uint64_t next_size(const Options& options, uint64_t bytes) {
  constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();
  if (options.step_factor > 1) return bytes > kEnd / options.step_factor ? kEnd : bytes * options.step_factor;
  if (options.step_bytes == 0) return kEnd;  // one size only, options.cc made sure
  return bytes > kEnd - options.step_bytes ? kEnd : bytes + options.step_bytes;
}

/// "2" of "... over 2 lanes ..." or "... lanes 2 ..." in the text of tutti_explain, else "-".
std::string lanes_of(const std::string& text) {
  const auto is_digit = [&](size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t at = text.find("lane"); at != std::string::npos; at = text.find("lane", at + 1)) {
    size_t begin = at;
    while (begin > 0 && (text[begin - 1] == ' ' || is_digit(begin - 1))) --begin;
    while (begin < at && !is_digit(begin)) ++begin;
    if (begin == at) {
      begin = text.find_first_not_of("lanes =:", at);
      if (begin == std::string::npos || !is_digit(begin)) continue;
    }
    size_t end = begin;
    while (is_digit(end)) ++end;
    return text.substr(begin, end - begin);
  }
  return "-";
}

}  // namespace

Row Worker::make_row(const NamedType& type, const NamedOp& op, int root, uint64_t bytes) const {
  Row row;
  row.type = type.type;
  row.op = op.op;
  row.premultiplied = op.premultiplied;
  row.root = root;
  row.ranks = ranks_;
  row.element_bytes = element_bytes(type.type);
  row.operands = process_.program.operands(bytes / row.element_bytes, row.element_bytes, ranks_);
  return row;
}

ExitCode Worker::sweep() {
  const Program& program = process_.program;
  print(header({options().report_timestamps, options().per_iteration, options().explain}));
  const std::string reason = program.skip != nullptr ? program.skip(ranks_) : "";
  if (!reason.empty()) {
    print(reason + "\n");
    return finish();
  }
  const std::vector<NamedOp> no_op = {{program.no_op, TUTTI_SUM}};
  const std::vector<NamedOp>& ops = program.has_op ? options().ops : no_op;
  std::vector<int> roots = {program.has_root ? options().root : -1};
  if (program.has_root && options().root < 0) {
    roots.clear();
    for (int root = 0; root < ranks_; ++root) roots.push_back(root);
  }
  for (const NamedType& type : options().types)
    for (const NamedOp& op : ops) {
      if (program.has_op && !is_reducible(type.type, op.op, op.premultiplied)) continue;
      for (int root : roots)
        if (const ExitCode code = sweep_sizes(type, op, root); code != ExitCode::ok) return code;
    }
  return finish();
}

/// Every size once or more, doubling whatever the step of the sweep is: plans, paths and buffers are ready afterwards.
ExitCode Worker::warm_up(const NamedType& type, const NamedOp& op, int root) {
  for (uint64_t bytes = options().min_bytes; bytes <= max_bytes_; bytes *= 2) {
    const Row row = make_row(type, op, root, bytes);
    for (int call = 0; call < options().warmup; ++call) {
      const tutti_code code = call_once(row, false, static_cast<uint64_t>(call), nullptr);
      if (code != TUTTI_OK) return call_failed(code, row);
    }
  }
  return ExitCode::ok;
}

ExitCode Worker::sweep_sizes(const NamedType& type, const NamedOp& op, int root) {
  if (const ExitCode code = warm_up(type, op, root); code != ExitCode::ok) return code;
  for (int cycle = 0; options().cycles <= 0 || cycle < options().cycles; ++cycle) {
    for (uint64_t bytes = options().min_bytes; bytes <= max_bytes_; bytes = next_size(options(), bytes)) {
      const ExitCode code = run_row(make_row(type, op, root, bytes), type, op);
      if (code != ExitCode::ok) return code;
    }
  }
  return ExitCode::ok;
}

ExitCode Worker::run_row(Row row, const NamedType& type, const NamedOp& op) {
  const RowHead head{row_bytes(row), row.operands.param, type.name, op.name, row.root};
  print(row_head(head));
  if (prints()) process_.json.row_begin(head);
  const Program& program = process_.program;
  std::vector<double> out_of_place_times;
  double out_of_place_seconds = 0;
  for (const bool in_place : {false, true}) {
    Placement placement;
    row.in_place = in_place && program.has_in_place;
    if (const ExitCode code = measure(row, in_place, placement); code != ExitCode::ok) return code;
    print(placement_columns(placement, options().per_iteration, options().per_iteration_skip));
    if (prints()) process_.json.placement(placement, in_place, options());
    if (in_place) continue;
    out_of_place_seconds = placement.seconds;
    out_of_place_times = placement.iteration_seconds;
  }
  if (options().report_timestamps) print(timestamp_column(time_of_day()));
  if (options().explain) {
    Explanation explanation;
    if (const ExitCode code = explain_row(row, explanation); code != ExitCode::ok) return code;
    print(explain_columns(explanation, out_of_place_times));
    if (prints()) process_.json.explanation(explanation, out_of_place_times);
  }
  print("\n");
  if (prints() && program.summary != nullptr) print(program.summary(row, out_of_place_seconds));
  if (prints()) process_.json.row_end(options().iterations);
  return ExitCode::ok;
}

/// One more call, asynchronous, because its handle says which row of the registry ran; outside all clocks.
ExitCode Worker::explain_row(const Row& row, Explanation& explanation) {
  if (!process_.program.collective) return ExitCode::ok;
  std::deque<tutti_work*> works;
  tutti_code code = call_once(row, false, 0, &works);
  for (tutti_work* work : works)
    if (code == TUTTI_OK) code = tutti_work_wait(work, -1);
  tutti_times times{};
  times.struct_size = sizeof times;
  if (code == TUTTI_OK && !works.empty()) code = tutti_work_times(works.front(), &times);
  for (tutti_work* work : works) tutti_work_free(work);
  if (code != TUTTI_OK) return call_failed(code, row);
  if (times.algorithm[0] != '\0') explanation.algorithm = times.algorithm;
  char text[4096] = "";
  code = tutti_explain(locals_[0].comm, *process_.program.collective, row_bytes(row), text, sizeof text, nullptr);
  if (code != TUTTI_OK)
    return operation_failed(code, locals_[0], std::string("explain of ") + process_.program.operation);
  explanation.lanes = lanes_of(text);
  return ExitCode::ok;
}

ExitCode Worker::finish() {
  Footer result;
  result.out_of_bounds = failed_checks_;
  result.average_gbps = bus_sum_ / static_cast<double>(bus_count_);
  result.minimum_gbps = process_.environment.minimum_bandwidth;
  result.program = process_.program.name;
  result.error = tutti_last_error();
  if (options().memory_report) {
    const auto initialization = static_cast<double>(memory_connected_) - static_cast<double>(memory_start_);
    const auto collective = static_cast<double>(resident_memory()) - static_cast<double>(memory_allocated_);
    const double user = 2.0 * static_cast<double>(max_bytes_) * process_.local_ranks();
    result.memory = "Initialization " + memory_text(initialization) + " | User-Allocated " + memory_text(user) +
                    " | Collective " + memory_text(collective) + " | Total  " +
                    memory_text(initialization + user + collective);
  }
  print(footer(result));
  if (prints()) process_.json.finish(result);
  return result.out_of_bounds > 0 || !result.average_okay() ? ExitCode::wrong_data : ExitCode::ok;
}

}  // namespace tutti::perf
