// SPDX-License-Identifier: Apache-2.0
// What a user can see: explain, events, names, status.
#include <mutex>

#include "tests/api/cases.h"

namespace api_test {
namespace {

using tutti::Collective;
using tutti::Communicator;

struct Seen {
  tutti_event_kind kind;
  tutti_code code;
  tutti_collective what;
  std::uint64_t count, sequence, tag;
  std::string communicator, algorithm;
};

Seen copy(const tutti_event& event) {
  EXPECT_EQ(event.struct_size, sizeof event);
  EXPECT_GT(event.time_ns, 0u);
  return {event.kind,     event.code, event.what,         event.count,
          event.sequence, event.tag,  event.communicator, event.algorithm};
}

tutti::Result<tutti::Work> start(Communicator& comm, Collective what, std::vector<float>& in, std::vector<float>& out) {
  switch (what) {
    case Collective::all_reduce: return comm.async().all_reduce(in, out);
    case Collective::all_gather: return comm.async().all_gather(in, out);
    case Collective::reduce_scatter: return comm.async().reduce_scatter(in, out);
    case Collective::broadcast: return comm.async().broadcast(in, 0);
    default: return comm.async().barrier();
  }
}

/// "all_reduce of 4096 bytes on 3 ranks: ring ..." holds the row's name as a word of its own.
bool names_row(const std::string& text, const std::string& row) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = text.find(row); at != std::string::npos; at = text.find(row, at + 1)) {
    const bool starts = at == 0 || !is_word(text[at - 1]);
    const bool ends = at + row.size() == text.size() || !is_word(text[at + row.size()]);
    if (starts && ends) return true;
  }
  return false;
}

TEST(Explain, names_the_row_that_runs_first) {
  for (const int ranks : {1, 2, 3, 5, 8})
    spawn(ranks, [&](Communicator& comm) {
      for (const Collective what : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                    Collective::broadcast, Collective::barrier})
        for (const std::size_t count : {2u, 300u, 1024u, 20000u, 300000u}) {
          const auto all = static_cast<std::size_t>(ranks) * count;
          std::vector<float> in(what == Collective::reduce_scatter ? all : count);
          std::vector<float> out(what == Collective::all_gather ? all : count);
          const std::size_t bytes = what == Collective::barrier ? 0 : std::max(in.size(), out.size()) * sizeof(float);
          const auto text = comm.explain(what, bytes);
          ASSERT_STATUS_OK(text.status());
          auto work = start(comm, what, in, out).value();
          ASSERT_STATUS_OK(work.wait());
          const std::string row = work.times().value().algorithm;
          // The choice is in the first line; the others follow it with their prices.
          const std::string first_line = text->substr(0, text->find('\n'));
          EXPECT_TRUE(names_row(first_line, row)) << "ran " << row << " over " << bytes << " bytes; " << *text;
          for (const std::string& other : rows_of(static_cast<tutti_collective>(what)))
            if (other != row) {
              EXPECT_FALSE(names_row(first_line, other)) << "ran " << row << "; " << *text;
            }
        }
    });
}

TEST(Explain, a_short_buffer_gets_a_terminated_part_and_the_needed_size) {
  spawn(2, [](Communicator& comm) {
    std::size_t needed = 0;
    char text[8] = {'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x'};
    ASSERT_EQ(tutti_explain(comm.handle(), TUTTI_ALL_REDUCE, 1000, text, sizeof text, &needed), TUTTI_OK);
    EXPECT_GT(needed, sizeof text);
    EXPECT_EQ(text[7], 0);
    EXPECT_EQ(comm.explain(Collective::all_reduce, 1000)->size() + 1, needed);
    ASSERT_EQ(tutti_explain(comm.handle(), TUTTI_ALL_REDUCE, 1000, nullptr, 0, &needed), TUTTI_OK);
  });
}

TEST(Events, begin_and_end_of_every_operation_in_order) {
  std::mutex mutex;
  std::vector<Seen> seen;  // of rank 0
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      ASSERT_STATUS_OK(comm.set_event_hook([&](const tutti_event& event) {
        const std::lock_guard lock(mutex);
        seen.push_back(copy(event));
      }));
    }
    std::vector<float> data(10, 1);
    ASSERT_STATUS_OK(comm.all_reduce(data, tutti::Op::sum, {.tag = 5, .algorithm = "ring"}));
    ASSERT_STATUS_OK(comm.broadcast(data, 1));
    ASSERT_STATUS_OK(comm.async().barrier().value().wait());
    if (comm.rank() == 0) {
      ASSERT_STATUS_OK(comm.set_event_hook(nullptr));
    }
    ASSERT_STATUS_OK(comm.barrier());  // unseen
  });
  ASSERT_EQ(seen.size(), 6u);
  const tutti_collective whats[] = {TUTTI_ALL_REDUCE, TUTTI_BROADCAST, TUTTI_BARRIER};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(seen[i].kind, i % 2 == 0 ? TUTTI_EVENT_BEGIN : TUTTI_EVENT_END);
    EXPECT_EQ(seen[i].what, whats[i / 2]);
    EXPECT_EQ(seen[i].communicator, "test");
    EXPECT_EQ(seen[i].sequence, seen[0].sequence + i / 2);
    if (i % 2 == 1) {
      EXPECT_EQ(seen[i].code, TUTTI_OK);
    }
  }
  EXPECT_EQ(seen[0].tag, 5u);
  EXPECT_EQ(seen[0].count, 10u);
  EXPECT_EQ(seen[0].algorithm, "ring");
}

TEST(Events, point_to_point_and_errors_too) {
  std::mutex mutex;
  std::vector<Seen> seen;
  spawn(2, [&](Communicator& comm) {
    std::vector<float> data(10, 1);
    if (comm.rank() == 0) {
      ASSERT_STATUS_OK(comm.set_event_hook([&](const tutti_event& event) {
        const std::lock_guard lock(mutex);
        seen.push_back(copy(event));
      }));
      ASSERT_STATUS_OK(comm.send(data, 1, 3));
      ASSERT_STATUS_OK(comm.recv(data, 1, 4));
      EXPECT_EQ(comm.barrier().code(), tutti::Code::aborted);
      ASSERT_STATUS_OK(comm.set_event_hook(nullptr));
    } else {
      ASSERT_STATUS_OK(comm.recv(data, 0, 3));
      ASSERT_STATUS_OK(comm.send(data, 0, 4));
      ASSERT_TRUE(eventually([&] {
        const std::lock_guard lock(mutex);
        return !seen.empty() && seen.back().what == TUTTI_BARRIER;
      }));
      ASSERT_STATUS_OK(comm.abort("end of the test"));
    }
  });
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[0].what, TUTTI_SEND);
  EXPECT_EQ(seen[1].kind, TUTTI_EVENT_END);
  EXPECT_EQ(seen[2].what, TUTTI_RECV);
  EXPECT_EQ(seen[2].algorithm, "");
  EXPECT_EQ(seen[5].what, TUTTI_BARRIER);
  EXPECT_EQ(seen[5].kind, TUTTI_EVENT_END);
  EXPECT_EQ(seen[5].code, TUTTI_ABORTED);
}

TEST(Names, of_communicators) {
  spawn(2, [](Communicator& comm) {
    EXPECT_STREQ(comm.name(), "test");
    const auto unnamed = comm.split(0).value();
    ASSERT_NE(unnamed.name(), nullptr);
    EXPECT_STRNE(unnamed.name(), "");
  });
}

}  // namespace
}  // namespace api_test
