// SPDX-License-Identifier: Apache-2.0
#include "perf/common/json.h"

#include <strings.h>

#include <cerrno>
#include <cinttypes>
#include <cmath>

#include "perf/common/format.h"

namespace tutti::perf {

void JsonWriter::separate() {
  if (!first_ && !after_key_) text += ',';
  first_ = false;
  after_key_ = false;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text += '{';
  open_.push_back('}');
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  text += '[';
  open_.push_back(']');
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  text += open_.back();
  open_.pop_back();
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::end_array() { return end_object(); }

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text += '"' + json_escape(name) + "\":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view value) {
  separate();
  text += '"' + json_escape(value) + '"';
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  separate();
  text += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::real(double value) {
  if (std::isnan(value)) return string("nan");
  separate();
  char number[400];
  std::snprintf(number, sizeof number, "%lf", value);
  text += number;
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  text += "null";
  return *this;
}

void JsonWriter::close(size_t depth) {
  if (after_key_) null();
  while (open_.size() > depth) end_object();
}

std::string json_escape(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    switch (c) {
      case '"':
      case '\\':
      case '/':
        escaped += '\\';
        escaped += c;
        break;
      case '\t': escaped += "\\t"; break;
      case '\n': escaped += "\\n"; break;
      default:
        if (c < 0x20 || c >= 0x7f) return escaped;
        escaped += c;
        break;
    }
  }
  return escaped;
}

void JsonReport::open(const std::string& file, std::string* note) {
  constexpr char kSuffix[] = ".json";
  constexpr size_t kLength = sizeof kSuffix - 1;
  if (file.size() < kLength || strcasecmp(file.c_str() + file.size() - kLength, kSuffix) != 0) {
    if (!file.empty()) *note = "# skipping json output; " + file + " does not end in .json\n";
    return;
  }
  std::string path = file;
  for (int attempt = 0;; ++attempt) {
    file_.reset(std::fopen(path.c_str(), "wx"));
    if (file_) {
      *note = "# Writing JSON output to " + path + "\n";
      return;
    }
    if (errno != EEXIST) {
      *note = "# skipping json output; " + path + " not accessible\n";
      return;
    }
    path = file + "." + std::to_string(attempt);
  }
}

JsonReport::~JsonReport() {
  writer_.close();
  flush();
}

void JsonReport::flush() {
  if (file_) {
    std::fwrite(writer_.text.data(), 1, writer_.text.size(), file_.get());
    std::fflush(file_.get());
  }
  writer_.text.clear();
}

void JsonReport::start(int library_version, const std::vector<std::string>& arguments, char** environment) {
  if (!file_) return;
  writer_.begin_object();
  writer_.key("version").integer(3);
  writer_.key("start_time").string(time_of_day());
  writer_.key("args").begin_array();
  for (const std::string& argument : arguments) writer_.string(argument);
  writer_.end_array();
  writer_.key("env").begin_array();
  for (char** entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // The id holds the job's secret.
    writer_.string(text.rfind("TUTTI_UNIQUE_ID=", 0) == 0 ? "TUTTI_UNIQUE_ID=(secret)" : text);
  }
  writer_.end_array();
  writer_.key("nccl_version").integer(library_version);
  flush();
}

void JsonReport::configuration(const Options& options, const std::vector<Device>& first_device_of_processes) {
  if (!file_) return;
  writer_.key("config").begin_object();
  writer_.key("nthreads").integer(options.threads);
  writer_.key("ngpus").integer(options.ranks_per_thread);
  writer_.key("minimum_bytes").integer(static_cast<int64_t>(options.min_bytes));
  writer_.key("maximum_bytes").integer(static_cast<int64_t>(options.max_bytes));
  if (options.step_factor > 1)
    writer_.key("step_factor").integer(static_cast<int64_t>(options.step_factor));
  else
    writer_.key("step_bytes").integer(static_cast<int64_t>(options.step_bytes));
  writer_.key("warmup_iters").integer(options.warmup);
  writer_.key("iterations").integer(options.iterations);
  writer_.key("aggregated_iterations").integer(options.aggregate);
  writer_.key("validation").integer(options.check);
  writer_.key("graph").integer(options.graph);
  writer_.key("blocking_collectives").boolean(options.blocking != 0);
  writer_.key("per_iter_timing").boolean(options.per_iteration);
  writer_.key("per_iter_skip").integer(options.per_iteration_skip);
  writer_.key("parallel_init").boolean(options.parallel_init);
  writer_.key("devices").begin_array();
  for (const Device& device : first_device_of_processes) {
    writer_.begin_object();
    writer_.key("rank").integer(device.rank);
    writer_.key("group").integer(device.group);
    writer_.key("pid").integer(device.pid);
    writer_.key("hostname").string(device.host);
    writer_.key("device").integer(device.index);
    writer_.key("device_hex").string("0000:00:00");
    writer_.key("device_info").string(device.name);
    writer_.end_object();
  }
  writer_.end_array().end_object();
  writer_.key("results").begin_array();
  results_open_ = true;
  flush();
}

void JsonReport::row_begin(const RowHead& head) {
  if (!file_) return;
  char root[16];
  std::snprintf(root, sizeof root, "%6i", head.root);
  writer_.begin_object();
  writer_.key("size").integer(static_cast<int64_t>(head.bytes));
  writer_.key("count").integer(static_cast<int64_t>(head.count));
  writer_.key("type").string(head.type);
  writer_.key("redop").string(head.op);
  writer_.key("root").string(root);
}

namespace {

void write_times(JsonWriter& writer, const std::vector<double>& seconds) {
  writer.begin_array();
  for (double time : seconds) writer.real(time * 1e6);
  writer.end_array();
}

}  // namespace

void JsonReport::placement(const Placement& placement, bool in_place, const Options& options) {
  if (!file_) return;
  writer_.key(in_place ? "in_place" : "out_of_place").begin_object();
  writer_.key("time").real(placement.seconds * 1e6);
  writer_.key("alg_bw").real(placement.algorithm_gbps);
  writer_.key("bus_bw").real(placement.bus_gbps);
  writer_.key("nwrong");
  if (placement.wrong)
    writer_.real(static_cast<double>(*placement.wrong));
  else
    writer_.null();
  writer_.end_object();
  if (!options.per_iteration) return;
  const std::vector<double>& all = placement.iteration_seconds;
  const Statistics times = summarize({all.begin() + options.per_iteration_skip, all.end()});
  writer_.key(in_place ? "in_place_per_iter" : "out_of_place_per_iter").begin_object();
  writer_.key("skipped_iterations").integer(options.per_iteration_skip);
  writer_.key("min_us").real(times.minimum * 1e6);
  writer_.key("max_us").real(times.maximum * 1e6);
  writer_.key("avg_us").real(times.mean * 1e6);
  writer_.key("p50_us").real(times.p50 * 1e6);
  writer_.key("p95_us").real(times.p95 * 1e6);
  writer_.key("p99_us").real(times.p99 * 1e6);
  writer_.key("stdev_us").real(times.stdev * 1e6);
  writer_.key("cv_pct").real(times.cv_percent());
  writer_.key("times_us");
  write_times(writer_, all);
  if (placement.process_seconds.size() > 1) {
    writer_.key("per_process_max_times_us").begin_array();
    for (const std::vector<double>& process : placement.process_seconds) write_times(writer_, process);
    writer_.end_array();
  }
  writer_.end_object();
}

void JsonReport::explanation(const Explanation& explanation, const std::vector<double>& iteration_seconds) {
  if (!file_) return;
  const Statistics times = summarize(iteration_seconds);
  writer_.key("explain").begin_object();
  writer_.key("algorithm").string(explanation.algorithm);
  writer_.key("lanes").string(explanation.lanes);
  writer_.key("p10_us").real(times.p10 * 1e6);
  writer_.key("p50_us").real(times.p50 * 1e6);
  writer_.key("p99_us").real(times.p99 * 1e6);
  writer_.end_object();
}

void JsonReport::row_end(int iterations) {
  if (!file_) return;
  writer_.key("actual_iterations").integer(iterations);
  writer_.key("experiment_name").string("");
  writer_.end_object();
  flush();
}

void JsonReport::barrier_row(int ranks, const Placement& placement) {
  if (!file_) return;
  const Statistics times = summarize(placement.iteration_seconds);
  writer_.begin_object();
  writer_.key("ranks").integer(ranks);
  writer_.key("time").real(placement.seconds * 1e6);
  writer_.key("p50_us").real(times.p50 * 1e6);
  writer_.key("p99_us").real(times.p99 * 1e6);
  writer_.end_object();
  flush();
}

void JsonReport::finish(const Footer& footer) {
  if (!file_) return;
  if (results_open_) writer_.end_array();
  writer_.key("out_of_bounds").begin_object();
  writer_.key("count").integer(static_cast<int64_t>(footer.out_of_bounds));
  writer_.key("okay").boolean(footer.out_of_bounds == 0);
  writer_.end_object();
  writer_.key("average_bus_bandwidth").begin_object();
  writer_.key("bandwidth");
  if (footer.has_bandwidth)
    writer_.real(footer.average_gbps);
  else
    writer_.null();
  writer_.key("okay");
  if (footer.minimum_gbps && footer.has_bandwidth)
    writer_.boolean(footer.average_okay());
  else
    writer_.string("unchecked");
  writer_.end_object();
  writer_.key("errors").begin_array();
  if (!footer.error.empty()) writer_.string(footer.error);
  writer_.end_array();
  writer_.key("end_time").string(time_of_day());
  writer_.close();
  flush();
  file_.reset();
}

void JsonReport::abandon(const std::string& error) {
  if (!file_) return;
  writer_.close(1);
  writer_.key("errors").begin_array().string(error);
  writer_.close();
  flush();
  file_.reset();
}

}  // namespace tutti::perf
