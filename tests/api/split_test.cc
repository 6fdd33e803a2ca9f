// SPDX-License-Identifier: Apache-2.0
// Split: colours, keys, nobody, nesting, independence from the parent, many communicators.
#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Communicator;

int sum_over(Communicator& comm, int value) {
  std::vector<int> data(1, value);
  const tutti::Status status = comm.all_reduce(data);
  EXPECT_STATUS_OK(status);
  return data[0];
}

TEST(Split, equal_colours_meet_in_the_order_of_keys) {
  spawn(6, [](Communicator& comm) {
    const int color = comm.rank() % 2;
    auto half = comm.split(color, /*key=*/-comm.rank()).value();
    ASSERT_EQ(half.ranks(), 3);
    EXPECT_EQ(half.rank(), 2 - comm.rank() / 2);
    EXPECT_EQ(sum_over(half, comm.rank()), color == 0 ? 6 : 9);
    EXPECT_EQ(sum_over(comm, comm.rank()), 15);
  });
}

TEST(Split, equal_keys_keep_the_parents_order) {
  spawn(5, [](Communicator& comm) {
    auto same = comm.split(7, 1).value();
    EXPECT_EQ(same.rank(), comm.rank());
    EXPECT_EQ(same.ranks(), 5);
  });
}

TEST(Split, a_negative_colour_gets_nothing) {
  spawn(4, [](Communicator& comm) {
    auto some = comm.split(comm.rank() == 2 ? -1 : 0);
    ASSERT_STATUS_OK(some.status());
    EXPECT_EQ(static_cast<bool>(*some), comm.rank() != 2);
    if (*some) {
      EXPECT_EQ(some->ranks(), 3);
      EXPECT_EQ(sum_over(*some, 1), 3);
    }
    EXPECT_EQ(sum_over(comm, 1), 4);
  });
}

TEST(Split, all_alone) {
  spawn(3, [](Communicator& comm) {
    auto alone = comm.split(comm.rank()).value();
    EXPECT_EQ(alone.ranks(), 1);
    EXPECT_EQ(alone.rank(), 0);
    EXPECT_EQ(sum_over(alone, 5), 5);
    ASSERT_STATUS_OK(comm.barrier());
  });
}

TEST(Split, nested_to_the_end_and_outlives_its_parent) {
  spawn(8, [](Communicator& comm) {
    auto half = comm.split(comm.rank() / 4).value();
    auto quarter = half.split(half.rank() / 2).value();
    EXPECT_EQ(quarter.ranks(), 2);
    EXPECT_EQ(sum_over(quarter, comm.rank()), comm.rank() / 2 * 4 + 1);
    half = Communicator();
    EXPECT_EQ(sum_over(quarter, 1), 2);
    EXPECT_EQ(sum_over(comm, 1), 8);
  });
}

TEST(Split, the_names_and_settings_of_a_child) {
  spawn(2, [](Communicator& comm) {
    auto child = comm.split(0, 0, {.name = "pipeline"}).value();
    EXPECT_STREQ(child.name(), "pipeline");
    EXPECT_STREQ(comm.name(), "test");
  });
}

TEST(Split, an_error_in_a_child_leaves_the_parent_alone) {
  spawn(2, [](Communicator& comm) {
    auto child = comm.split(0).value();
    if (comm.rank() == 0) {
      ASSERT_STATUS_OK(child.abort("no longer wanted"));
    } else {
      const tutti::Status status = child.barrier();
      EXPECT_EQ(status.code(), tutti::Code::aborted) << to_string(status);
      EXPECT_NE(status.text().find("no longer wanted"), std::string::npos) << status.text();
    }
    EXPECT_EQ(sum_over(comm, 1), 2);
  });
}

TEST(Communicators, made_and_destroyed_many_times) {
  spawn(2, [](Communicator& comm) {
    for (int i = 0; i < 200; ++i) {
      auto child = comm.split(0).value();
      ASSERT_EQ(sum_over(child, 1), 2);
    }
  });
}

}  // namespace
}  // namespace api_test
