// SPDX-License-Identifier: Apache-2.0
#include "src/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tutti::core {
namespace {

TEST(Status, text_is_code_cause_and_remedy) {
  const Status status =
      Status::error(TUTTI_PEER_LOST, "rank 3 died", 3).with_remedy("look at its log").with_context("op #7");
  EXPECT_EQ(status.to_string(), "peer_lost: op #7: rank 3 died (look at its log)");
  EXPECT_EQ(status.failing_rank(), 3);
  EXPECT_EQ(Status::ok().to_string(), "ok");
  EXPECT_EQ(Status::ok().failing_rank(), -1);
}

TEST(Status, copies_do_not_share_later_changes) {
  const Status original = Status::error(TUTTI_TIMEOUT, "late");
  const Status changed = Status(original).with_context("init").with_rank(5);
  EXPECT_EQ(original.message(), "late");
  EXPECT_EQ(original.failing_rank(), -1);
  EXPECT_EQ(changed.message(), "init: late");
  EXPECT_EQ(changed.failing_rank(), 5);
}

TEST(Status, success_stays_success) {
  EXPECT_TRUE(Status::ok().with_context("a").with_remedy("b").with_rank(1).is_ok());
}

TEST(Status, from_errno_says_why) {
  EXPECT_EQ(Status::from_errno(ENOENT, "open /x").to_string(), "unavailable: open /x: No such file or directory");
}

Result<int> half(int value) {
  if (value % 2 != 0) return Status::error(TUTTI_INVALID_ARGUMENT, "odd");
  return value / 2;
}

Result<int> quarter(int value) {
  TUTTI_TRY(first, half(value));
  TUTTI_TRY(second, half(first));
  return second;
}

Status check_quarter(int value) {
  TUTTI_TRY(quarter(value));
  return Status::ok();
}

TEST(Result, try_returns_the_first_error_or_binds_the_value) {
  ASSERT_TRUE(quarter(12).is_ok());
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).status().message(), "odd");
  EXPECT_TRUE(check_quarter(8).is_ok());
  EXPECT_EQ(check_quarter(2).code(), TUTTI_INVALID_ARGUMENT);
}

TEST(StatusDeathTest, check_prints_the_site) {
  const int value = 1;
  EXPECT_DEATH(TUTTI_CHECK(value == 2), "broken invariant value == 2 at .*status_test.cc");
}

}  // namespace
}  // namespace tutti::core
