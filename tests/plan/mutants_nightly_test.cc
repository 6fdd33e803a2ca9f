// SPDX-License-Identifier: Apache-2.0
// All mutants of every row up to 16 ranks, 200 seeded ones per row and rank count from 17 to 64, 200 interleavings
// each.
#include <gtest/gtest.h>

#include <iostream>

#include "src/base/types.h"
#include "tests/plan/mutants.h"

namespace tutti::core {
namespace {

TEST(MutantsNightly, harmful_ones_are_refused) {
  MutantCount total;
  for (const Algorithm& row : algorithms()) {
    MutantCount small, large;
    for (int ranks = 1; ranks <= 16; ++ranks)
      if (admits(row, ranks)) small.add(count_mutants(row, ranks, {.interleavings = 200, .at_most = 0, .seed = 1}));
    for (int ranks = 17; ranks <= 64; ++ranks)
      if (admits(row, ranks)) large.add(count_mutants(row, ranks, {.interleavings = 200, .at_most = 200, .seed = 1}));
    const std::string label = std::string(collective_name(row.what)) + "/" + std::string(row.name);
    std::cout << summary(label + " 1..16", small) << "\n" << summary(label + " 17..64", large) << std::endl;
    for (const MutantCount& count : {small, large}) {
      EXPECT_TRUE(count.survivors.empty()) << label << ": " << count.survivors.front();
      total.add(count);
    }
  }
  std::cout << summary("all rows", total) << std::endl;
}

}  // namespace
}  // namespace tutti::core
