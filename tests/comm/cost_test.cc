// SPDX-License-Identifier: Apache-2.0
// Where the constants of the cost model come from: measurement, file, agreement.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "src/base/clock.h"
#include "src/comm/cost_cache.h"
#include "src/comm/cost_measure.h"
#include "src/comm/selector.h"

namespace tutti::core {
namespace {

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

CostTable some_table() {
  CostTable table;
  table.constants = {201.5, 1234.5, 31.0 / 3, 0.1 / 3, 0.07, 0.08};
  table.measured_at_s = wall_ns() / 1'000'000'000 - 60;
  return table;
}

int measurements = 0;

CostProbe fake_measure(const CostProbeLimits&) {
  ++measurements;
  return {some_table().constants, true, "", 3.0};
}

CostProbe disturbed_measure(const CostProbeLimits&) {
  ++measurements;
  return {some_table().constants, false, "alpha disturbed", 3.0};
}

/// A folder of its own, and the settings that keep the table there.
class CostFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/tutti-cost-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/deep/table.txt";
    measurements = 0;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Config settings(const std::string& more = "") const {
    Config config;
    EXPECT_TRUE(config.overlay_text("cost_file=" + path_ + more).is_ok());
    return config;
  }
  std::string folder_, path_;
};

TEST(CostTable, text_keeps_every_bit) {
  const CostTable table = some_table();
  auto back = parse_cost_table(format_cost_table(table), CostTableUse::cache);
  ASSERT_TRUE(back.is_ok()) << back.status().to_string();
  for (const CostTerm& term : cost_terms()) EXPECT_EQ(back->constants.*term.value, table.constants.*term.value);
  EXPECT_EQ(back->hash(), table.hash());
  EXPECT_EQ(back->measured_at_s, table.measured_at_s);
  EXPECT_EQ(back->origin, table.origin);
}

TEST(CostTable, the_hash_is_of_every_constant) {
  for (const CostTerm& term : cost_terms()) {
    CostTable table = some_table();
    table.constants.*term.value = std::nextafter(table.constants.*term.value, 1e9);
    EXPECT_NE(table.hash(), some_table().hash()) << term.name;
  }
}

TEST(CostTable, a_text_with_anything_wrong_is_refused) {
  const std::string good = format_cost_table(some_table());
  const auto refused = [](const std::string& text) {
    return parse_cost_table(text, CostTableUse::cache).status().code() == TUTTI_INVALID_ARGUMENT;
  };
  ASSERT_FALSE(refused(good));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(std::string(100000, 'x')));
  EXPECT_TRUE(refused(replaced(good, "tutti-cost 1", "tutti-cost 2")));
  EXPECT_TRUE(refused(replaced(good, "library ", "library 9")));
  EXPECT_TRUE(refused(replaced(good, "machine ", "machine 9")));
  EXPECT_TRUE(refused(replaced(good, "alpha_ns 201.5", "alpha_ns 201.6"))) << "the hash";
  EXPECT_TRUE(refused(replaced(good, "alpha_ns 201.5", "alpha_ns nan")));
  EXPECT_TRUE(refused(replaced(good, "alpha_ns 201.5\n", ""))) << "a line missing";
  EXPECT_TRUE(refused(good + "alpha_ns 201.5\n")) << "a line twice";
  for (std::size_t length = 0; length < good.find("\norigin"); ++length) EXPECT_TRUE(refused(good.substr(0, length)));
  CostTable strange = some_table();
  strange.constants.beta_ns = 1e6;
  EXPECT_TRUE(refused(format_cost_table(strange))) << "not plausible, although the hash is right";
  CostTable old = some_table();
  old.measured_at_s -= 31 * 24 * 3600;
  EXPECT_TRUE(refused(format_cost_table(old)));
  EXPECT_TRUE(parse_cost_table(format_cost_table(old), CostTableUse::named).is_ok())
      << "what a person names may be old";
}

