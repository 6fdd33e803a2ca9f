// SPDX-License-Identifier: Apache-2.0
#include "perf/common/json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

std::string keys_of(const Json& object) {
  std::string keys;
  for (const auto& item : object.items()) keys += item.key() + " ";
  return keys;
}

class JsonReportTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/tutti_json_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    for (const char* name : {"/out.json", "/out.json.0", "/out.json.1"}) unlink((folder_ + name).c_str());
    rmdir(folder_.c_str());
  }
  std::string text(const std::string& name = "/out.json") const {
    std::ifstream file(folder_ + name);
    std::stringstream buffer;
    buffer << file.rdbuf();
    return buffer.str();
  }
  /// A whole report: one row, two processes, -I.
  std::string write_report(bool finish) {
    Options options;
    options.step_factor = 2;
    options.per_iteration = true;
    options.per_iteration_skip = 1;
    std::string note;
    JsonReport report;
    report.open(folder_ + "/out.json", &note);
    EXPECT_EQ(note, "# Writing JSON output to " + folder_ + "/out.json\n");
    std::string variable = "A=\"b/c\"", secret = "TUTTI_UNIQUE_ID=0123456789";
    char* environment[] = {variable.data(), secret.data(), nullptr};
    report.start(100, {"all_reduce_perf", "-b", "8"}, environment);
    report.configuration(options, {{0, 0, 11, 0, "host", "CPU"}, {1, 0, 12, 1, "host", "CPU"}});
    report.row_begin({8, 2, "float", "sum", -1});
    Placement placement;
    placement.seconds = 2.5e-6;
    placement.algorithm_gbps = std::nan("");
    placement.iteration_seconds = {1e-6, 2e-6, 3e-6};
    placement.process_seconds = {{1e-6, 2e-6, 3e-6}, {1e-6, 1e-6, 1e-6}};
    placement.wrong = 3;
    report.placement(placement, false, options);
    placement.wrong = std::nullopt;
    report.placement(placement, true, options);
    report.row_end(20);
    Footer footer;
    footer.average_gbps = 1.25;
    footer.out_of_bounds = 1;
    if (finish)
      report.finish(footer);
    else
      report.abandon("rank 1 died");
    return text();
  }
  std::string folder_;
};

TEST_F(JsonReportTest, keys_are_in_the_order_of_the_schema) {
  const Json report = Json::parse(write_report(true));
  EXPECT_EQ(keys_of(report),
            "version start_time args env nccl_version config results out_of_bounds average_bus_bandwidth errors "
            "end_time ");
  EXPECT_EQ(keys_of(report["config"]),
            "nthreads ngpus minimum_bytes maximum_bytes step_factor warmup_iters iterations aggregated_iterations "
            "validation graph blocking_collectives per_iter_timing per_iter_skip parallel_init devices ");
  EXPECT_EQ(keys_of(report["config"]["devices"][0]), "rank group pid hostname device device_hex device_info ");
  EXPECT_EQ(keys_of(report["results"][0]),
            "size count type redop root out_of_place out_of_place_per_iter in_place in_place_per_iter "
            "actual_iterations experiment_name ");
  EXPECT_EQ(keys_of(report["results"][0]["out_of_place"]), "time alg_bw bus_bw nwrong ");
  EXPECT_EQ(keys_of(report["results"][0]["out_of_place_per_iter"]),
            "skipped_iterations min_us max_us avg_us p50_us p95_us p99_us stdev_us cv_pct times_us "
            "per_process_max_times_us ");
}

TEST_F(JsonReportTest, values_look_as_nccl_tests_writes_them) {
  const std::string raw = write_report(true);
  EXPECT_EQ(raw.rfind("{\"version\":3,\"start_time\":\"", 0), 0u);
  EXPECT_NE(raw.find("\"env\":[\"A=\\\"b\\/c\\\"\",\"TUTTI_UNIQUE_ID=(secret)\"]"), std::string::npos);
  EXPECT_NE(raw.find("\"out_of_place\":{\"time\":2.500000,\"alg_bw\":\"nan\",\"bus_bw\":0.000000,\"nwrong\":3.000000}"),
            std::string::npos);
  const Json report = Json::parse(raw);
  EXPECT_EQ(report["config"]["per_iter_timing"], "true");
  EXPECT_EQ(report["config"]["parallel_init"], "false");
  EXPECT_EQ(report["results"][0]["root"], "    -1");
  EXPECT_TRUE(report["results"][0]["in_place"]["nwrong"].is_null());
  EXPECT_EQ(report["results"][0]["out_of_place_per_iter"]["times_us"].size(), 3u);
  EXPECT_EQ(report["results"][0]["out_of_place_per_iter"]["min_us"], 2.0);  // the first is skipped
  EXPECT_EQ(report["out_of_bounds"]["okay"], "false");
  EXPECT_EQ(report["average_bus_bandwidth"]["okay"], "unchecked");
}

TEST_F(JsonReportTest, an_abandoned_report_is_whole_json_without_an_end) {
  const Json report = Json::parse(write_report(false));
  EXPECT_FALSE(report.contains("end_time"));
  EXPECT_EQ(report["errors"][0], "rank 1 died");
}

TEST_F(JsonReportTest, never_overwrites) {
  std::string note;
  const std::string file = folder_ + "/out.json";
  JsonReport first, second, third;
  first.open(file, &note);
  second.open(file, &note);
  EXPECT_EQ(note, "# Writing JSON output to " + file + ".0\n");
  third.open(file, &note);
  EXPECT_EQ(note, "# Writing JSON output to " + file + ".1\n");
}

TEST_F(JsonReportTest, other_suffixes_and_bad_folders_are_said) {
  std::string note;
  JsonReport report;
  report.open("", &note);
  EXPECT_EQ(note, "");
  report.open(folder_ + "/out.txt", &note);
  EXPECT_EQ(note, "# skipping json output; " + folder_ + "/out.txt does not end in .json\n");
  report.open("/nowhere/at/all/out.JSON", &note);
  EXPECT_EQ(note, "# skipping json output; /nowhere/at/all/out.JSON not accessible\n");
  report.start(100, {}, nullptr);  // no file: nothing happens
}

TEST(JsonEscape, cuts_at_what_it_cannot_say) {
  EXPECT_EQ(json_escape("a\tb\nc\\\"/"), "a\\tb\\nc\\\\\\\"\\/");
  EXPECT_EQ(json_escape("ab\x01zz"), "ab");
  EXPECT_EQ(json_escape("ab\xc3\xa9"), "ab");
}

}  // namespace
}  // namespace tutti::perf
