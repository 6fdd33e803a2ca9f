// SPDX-License-Identifier: Apache-2.0
#include "src/comm/deadlock.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

using Waits = std::vector<std::optional<BlockedIn>>;

TEST(FollowWaits, comes_back_to_where_it_began) {
  const Waits blocked{BlockedIn{1, "send to 1"}, BlockedIn{2, "send to 2"}, BlockedIn{0, "send to 0"}};
  const WaitChain chain = follow_waits(1, blocked);
  EXPECT_TRUE(chain.deadlock);
  EXPECT_EQ(chain.text,
            "rank 1 waits in send to 2 -> rank 2 waits in send to 0 -> rank 0 waits in send to 1 -> rank 1");
}

TEST(FollowWaits, a_rank_may_wait_for_a_circle_without_being_in_it) {
  const Waits blocked{BlockedIn{1, "a"}, BlockedIn{2, "b"}, BlockedIn{1, "c"}};
  const WaitChain chain = follow_waits(0, blocked);
  EXPECT_TRUE(chain.deadlock);
  EXPECT_EQ(chain.text, "rank 0 waits in a -> rank 1 waits in b -> rank 2 waits in c -> rank 1");
}

TEST(FollowWaits, an_end_is_no_deadlock) {
  const Waits idle{BlockedIn{1, "a"}, BlockedIn{2, "b"}, std::nullopt};
  EXPECT_FALSE(follow_waits(0, idle).deadlock);
  EXPECT_EQ(follow_waits(0, idle).text,
            "rank 0 waits in a -> rank 1 waits in b -> rank 2 is in no call of this communicator");
  const Waits any{BlockedIn{1, "a"}, BlockedIn{-1, "recv from any"}};
  EXPECT_FALSE(follow_waits(0, any).deadlock) << "somebody else may send";
  EXPECT_EQ(follow_waits(0, any).text, "rank 0 waits in a -> rank 1 waits in recv from any");
}

TEST(FollowWaits, a_rank_that_waits_for_itself_is_a_circle_of_one) {
  EXPECT_EQ(follow_waits(0, {BlockedIn{0, "send to 0"}}).text, "rank 0 waits in send to 0 -> rank 0");
  EXPECT_TRUE(follow_waits(0, {BlockedIn{0, "send to 0"}}).deadlock);
}

TEST(FollowWaits, a_long_circle_is_shortened) {
  Waits blocked;
  for (int r = 0; r < 1000; ++r) blocked.push_back(BlockedIn{(r + 1) % 1000, "send (tag 4294967295, 1000 bytes)"});
  const WaitChain chain = follow_waits(0, blocked);
  EXPECT_TRUE(chain.deadlock);
  EXPECT_LT(chain.text.size(), 700u);
  EXPECT_NE(chain.text.find("-> rank 9 waits in send (tag 4294967295, 1000 bytes) -> ... -> rank 0"), std::string::npos)
      << chain.text;
}

TEST(HumanBytes, are_exact) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(1), "1 byte");
  EXPECT_EQ(human_bytes(1023), "1023 bytes");
  EXPECT_EQ(human_bytes(3 << 10), "3 KiB");
  EXPECT_EQ(human_bytes(1 << 20), "1 MiB");
  EXPECT_EQ(human_bytes((1 << 20) + 1), "1048577 bytes");
}

}  // namespace
}  // namespace tutti::core
