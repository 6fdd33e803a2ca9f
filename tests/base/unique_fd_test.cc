// SPDX-License-Identifier: Apache-2.0
#include "src/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace tutti::core {
namespace {

int open_null() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, closes_at_the_end_of_its_scope) {
  int raw = -1;
  {
    const UniqueFd fd(open_null());
    raw = fd.get();
    ASSERT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(UniqueFd, moving_transfers_and_closes_the_replaced_one) {
  UniqueFd first(open_null());
  UniqueFd second(open_null());
  const int kept = first.get(), replaced = second.get();
  second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.get(), kept);
  EXPECT_TRUE(is_open(kept));
  EXPECT_FALSE(is_open(replaced));
}

TEST(UniqueFd, release_gives_up_ownership) {
  UniqueFd fd(open_null());
  const int raw = fd.release();
  EXPECT_FALSE(fd);
  fd.reset();
  EXPECT_TRUE(is_open(raw));
  close(raw);
}

}  // namespace
}  // namespace tutti::core
