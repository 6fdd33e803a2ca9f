// SPDX-License-Identifier: Apache-2.0
#include "src/plan/contract.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

TEST(Contract, all_reduce_gives_everybody_everything) {
  const Contract contract(TUTTI_ALL_REDUCE, 3, 0, 5);
  ASSERT_TRUE(contract.validate().is_ok());
  for (std::uint32_t chunk = 0; chunk < 5; ++chunk) {
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(contract.has_input(rank, chunk));
      EXPECT_TRUE(contract.has_output(rank, chunk));
      EXPECT_TRUE(contract.aliases(rank, chunk));
      EXPECT_TRUE(contract.contributes(rank, chunk));
    }
  }
  EXPECT_FALSE(contract.has_input(0, 5));
  EXPECT_FALSE(contract.has_output(0, 5));
}

TEST(Contract, blocks_belong_to_ranks) {
  const Contract gather(TUTTI_ALL_GATHER, 3, 0, 3), scatter(TUTTI_REDUCE_SCATTER, 3, 0, 3);
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    for (int rank = 0; rank < 3; ++rank) {
      const bool own = chunk == static_cast<std::uint32_t>(rank);
      EXPECT_EQ(gather.has_input(rank, chunk), own);
      EXPECT_TRUE(gather.has_output(rank, chunk));
      EXPECT_EQ(gather.aliases(rank, chunk), own);
      EXPECT_EQ(gather.contributes(rank, chunk), own);
      EXPECT_TRUE(scatter.has_input(rank, chunk));
      EXPECT_EQ(scatter.has_output(rank, chunk), own);
      EXPECT_EQ(scatter.aliases(rank, chunk), own);
      EXPECT_TRUE(scatter.contributes(rank, chunk));
    }
  }
}

TEST(Contract, broadcast_reads_the_roots_input_only) {
  const Contract contract(TUTTI_BROADCAST, 4, 2, 1);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(contract.has_input(rank, 0), rank == 2);
    EXPECT_EQ(contract.contributes(rank, 0), rank == 2);
    EXPECT_EQ(contract.aliases(rank, 0), rank == 2);
    EXPECT_TRUE(contract.has_output(rank, 0));
  }
}

TEST(Contract, refuses_what_cannot_be) {
  EXPECT_FALSE(Contract(TUTTI_ALL_REDUCE, 0, 0, 1).validate().is_ok());
  EXPECT_FALSE(Contract(TUTTI_ALL_REDUCE, 2, 0, 0).validate().is_ok());
  EXPECT_FALSE(Contract(TUTTI_BROADCAST, 2, 2, 1).validate().is_ok());
  EXPECT_FALSE(Contract(TUTTI_BROADCAST, 2, -1, 1).validate().is_ok());
  EXPECT_FALSE(Contract(TUTTI_ALL_GATHER, 3, 0, 2).validate().is_ok());
  EXPECT_FALSE(Contract(TUTTI_BARRIER, 3, 0, 3).validate().is_ok());
  const Status status = Contract(TUTTI_SEND, 2, 0, 1).validate();
  EXPECT_NE(status.message().find("send"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tutti::core
