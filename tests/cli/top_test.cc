// SPDX-License-Identifier: Apache-2.0
#include "src/cli/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/recordings.h"

namespace tutti::core::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void wait_for(RecorderSlot& slot, int rank) {
  slot.waiting_on.store(static_cast<std::uint64_t>(rank + 1), std::memory_order_relaxed);
  slot.position.store(5, std::memory_order_relaxed);
}

/// The only job and communicator of a folder.
CommunicatorView only_communicator(const TopPage& page) {
  if (page.jobs.size() != 1 || page.jobs[0].communicators.size() != 1) {
    ADD_FAILURE() << top_text(page);
    return {};
  }
  return page.jobs[0].communicators[0];
}

// Ranks 0 to 2 wait in #641 for each other and in the end for rank 3, which never entered it.
TEST(top, names_the_rank_that_everybody_waits_for) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  for (int rank = 0; rank < 4; ++rank) {
    RecorderSlot& slot = *recorder->acquire(42, "dp", rank, 4);
    write_record(slot, {.number = 640});
    if (rank == 3) continue;
    write_record(slot, {.number = 641, .count = 2048, .is_done = false});
    wait_for(slot, rank + 1);
  }
  const TopPage page = read_top({.run_dir = folder.path(), .job_prefix = "0123"});
  const CommunicatorView communicator = only_communicator(page);
  ASSERT_EQ(communicator.ranks.size(), 4U);
  const RankView& first = communicator.ranks[0];
  EXPECT_TRUE(first.is_alive);
  EXPECT_EQ(first.pid, getpid());
  EXPECT_EQ(first.last->number, 640U);
  EXPECT_EQ(first.last->text, "all_reduce float32 x 1024 sum");
  EXPECT_EQ(first.last->row, "ring");
  EXPECT_NEAR(static_cast<double>(first.last->done_ns - first.last->started_ns), 2e6, 1e3);
  EXPECT_EQ(first.current->number, 641U);
  EXPECT_NEAR(static_cast<double>(page.now_ns - first.current->started_ns), 5e9, 4e9);
  EXPECT_EQ(first.waiting_on, 1);
  EXPECT_FALSE(communicator.ranks[3].current.has_value());
  EXPECT_THAT(communicator.findings,
              ElementsAre("ranks 0-2 wait, in the end, for rank 3, which is after #640 all_reduce float32 x 1024 sum"));
  const std::string text = top_text(page);
  EXPECT_THAT(text, HasSubstr("communicator \"dp\" (000000000000002a), 4 ranks"));
  EXPECT_THAT(text, HasSubstr("#641 all_reduce float32 x 2048 sum ring step 5"));
}

TEST(top, names_pre_multiplied_sums) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  write_record(*recorder->acquire(42, "dp", 0, 2), {.number = 0, .op = TUTTI_PRE_MUL_SUM});
  const TopPage page = read_top({.run_dir = folder.path(), .job_prefix = "0123"});
  EXPECT_EQ(only_communicator(page).ranks.at(0).last->text, "all_reduce float32 x 1024 pre_mul_sum");
}

TEST(top, is_silent_about_short_waits) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  RecorderSlot& slot = *recorder->acquire(42, "dp", 0, 2);
  write_record(slot, {.number = 0, .is_done = false, .age_ns = 0});
  wait_for(slot, 1);
  EXPECT_THAT(only_communicator(read_top({.run_dir = folder.path(), .job_prefix = "0123"})).findings, IsEmpty());
}

TEST(top, tells_a_circle_from_a_late_rank) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  for (int rank = 0; rank < 2; ++rank) {
    RecorderSlot& slot = *recorder->acquire(42, "dp", rank, 2);
    write_record(slot, {.number = 7, .is_done = false});
    wait_for(slot, 1 - rank);
  }
  EXPECT_THAT(only_communicator(read_top({.run_dir = folder.path(), .job_prefix = "0123"})).findings,
              ElementsAre(HasSubstr("ranks 0-1 wait in a circle")));
}

TEST(top, reads_what_a_killed_process_left) {
  const RecordingFolder folder;
  folder.add_dead([](Recorder& recorder) {
    RecorderSlot& slot = *recorder.acquire(42, "dp", 1, 3);
    write_record(slot, {.number = 11, .what = TUTTI_BROADCAST, .is_done = false, .peer = 2});
    wait_for(slot, 0);
  });
  const auto recorder = folder.add_live();
  RecorderSlot& slot = *recorder->acquire(42, "dp", 0, 3);
  write_record(slot, {.number = 11, .what = TUTTI_BROADCAST, .code = TUTTI_PEER_LOST, .peer = 2});
  std::strcpy(slot.error, "peer_lost: rank 1 has died");
  slot.state = 3;

  const TopPage page = read_top({.run_dir = folder.path(), .job_prefix = "0123"});
  EXPECT_EQ(page.jobs[0].processes, 2);
  EXPECT_EQ(page.jobs[0].alive, 1);
  const CommunicatorView communicator = only_communicator(page);
  EXPECT_THAT(communicator.missing, ElementsAre(2));
  EXPECT_THAT(communicator.findings, ElementsAre("rank 0 failed: peer_lost: rank 1 has died",
                                                 "rank 1 died in #11 broadcast float32 x 1024 root 2"));
  const std::string text = top_text(page);
  EXPECT_THAT(text, HasSubstr("failed: peer_lost"));
  EXPECT_THAT(text, HasSubstr("no recorder here of rank 2"));
}

