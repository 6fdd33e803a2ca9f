// SPDX-License-Identifier: Apache-2.0
#include "perf/common/control.h"

namespace tutti::perf {

std::string Control::who(const char* operation) const {
  return "rank " + std::to_string(comms_.empty() ? -1 : tutti_comm_rank(comms_[0])) + " " + operation +
         " between the benchmark's ranks";
}

ExitCode Control::create(const std::vector<tutti_comm*>& worlds) {
  comms_.assign(worlds.size(), nullptr);
  tutti_config config{};
  config.struct_size = sizeof config;
  config.name = "perf-control";
  const tutti_code code = in_group(worlds.size() > 1, [&] {
    for (size_t k = 0; k < worlds.size(); ++k) {
      const tutti_code split = tutti_comm_split(worlds[k], 0, tutti_comm_rank(worlds[k]), &config, &comms_[k]);
      if (split != TUTTI_OK) return split;
    }
    return TUTTI_OK;
  });
  if (code == TUTTI_OK) return ExitCode::ok;
  return checked(code, "rank " + std::to_string(tutti_comm_rank(worlds[0])) + " split \"perf-control\"");
}

Control::~Control() {
  for (tutti_comm* comm : comms_) tutti_comm_destroy(comm);
}

ExitCode Control::barrier() {
  const tutti_code code = in_group(comms_.size() > 1, [&] {
    for (tutti_comm* comm : comms_)
      if (const tutti_code each = tutti_barrier(comm, nullptr, nullptr); each != TUTTI_OK) return each;
    return TUTTI_OK;
  });
  return code == TUTTI_OK ? ExitCode::ok : checked(code, who("barrier"));
}

ExitCode Control::reduce(std::vector<double>& values, tutti_op op) {
  const size_t count = values.size();
  std::vector<double> others(count, 0.0);
  if (op != TUTTI_SUM) others = values;
  std::vector<std::vector<double>> results(comms_.size(), std::vector<double>(count));
  const tutti_code code = in_group(comms_.size() > 1, [&] {
    for (size_t k = 0; k < comms_.size(); ++k) {
      const double* in = k == 0 ? values.data() : others.data();
      const tutti_code each =
          tutti_all_reduce(in, results[k].data(), count, TUTTI_FLOAT64, op, comms_[k], nullptr, nullptr);
      if (each != TUTTI_OK) return each;
    }
    return TUTTI_OK;
  });
  if (code != TUTTI_OK) return checked(code, who("all_reduce"));
  values = results[0];
  return ExitCode::ok;
}

ExitCode Control::gather(const void* mine, size_t bytes, std::vector<char>& all) {
  const auto ranks = static_cast<size_t>(tutti_comm_ranks(comms_[0]));
  std::vector<std::vector<char>> results(comms_.size(), std::vector<char>(ranks * bytes));
  const tutti_code code = in_group(comms_.size() > 1, [&] {
    for (size_t k = 0; k < comms_.size(); ++k) {
      const char* in = static_cast<const char*>(mine) + k * bytes;
      const tutti_code each = tutti_all_gather(in, results[k].data(), bytes, TUTTI_UINT8, comms_[k], nullptr, nullptr);
      if (each != TUTTI_OK) return each;
    }
    return TUTTI_OK;
  });
  if (code != TUTTI_OK) return checked(code, who("all_gather"));
  all = results[0];
  return ExitCode::ok;
}

void Control::abort(const std::string& reason) {
  for (tutti_comm* comm : comms_)
    if (comm != nullptr) tutti_comm_abort(comm, reason.c_str());
}

}  // namespace tutti::perf
