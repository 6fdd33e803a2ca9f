// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "perf/common/options.h"
#include "perf/common/table.h"

namespace tutti::perf {

/// Writes one JSON text without white space, in the order of the calls. Numbers and strings look as nccl-tests writes
/// them (doubles "%lf", NaN as "nan", booleans as strings), which a general JSON library would not do.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view value);
  JsonWriter& boolean(bool value) { return string(value ? "true" : "false"); }
  JsonWriter& integer(int64_t value);
  JsonWriter& real(double value);
  JsonWriter& null();
  /// Closes what is open down to `depth` levels.
  void close(size_t depth = 0);
  /// The text so far; a caller may write it out and clear it.
  std::string text;

 private:
  void separate();
  std::vector<char> open_;  // closing characters
  bool first_ = true, after_key_ = false;
};

/// `value` with " \ / tab and newline escaped, cut at the first other control or non-ASCII byte.
std::string json_escape(std::string_view value);

/// The report of -J, schema version 3. Every function does nothing without a file.
class JsonReport {
 public:
  /// Opens FILE, or FILE.0, FILE.1, ... if it exists; `*note` is the line for stdout. A FILE whose name does not end in
  /// .json (any case) is not written, as in nccl-tests, and `*note` says so.
  void open(const std::string& file, std::string* note);
  ~JsonReport();

  void start(int library_version, const std::vector<std::string>& arguments, char** environment);
  void configuration(const Options& options, const std::vector<Device>& first_device_of_processes);
  void row_begin(const RowHead& head);
  /// `statistics`: whether the per-iteration object follows (-I).
  void placement(const Placement& placement, bool in_place, const Options& options);
  void explanation(const Explanation& explanation, const std::vector<double>& iteration_seconds);
  void row_end(int iterations);
  /// One result of barrier_perf.
  void barrier_row(int ranks, const Placement& placement);
  void finish(const Footer& footer);
  /// After a failure: closes the text without an end time.
  void abandon(const std::string& error);

 private:
  void flush();
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
  JsonWriter writer_;
  bool results_open_ = false;
};

}  // namespace tutti::perf
