// SPDX-License-Identifier: Apache-2.0
// Mutants of every row, 200 interleavings each: all of them up to 16 ranks, 200 seeded ones per rank count from 17 to
// 64. One test a row and range of ranks, so that ctest runs them in sections (tests/plan/CMakeLists.txt).
#include <gtest/gtest.h>

#include <iostream>
#include <tuple>

#include "src/base/types.h"
#include "tests/plan/mutants.h"

namespace tutti::core {
namespace {

struct Range {
  int first, last;
  std::uint64_t at_most;  ///< mutants per rank count; 0: all
};
constexpr Range kRanges[] = {{1, 9, 0},   {10, 12, 0},   {13, 14, 0},   {15, 15, 0},
                             {16, 16, 0}, {17, 32, 200}, {33, 48, 200}, {49, 64, 200}};

using RowAndRange = std::tuple<const Algorithm*, Range>;
class MutantsNightly : public testing::TestWithParam<RowAndRange> {};

std::string label_of(const RowAndRange& part) {
  const Algorithm& row = *std::get<0>(part);
  const Range& range = std::get<1>(part);
  return std::string(collective_name(row.what)) + "_" + std::string(row.name) + "_" + std::to_string(range.first) +
         "_" + std::to_string(range.last);
}

std::vector<const Algorithm*> all_rows() {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& row : algorithms()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Rows, MutantsNightly,
                         testing::Combine(testing::ValuesIn(all_rows()), testing::ValuesIn(kRanges)),
                         [](const auto& part) { return label_of(part.param); });

TEST_P(MutantsNightly, harmful_ones_are_refused) {
  const Algorithm& row = *std::get<0>(GetParam());
  const Range range = std::get<1>(GetParam());
  MutantCount count;
  for (int ranks = range.first; ranks <= range.last; ++ranks)
    if (admits(row, ranks))
      count.add(count_mutants(row, ranks, {.interleavings = 200, .at_most = range.at_most, .seed = 1}));
  std::cout << summary(label_of(GetParam()), count) << std::endl;
  EXPECT_TRUE(count.survivors.empty()) << count.survivors.front();
}

}  // namespace
}  // namespace tutti::core
