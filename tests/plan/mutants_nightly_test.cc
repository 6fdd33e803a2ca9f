// SPDX-License-Identifier: Apache-2.0
// Mutants of every row, 200 interleavings each: all of them up to 9 ranks, 200 seeded ones at each larger count below.
// One test a row, so that ctest runs them in sections (tests/plan/CMakeLists.txt).
#include <gtest/gtest.h>

#include <iostream>

#include "src/base/types.h"
#include "tests/plan/mutants.h"

namespace tutti::core {
namespace {

constexpr int kMostWhole = 9;
constexpr int kSampled[] = {10, 11, 12, 13, 14, 15, 16, 17, 23, 24, 31, 32, 33, 48, 63, 64};

class MutantsNightly : public testing::TestWithParam<const Algorithm*> {};

std::string label_of(const Algorithm& row) {
  return std::string(collective_name(row.what)) + "_" + std::string(row.name);
}

std::vector<const Algorithm*> all_rows() {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& row : algorithms()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Rows, MutantsNightly, testing::ValuesIn(all_rows()),
                         [](const auto& row) { return label_of(*row.param); });

TEST_P(MutantsNightly, harmful_ones_are_refused) {
  const Algorithm& row = *GetParam();
  MutantCount whole, sampled;
  for (int ranks = 1; ranks <= kMostWhole; ++ranks)
    if (admits(row, ranks)) whole.add(count_mutants(row, ranks, {.interleavings = 200, .at_most = 0, .seed = 1}));
  for (const int ranks : kSampled)
    if (admits(row, ranks)) sampled.add(count_mutants(row, ranks, {.interleavings = 200, .at_most = 200, .seed = 1}));
  std::cout << summary(label_of(row) + " 1..9", whole) << "\n" << summary("  10..64, sampled", sampled) << std::endl;
  for (const MutantCount& count : {whole, sampled}) EXPECT_TRUE(count.survivors.empty()) << count.survivors.front();
}

}  // namespace
}  // namespace tutti::core
