// SPDX-License-Identifier: Apache-2.0
// `tutti plan --why`: the page, and that it follows the cost table.
#include "src/cli/plan_why.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "src/base/types.h"
#include "src/comm/cost_cache.h"
#include "src/comm/selector.h"

namespace tutti::core {
namespace {

/// The environment that decides about costs, for one test.
class PlanWhy : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) ::unsetenv(name);
    ::setenv("TUTTI_COST", "default", 1);
  }
  void TearDown() override {
    for (const char* name : kNames) ::unsetenv(name);
  }
  static constexpr const char* kNames[] = {"TUTTI_COST", "TUTTI_COST_FILE", "TUTTI_REPRODUCIBLE", "TUTTI_ALGORITHM"};
};

std::string page(const std::string& collective, int ranks, const PlanWhyOptions& options) {
  auto text = plan_why_text(collective, ranks, options);
  EXPECT_TRUE(text.is_ok()) << text.status().to_string();
  return text.is_ok() ? *text : "";
}

std::string refusal(const std::string& collective, const PlanWhyOptions& options) {
  return plan_why_text(collective, 4, options).status().to_string();
}

PlanWhyOptions with_bytes(const std::string& bytes) {
  PlanWhyOptions options;
  options.bytes = bytes;
  options.cores = 64;
  return options;
}

/// The name after "* ".
std::string winner(const std::string& text) {
  const std::size_t star = text.find("\n* ");
  if (star == std::string::npos) return "";
  return text.substr(star + 3, text.find(' ', star + 3) - star - 3);
}

TEST_F(PlanWhy, prints_every_row_and_marks_the_cheapest) {
  for (const char* bytes : {"8", "64K", "64M"})
    for (const int ranks : {2, 5, 8}) {
      const std::string text = page("all_reduce", ranks, with_bytes(bytes));
      for (const Algorithm& row : algorithms())
        if (row.what == TUTTI_ALL_REDUCE) {
          EXPECT_NE(text.find(" " + std::string(row.name) + " "), std::string::npos) << text;
        }
      double cheapest = 0;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        const std::size_t equals = line.find(" = ");
        if (equals == std::string::npos || line.find("algorithm") != std::string::npos) continue;
        const double total = std::stod(line.substr(22, equals - 22));
        double sum = 0, part = 0;
        for (std::istringstream parts(line.substr(equals + 3)); parts >> part;) sum += part;
        EXPECT_NEAR(total, sum, 0.03) << line;
        if (line[0] == '*') cheapest = total;
      }
      std::istringstream again(text);
      for (std::string line; std::getline(again, line);)
        if (line.find(" = ") != std::string::npos && line.find("algorithm") == std::string::npos) {
          EXPECT_GE(std::stod(line.substr(22)), cheapest) << line;
        }
      EXPECT_NE(text.find("constants: the documented constants"), std::string::npos) << text;
    }
}

TEST_F(PlanWhy, says_what_excludes_a_row) {
  bool seen = false;
  for (const Algorithm& row : algorithms()) {
    if (!row.needs.power_of_two || is_point_to_point(row.what)) continue;
    const std::string text = page(std::string(collective_name(row.what)), 6, with_bytes("1M"));
    const std::size_t line = text.find(" " + std::string(row.name) + " ");
    ASSERT_NE(line, std::string::npos) << text;
    EXPECT_NE(text.substr(line, text.find('\n', line + 1) - line).find("power of two"), std::string::npos) << text;
    seen = true;
  }
  if (!seen) GTEST_SKIP() << "no row wants a power of two of ranks";
}

TEST_F(PlanWhy, says_that_a_row_was_asked_for) {
  ::setenv("TUTTI_ALGORITHM", "all_reduce:ring", 1);
  const std::string text = page("all_reduce", 8, with_bytes("8"));
  EXPECT_EQ(winner(text), "ring");
  EXPECT_NE(text.find("ring, as TUTTI_ALGORITHM asks"), std::string::npos) << text;
}

// Ten times the price of a byte, written into a table file: the choice changes where the two rows' lines cross.
TEST_F(PlanWhy, follows_the_table) {
  std::string folder = testing::TempDir() + "/tutti-why-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/table.txt";
  ::setenv("TUTTI_COST", "file", 1);
  ::setenv("TUTTI_COST_FILE", path.c_str(), 1);
  for (const double factor : {1.0, 10.0}) {
    CostTable table;
    table.constants.beta_ns *= factor;
    ASSERT_TRUE(write_cost_file(path, table).is_ok());
    const LinkCost link = shared_memory_cost(table, 8, 64);
    const std::string first = winner(page("all_reduce", 8, with_bytes("4")));
    // Where the cheapest row for small messages meets the first other one.
    const RowCost small = find_algorithm(TUTTI_ALL_REDUCE, first)->cost(8);
    double crossing = INFINITY;
    for (const Algorithm& row : algorithms()) {
      if (row.what != TUTTI_ALL_REDUCE || !admits(row, 8)) continue;
      const RowCost other = row.cost(8);
      const double fixed = predict_ns(other, link, 0) - predict_ns(small, link, 0);
      const double slope = (predict_ns(small, link, 1 << 20) - predict_ns(small, link, 0) -
                            predict_ns(other, link, 1 << 20) + predict_ns(other, link, 0)) /
                           (1 << 20);
      if (slope > 1e-9) crossing = std::min(crossing, fixed / slope);
    }
    ASSERT_TRUE(std::isfinite(crossing));
    const auto below = static_cast<std::uint64_t>(crossing * 0.98) / 4 * 4;
    const auto above = static_cast<std::uint64_t>(crossing * 1.02 + 8) / 4 * 4;
    EXPECT_EQ(winner(page("all_reduce", 8, with_bytes(std::to_string(below)))), first) << "beta x " << factor;
    EXPECT_NE(winner(page("all_reduce", 8, with_bytes(std::to_string(above)))), first) << "beta x " << factor;
    EXPECT_NE(page("all_reduce", 8, with_bytes("4")).find("constants: " + path), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(PlanWhy, refuses_what_it_does_not_understand) {
  EXPECT_NE(refusal("all_redduce", {}).find("all_reduce"), std::string::npos);
  EXPECT_NE(refusal("send", {}).find("--collective"), std::string::npos);
  EXPECT_NE(refusal("all_reduce", with_bytes("many")).find("--bytes"), std::string::npos);
  EXPECT_NE(refusal("all_reduce", with_bytes("6")).find("multiples of 4"), std::string::npos);
  PlanWhyOptions type;
  type.dtype = "float31";
  EXPECT_NE(refusal("all_reduce", type).find("float32"), std::string::npos);
  PlanWhyOptions level;
  level.reproducible = "l9";
  EXPECT_NE(refusal("all_reduce", level).find("none|l2|l4"), std::string::npos);
}

}  // namespace
}  // namespace tutti::core