// The hung job was killed: what its ranks waited for is still there.
TEST(top, tells_after_death_who_was_waited_for) {
  const RecordingFolder folder;
  for (int rank = 0; rank < 3; ++rank)
    folder.add_dead([rank](Recorder& recorder) {
      RecorderSlot& slot = *recorder.acquire(42, "dp", rank, 3);
      write_record(slot, {.number = 7});
      if (rank == 1) return;
      write_record(slot, {.number = 8, .is_done = false, .age_ns = 0});
      wait_for(slot, 1);
    });
  EXPECT_THAT(
      only_communicator(read_top({.run_dir = folder.path(), .job_prefix = "0123"})).findings,
      ElementsAre("rank 1 died after #7 all_reduce float32 x 1024 sum",
                  "ranks 0,2 died, all in #8 all_reduce float32 x 1024 sum",
                  "ranks 0,2 waited, in the end, for rank 1, which was after #7 all_reduce float32 x 1024 sum"));
}

TEST(top, counts_queued_operations_and_shows_the_oldest) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  RecorderSlot& slot = *recorder->acquire(42, "dp", 0, 1);
  for (std::uint64_t number = 300; number < 304; ++number)  // wraps round the ring of records
    write_record(slot, {.number = number, .what = TUTTI_SEND, .is_done = number == 300, .peer = 0});
  const RankView rank = only_communicator(read_top({.run_dir = folder.path(), .job_prefix = "0123"})).ranks[0];
  EXPECT_EQ(rank.current->number, 301U);
  EXPECT_EQ(rank.current->text, "send float32 x 1024 to rank 0");
  EXPECT_EQ(rank.queued, 2);
}

TEST(top, a_send_or_receive_is_shown_where_no_collective_runs) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  RecorderSlot& slot = *recorder->acquire(42, "dp", 0, 3);
  write_record(slot, {.number = 7});
  write_record(slot, {.number = 0, .what = TUTTI_RECV, .is_done = false, .peer = 2});
  const auto view = [&] {
    return only_communicator(read_top({.run_dir = folder.path(), .job_prefix = "0123"})).ranks[0];
  };
  EXPECT_EQ(view().current->text, "recv float32 x 1024 from rank 2");
  EXPECT_EQ(view().waiting_on, 2);
  EXPECT_EQ(view().last->number, 7U);
  write_record(slot, {.number = 8, .is_done = false});
  EXPECT_EQ(view().current->number, 8U);
  EXPECT_EQ(view().queued, 1) << "the receive";
}

TEST(top, hides_destroyed_communicators_unless_asked) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  RecorderSlot* const old = recorder->acquire(1, "old", 0, 1);
  recorder->acquire(2, "new", 0, 1);
  recorder->release(old);
  const TopPage page = read_top({.run_dir = folder.path(), .job_prefix = "0123"});
  EXPECT_EQ(only_communicator(page).name, "new");
  const TopPage all = read_top({.run_dir = folder.path(), .job_prefix = "0123", .is_complete = true});
  EXPECT_EQ(all.jobs.at(0).communicators.size(), 2U);
  EXPECT_THAT(top_text(all), HasSubstr("destroyed"));
}

TEST(top, says_where_it_looked_and_what_it_could_not_read) {
  const RecordingFolder folder;
  const TopPage none = read_top({.run_dir = folder.path(), .job_prefix = "no such job"});
  EXPECT_THAT(top_text(none), HasSubstr("no flight recorders in " + folder.path()));
  std::ofstream(folder.path() + "/bad.rec") << "garbage";
  EXPECT_THAT(read_top({.run_dir = folder.path(), .job_prefix = "no such job"}).problems,
              Contains(HasSubstr(folder.path() + "/bad.rec")));
}

TEST(top, json_says_the_same) {
  const RecordingFolder folder;
  const auto recorder = folder.add_live();
  RecorderSlot& slot = *recorder->acquire(42, "dp", 0, 2);
  write_record(slot, {.number = 3});
  write_record(slot, {.number = 4, .is_done = false});
  wait_for(slot, 1);
  const auto page = nlohmann::json::parse(top_json(read_top({.run_dir = folder.path(), .job_prefix = "0123"})));
  const auto& communicator = page.at("jobs").at(0).at("communicators").at(0);
  EXPECT_EQ(page.at("jobs").at(0).at("id"), kJob);
  EXPECT_EQ(communicator.at("id"), "000000000000002a");
  const auto& member = communicator.at("members").at(0);
  EXPECT_EQ(member.at("last_finished").at("number"), 3);
  EXPECT_EQ(member.at("last_finished").at("code"), "ok");
  EXPECT_EQ(member.at("current").at("done_ns"), nullptr);
  EXPECT_EQ(member.at("waits_for"), 1);
  EXPECT_EQ(communicator.at("missing"), nlohmann::json::array({1}));
}

TEST(top, elapsed_times_read_well) {
  EXPECT_EQ(elapsed_text(12'300), "12 us");
  EXPECT_EQ(elapsed_text(12'345'678), "12.3 ms");
  EXPECT_EQ(elapsed_text(3'210'000'000), "3.2 s");
  EXPECT_EQ(elapsed_text(125'000'000'000), "2 min 05 s");
  EXPECT_EQ(elapsed_text(7'500'000'000'000), "2 h 05 min");
  EXPECT_EQ(elapsed_text(-5), "0 us");
}

}  // namespace
}  // namespace tutti::core::testing