TEST(CostTable, measurements_far_off_are_moved_towards_the_documented) {
  const CostConstants documented = documented_constants();
  CostConstants constants = documented;
  EXPECT_EQ(make_plausible(constants), 0);
  constants.alpha_ns = 1e9;
  constants.beta_ns = 1e-9;
  constants.gamma_ns = std::numeric_limits<double>::quiet_NaN();
  constants.delta_ns = -1;
  EXPECT_EQ(make_plausible(constants), 4);
  EXPECT_DOUBLE_EQ(constants.alpha_ns, documented.alpha_ns * kPlausibleFactor);
  EXPECT_DOUBLE_EQ(constants.beta_ns, documented.beta_ns / kPlausibleFactor);
  EXPECT_DOUBLE_EQ(constants.gamma_ns, documented.gamma_ns);
  EXPECT_DOUBLE_EQ(constants.delta_ns, documented.delta_ns);
}

TEST(CostMeasure, ends_soon_with_plausible_constants) {
  const std::int64_t start = monotonic_ns();
  CostProbe probe = measure_costs();
  // The budget is 16 ms; on a machine full of other work, threads that were to end may wait for a core.
  EXPECT_LT(monotonic_ns() - start, 5'000'000'000);
  EXPECT_EQ(probe.complete, probe.note.empty());
  CostConstants constants = probe.constants;
  EXPECT_EQ(make_plausible(constants), 0);
}

TEST(CostMeasure, without_time_everything_is_documented_and_said_to_be) {
  const CostProbe probe = measure_costs({.budget_ns = 0});
  EXPECT_FALSE(probe.complete);
  for (const char* term : {"alpha", "overhead", "beta", "gamma", "delta", "turn"})
    EXPECT_NE(probe.note.find(term), std::string::npos) << probe.note;
  for (const CostTerm& term : cost_terms()) EXPECT_EQ(probe.constants.*term.value, term.documented) << term.name;
}

TEST_F(CostFile, measured_once_and_kept) {
  for (int process = 0; process < 3; ++process) {
    auto table = find_cost_table(settings(), fake_measure);
    ASSERT_TRUE(table.is_ok());
    EXPECT_EQ(table->hash(), some_table().hash());
    EXPECT_NE(table->origin.find(process == 0 ? "measured 20" : path_), std::string::npos) << table->origin;
  }
  EXPECT_EQ(measurements, 1);
  struct stat facts {};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

TEST_F(CostFile, a_disturbed_measurement_is_used_but_not_kept) {
  auto table = find_cost_table(settings(), disturbed_measure);
  ASSERT_TRUE(table.is_ok());
  EXPECT_EQ(table->hash(), some_table().hash());
  EXPECT_NE(table->origin.find("alpha disturbed"), std::string::npos) << table->origin;
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(CostFile, a_damaged_one_is_measured_anew_and_replaced) {
  ASSERT_TRUE(write_cost_file(path_, some_table()).is_ok());
  const std::string good = read_text(path_);
  for (const std::string& bad : {std::string(), std::string("garbage"), good.substr(0, good.size() / 2)}) {
    write_text(path_, bad);
    measurements = 0;
    testing::internal::CaptureStderr();
    ASSERT_TRUE(find_cost_table(settings(), fake_measure).is_ok());
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(measurements, 1);
    EXPECT_NE(log.find(path_), std::string::npos) << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_TRUE(read_cost_file(path_, CostTableUse::cache).is_ok());
  }
}

TEST_F(CostFile, one_that_others_may_write_or_that_is_no_file_is_not_believed) {
  ASSERT_TRUE(write_cost_file(path_, some_table()).is_ok());
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(read_cost_file(path_, CostTableUse::cache).status().code(), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_TRUE(read_cost_file(path_, CostTableUse::cache).is_ok());
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path_.c_str(), 12345, 0), 0);
    EXPECT_EQ(read_cost_file(path_, CostTableUse::cache).status().code(), TUTTI_INVALID_ARGUMENT);
  }
  std::filesystem::create_symlink(path_, folder_ + "/link");
  EXPECT_EQ(read_cost_file(folder_ + "/link", CostTableUse::cache).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(read_cost_file(folder_, CostTableUse::cache).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(read_cost_file(folder_ + "/none", CostTableUse::cache).status().code(), TUTTI_UNAVAILABLE);
}

TEST_F(CostFile, a_place_where_nothing_can_be_written_is_no_failure) {
  write_text(folder_ + "/deep", "a file where the folder should be");
  testing::internal::CaptureStderr();
  auto table = find_cost_table(settings(), fake_measure);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "a matter for the debug level";
  ASSERT_TRUE(table.is_ok());
  EXPECT_EQ(table->hash(), some_table().hash());
}

TEST_F(CostFile, writers_at_once_leave_one_whole_table) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i)
    writers.emplace_back([this, i] {
      CostTable table = some_table();
      table.constants.alpha_ns += i;
      for (int k = 0; k < 50; ++k) {
        EXPECT_TRUE(write_cost_file(path_, table).is_ok());
        const auto seen = read_cost_file(path_, CostTableUse::cache);
        EXPECT_TRUE(seen.is_ok()) << seen.status().to_string();
      }
    });
  for (std::thread& writer : writers) writer.join();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/deep")) files += entry.is_regular_file();
  EXPECT_EQ(files, 1) << "temporary files are gone";
}

TEST_F(CostFile, the_knob_says_where_from) {
  EXPECT_EQ(find_cost_table(settings(";cost=default"), fake_measure)->hash(), CostTable{}.hash());
  EXPECT_EQ(find_cost_table(settings(";reproducible=l4"), fake_measure)->hash(), CostTable{}.hash());
  EXPECT_EQ(measurements, 0);
  const Status missing = find_cost_table(settings(";cost=file"), fake_measure).status();
  EXPECT_NE(missing.message().find(path_), std::string::npos) << missing.to_string();
  CostTable table = some_table();
  table.measured_at_s = 1;
  ASSERT_TRUE(write_cost_file(path_, table).is_ok());
  EXPECT_EQ(find_cost_table(settings(";cost=file"), fake_measure)->hash(), table.hash());
  EXPECT_EQ(measurements, 0);
}

TEST(CostAgreement, a_difference_names_both) {
  EXPECT_TRUE(compare_cost(5, 0, 5, 3).is_ok());
  const Status cost = compare_cost(0xabc, 0, 0xdef, 3);
  EXPECT_EQ(cost.code(), TUTTI_MISMATCH);
  EXPECT_EQ(cost.failing_rank(), 3);
  for (const char* part : {"abc on rank 0", "def on rank 3"})
    EXPECT_NE(cost.message().find(part), std::string::npos) << cost.to_string();
  EXPECT_TRUE(compare_selection(7, 7, 2).is_ok());
  const Status rows = compare_selection(0xabc, 0xdef, 2);
  EXPECT_EQ(rows.code(), TUTTI_MISMATCH);
  for (const char* part : {"abc on rank 0", "def on rank 2"})
    EXPECT_NE(rows.message().find(part), std::string::npos) << rows.to_string();
}

TEST(CostAgreement, groups_take_their_parents_table_unless_told_otherwise) {
  Config config;
  EXPECT_EQ(inherited_cost_table(config, some_table()).hash(), some_table().hash());
  ASSERT_TRUE(config.overlay_text("cost=default").is_ok());
  EXPECT_EQ(inherited_cost_table(config, some_table()).hash(), CostTable{}.hash());
  ASSERT_TRUE(config.overlay_text("cost=measured;reproducible=l2").is_ok());
  EXPECT_EQ(inherited_cost_table(config, some_table()).hash(), CostTable{}.hash());
}

}  // namespace
}  // namespace tutti::core
