// SPDX-License-Identifier: Apache-2.0
// Small collectives of a group share exchanges, and nothing but the number of messages shows it.
#include "src/comm/fusion.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "src/base/random.h"
#include "src/comm/cost_cache.h"
#include "tests/comm/count_allocations.h"
#include "tests/comm/thread_ranks.h"

namespace tutti::core {
namespace {

using testing::all_reduce_of;
using testing::Rank;
using testing::spawn;
using testing::TestGroup;

// ---- what fuses --------------------------------------------------------------------------------------------------

TEST(WorthFusing, while_packing_costs_less_than_the_rounds_it_saves) {
  const LinkCost link{"test", 100.0, 10.0, 0.1, 0.1, 0.05, {}};
  const RowCost row{2, 1, 1, 5};  // saves 2 * 100 + 5 * 10 ns; packing costs 2 * 0.05 ns per byte
  EXPECT_TRUE(worth_fusing(row, link, 2499));
  EXPECT_FALSE(worth_fusing(row, link, 2500));
  LinkCost slow_copies = link;
  slow_copies.delta_ns *= 10;
  EXPECT_TRUE(worth_fusing(row, slow_copies, 249));
  EXPECT_FALSE(worth_fusing(row, slow_copies, 250));
  LinkCost slow_rounds = link;
  slow_rounds.alpha_ns *= 10;
  EXPECT_TRUE(worth_fusing(row, slow_rounds, 20'499));
  EXPECT_FALSE(worth_fusing(row, slow_rounds, 20'500));
}

// ---- the same bits -----------------------------------------------------------------------------------------------

/// Small enough to fuse whatever the machine costs.
constexpr std::uint64_t kCounts[] = {1, 24, 7, 0, 30, 9};

struct Buffers {
  std::vector<std::byte> in, out;
};

std::uint64_t blocks_in(tutti_collective what, int ranks) {
  return what == TUTTI_REDUCE_SCATTER || what == TUTTI_ALL_TO_ALL || what == TUTTI_SCATTER
             ? static_cast<std::uint64_t>(ranks)
             : 1;
}
std::uint64_t blocks_out(tutti_collective what, int ranks) {
  return what == TUTTI_ALL_GATHER || what == TUTTI_ALL_TO_ALL || what == TUTTI_GATHER
             ? static_cast<std::uint64_t>(ranks)
             : 1;
}

/// Random bits: sums of such floats depend on every detail of the order.
Buffers make_buffers(const Call& call, int rank, int ranks, std::uint64_t seed) {
  const std::size_t block = call.count * dtype_bytes(call.type);
  Buffers buffers;
  buffers.in.resize(block * blocks_in(call.what, ranks));
  buffers.out.resize(block * blocks_out(call.what, ranks), std::byte{0x5a});
  Random random(seed * 1000 + static_cast<std::uint64_t>(rank));
  // Exponents of neighbours: nothing but infinities would be left of all bits.
  for (std::size_t i = 0; i < buffers.in.size(); ++i) {
    const bool top = (i + 1) % dtype_bytes(call.type) == 0;
    const bool narrow = top && is_float(call.type);
    buffers.in[i] = static_cast<std::byte>(narrow ? 0x3c + random.below(4) : random.below(256));
  }
  return buffers;
}

void expect_same_bits(Communicator& comm, Call call, const std::string& what) {
  std::vector<Buffers> alone, fused;
  std::vector<Call> calls;
  std::uint64_t seed = 0;
  for (const std::uint64_t count : kCounts) {
    call.count = count;
    calls.push_back(call);
    alone.push_back(make_buffers(call, comm.rank(), comm.ranks(), ++seed));
  }
  fused = alone;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].in = alone[i].in.data();
    calls[i].out = alone[i].out.data();
    const Status status = comm.run(calls[i]);
    ASSERT_TRUE(status.is_ok()) << what << ": " << status.to_string();
  }
  TestGroup group;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].in = fused[i].in.data();
    calls[i].out = fused[i].out.data();
    group.add(comm, calls[i]);
  }
  const Status status = group.run();
  ASSERT_TRUE(status.is_ok()) << what << ": " << status.to_string();
  EXPECT_NE(group.operation(0).exchange, 0u) << what << " did not fuse";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ASSERT_EQ(alone[i].out, fused[i].out) << what << ", count " << calls[i].count << ", rank " << comm.rank();
    ASSERT_EQ(alone[i].in, fused[i].in) << what << ": the input has changed";
  }
}

class SameBits : public ::testing::TestWithParam<int> {};

TEST_P(SameBits, for_every_row_type_and_operator) {
  constexpr tutti_collective kWhat[] = {TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER, TUTTI_BROADCAST,
                                        TUTTI_REDUCE,     TUTTI_GATHER,         TUTTI_SCATTER,    TUTTI_ALL_TO_ALL};
  spawn(GetParam(), [&](Rank comm) {
    for (const tutti_collective what : kWhat)
      for (const Algorithm& row : algorithms()) {
        if (row.what != what || !admits(row, comm->ranks())) continue;
        for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type)
          for (int op = 0; op < (is_reduction(what) ? static_cast<int>(TUTTI_OP_COUNT) : 1); ++op) {
            Call call;
            call.what = what;
            call.type = static_cast<tutti_dtype>(type);
            call.op = static_cast<tutti_op>(op);
            call.peer = is_rooted(what) ? type % comm->ranks() : -1;
            call.algorithm = row.name;
            if (dtype_bytes(call.type) == 0 || (is_reduction(what) && !find_reduce_kernel(call.type, call.op)))
              continue;
            expect_same_bits(*comm, call,
                             std::string(row.name) + " " + describe(call) + " over " + std::to_string(comm->ranks()));
            if (::testing::Test::HasFatalFailure()) return;
          }
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, ::testing::Values(2, 3, 5, 8));

// Where packing does not pay, or where there is only one, an operation runs as ever.
TEST(Fusion, large_and_single_operations_run_alone) {
  spawn(2, [](Rank comm) {
    std::vector<float> large(1 << 20, 1), other(1 << 20, 1), small(4, 1);
    Call call;
    call.what = TUTTI_ALL_REDUCE;
    call.type = TUTTI_FLOAT32;
    TestGroup group;
    for (auto* data : {&large, &other, &small}) {
      call.count = data->size();
      call.in = call.out = data->data();
      group.add(*comm, call);
    }
    ASSERT_TRUE(group.run().is_ok());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(group.operation(i).exchange, 0u) << i;
    EXPECT_EQ(large, std::vector<float>(1 << 20, 2));
    EXPECT_EQ(small, std::vector<float>(4, 2));
  });
}

// Where rounds are dear (many ranks on few cores), packing pays for large operations, too: the buffer has an end.
TEST(Fusion, an_exchange_holds_so_many_bytes_and_no_more) {
  CostTable table;
  table.constants.alpha_ns *= kPlausibleFactor;
  table.constants.delta_ns /= kPlausibleFactor;
  std::string folder = ::testing::TempDir() + "/tutti-fusion-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/table.txt";
  ASSERT_TRUE(write_cost_file(path, table).is_ok());
  spawn(
      2,
      [](Rank comm) {
        std::vector<std::vector<float>> data(9, std::vector<float>(kMostFusedBytes / sizeof(float) / 8, 1));
        TestGroup group;
        for (auto& each : data) {
          Call call;
          call.what = TUTTI_ALL_REDUCE;
          call.type = TUTTI_FLOAT32;
          call.algorithm = "ring";
          call.count = each.size();
          call.in = call.out = each.data();
          group.add(*comm, call);
        }
        ASSERT_TRUE(group.run().is_ok());
        EXPECT_EQ(group.operation(7).exchange, pack_exchange(0, 8));
        EXPECT_EQ(group.operation(8).exchange, 0u);
        for (const auto& each : data) EXPECT_EQ(each, std::vector<float>(each.size(), 2));
      },
      ("timeout=30s;cost=file;cost_file=" + path).c_str());
  std::filesystem::remove_all(folder);
}

// ---- the gate ----------------------------------------------------------------------------------------------------

struct SmallReduces {
  explicit SmallReduces(std::size_t operations) : data(operations, std::vector<float>(8, 1)) {}
  Status run(Communicator& comm) {
    Group& group = Group::current();
    group.begin();
    for (auto& each : data) {
      Call call;
      call.what = TUTTI_ALL_REDUCE;
      call.type = TUTTI_FLOAT32;
      call.count = each.size();
      call.in = call.out = each.data();
      group.add_operation(*comm.prepare(call), true);
    }
    return group.end();
  }
  std::vector<std::vector<float>> data;
};

TEST(Fusion, sixty_four_small_operations_take_the_messages_of_two) {
  for (const int ranks : {2, 4}) {
    std::atomic<std::uint64_t> with{0}, without{0};
    for (const bool fuse : {true, false})
      spawn(
          ranks,
          [&](Rank comm) {
            SmallReduces reduces(64);
            const std::uint64_t before = comm->messages_sent();
            ASSERT_TRUE(reduces.run(*comm).is_ok());
            (fuse ? with : without) += comm->messages_sent() - before;
            for (const auto& each : reduces.data)
              ASSERT_EQ(each, std::vector<float>(8, static_cast<float>(comm->ranks())));
          },
          fuse ? "timeout=30s;cost=default" : "timeout=30s;cost=default;group_fusion=0");
    const auto all = static_cast<std::uint64_t>(ranks);
    EXPECT_LE(with, 2 * all * all) << "2 exchanges of at most one message to every rank";
    EXPECT_GE(without, 64 * all);
  }
}

TEST(Fusion, allocates_nothing_of_its_own_in_the_steady_state) {
  std::uint64_t allocations[2];
  for (const bool fuse : {false, true})
    spawn(
        1,
        [&](Rank comm) {
          SmallReduces reduces(20);
          for (int i = 0; i < 5; ++i) ASSERT_TRUE(reduces.run(*comm).is_ok());
          const std::uint64_t before = testing::allocations();
          for (int i = 0; i < 50; ++i) ASSERT_TRUE(reduces.run(*comm).is_ok());
          allocations[fuse] = testing::allocations() - before;
        },
        fuse ? "timeout=30s;cost=default" : "timeout=30s;cost=default;group_fusion=0");
  EXPECT_GT(allocations[false], 0u) << "the operations themselves, and what their executions hold";
  EXPECT_LE(allocations[true], allocations[false]);
}

// ---- each operation is still one ---------------------------------------------------------------------------------

TEST(Fusion, every_operation_keeps_its_number_times_events_and_status) {
  spawn(3, [](Rank comm) {
    struct Seen {
      std::vector<std::uint64_t> begun, ended, tags;
    } seen;
    comm->set_event_hook(
        [](const tutti_event* event, void* argument) {
          auto& all = *static_cast<Seen*>(argument);
          (event->kind == TUTTI_EVENT_BEGIN ? all.begun : all.ended).push_back(event->sequence);
          if (event->kind == TUTTI_EVENT_BEGIN) all.tags.push_back(event->tag);
        },
        &seen);
    std::vector<std::int32_t> data[3] = {{1, 2}, {3}, {4, 5, 6}};
    TestGroup group;
    for (std::uint64_t i = 0; i < 3; ++i) {
      Call call;
      call.what = TUTTI_ALL_REDUCE;
      call.type = TUTTI_INT32;
      call.count = data[i].size();
      call.in = call.out = data[i].data();
      call.tag = 100 + i;
      group.add(*comm, call);
    }
    ASSERT_TRUE(group.run().is_ok());
    comm->set_event_hook(nullptr, nullptr);
    EXPECT_EQ(seen.begun, (std::vector<std::uint64_t>{0, 1, 2}));
    EXPECT_EQ(seen.ended, (std::vector<std::uint64_t>{0, 1, 2}));
    EXPECT_EQ(seen.tags, (std::vector<std::uint64_t>{100, 101, 102}));
    for (std::size_t i = 0; i < 3; ++i) {
      const Operation& operation = group.operation(i);
      EXPECT_EQ(operation.number, i);
      EXPECT_EQ(operation.exchange, pack_exchange(0, 3));
      ASSERT_NE(operation.record, nullptr);
      EXPECT_EQ(operation.record->sequence.load(), i + 1);
      EXPECT_EQ(operation.record->count, data[i].size());
      EXPECT_EQ(operation.record->tag, 100 + i);
      EXPECT_NE(operation.record->done.load(), 0u);
      EXPECT_EQ(operation.record->code, TUTTI_OK);
      tutti_times times{};
      times.struct_size = sizeof times;
      operation.fill_times(times);
      EXPECT_NE(times.done_ns, 0u);
      EXPECT_GE(times.last_peer, 0);
      EXPECT_TRUE(operation.done());
      EXPECT_TRUE(operation.status().is_ok());
    }
    EXPECT_EQ(data[2], (std::vector<std::int32_t>{12, 15, 18}));
  });
}

// ---- ranks that do not agree -------------------------------------------------------------------------------------

TEST(Fusion, another_grouping_is_a_mismatch_that_names_both_lists) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> a(3), b(5), c(7);
    ASSERT_TRUE(comm->run(Call{}).is_ok());
    TestGroup group;
    group.add(*comm, all_reduce_of(a));
    group.add(*comm, all_reduce_of(b));
    if (comm->rank() == 1) group.add(*comm, all_reduce_of(c));
    const Status status = group.run();
    ASSERT_EQ(status.code(), TUTTI_MISMATCH) << status.to_string();
    const std::string text = status.message();
    EXPECT_NE(text.find("#1 of 2 operations fused by a group (#1 all_reduce int32 x 3 sum, #2 all_reduce int32 x 5 "
                        "sum)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("3 operations fused by a group (#1 all_reduce int32 x 3 sum, #2 all_reduce int32 x 5 sum, #3 "
                        "all_reduce int32 x 7 sum)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("grouped differently"), std::string::npos) << text;
  });
}

TEST(Fusion, a_group_against_single_calls_is_a_mismatch) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> a(3), b(5);
    Status status;
    if (comm->rank() == 0) {
      TestGroup group;
      group.add(*comm, all_reduce_of(a));
      group.add(*comm, all_reduce_of(b));
      status = group.run();
    } else {
      status = comm->run(all_reduce_of(a));
    }
    ASSERT_EQ(status.code(), TUTTI_MISMATCH) << status.to_string();
    EXPECT_NE(status.message().find("grouped differently"), std::string::npos) << status.message();
  });
}

TEST(Fusion, another_call_inside_a_group_is_named_by_its_number) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> a(3), b(5), c(comm->rank() == 0 ? 7 : 8);
    TestGroup group;
    for (auto* data : {&a, &b, &c}) group.add(*comm, all_reduce_of(*data));
    const Status status = group.run();
    ASSERT_EQ(status.code(), TUTTI_MISMATCH) << status.to_string();
    const std::string text = status.message();
    EXPECT_EQ(text.find("op #2 "), 0u) << text;
    EXPECT_NE(text.find("called all_reduce int32 x 7 sum as #2 of 3"), std::string::npos) << text;
    EXPECT_NE(text.find("called all_reduce int32 x 8 sum as #2 of 3"), std::string::npos) << text;
  });
}

// ---- calls that depend on each other -----------------------------------------------------------------------------

TEST(Fusion, a_call_that_reads_what_an_earlier_one_writes_is_refused) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> data(8, 1);
    {
      TestGroup group;
      group.add(*comm, all_reduce_of(data));
      group.add(*comm, all_reduce_of(data));
      const Status status = group.run();
      EXPECT_EQ(status.code(), TUTTI_INVALID_ARGUMENT) << status.to_string();
      EXPECT_NE(status.message().find("reads memory that an earlier"), std::string::npos) << status.message();
      EXPECT_EQ(group.operation(0).status().code(), TUTTI_INVALID_ARGUMENT);
      EXPECT_EQ(group.operation(1).status().code(), TUTTI_INVALID_ARGUMENT);
    }
    // Nothing was sent, no number is gone.
    EXPECT_EQ(data, std::vector<std::int32_t>(8, 1));
    ASSERT_TRUE(comm->run(all_reduce_of(data)).is_ok());
    EXPECT_EQ(data, std::vector<std::int32_t>(8, 2));
  });
}

// Different kinds never share an exchange: one after the other, as they were called.
TEST(Fusion, calls_of_different_kinds_may_depend_on_each_other) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> data(8, 1), block(4);
    Call scatter = all_reduce_of(data);
    scatter.what = TUTTI_REDUCE_SCATTER;
    scatter.count = 4;
    scatter.out = block.data();
    Call gather = scatter;
    gather.what = TUTTI_ALL_GATHER;
    gather.in = block.data();
    gather.out = data.data();
    TestGroup group;
    group.add(*comm, scatter);
    group.add(*comm, gather);
    ASSERT_TRUE(group.run().is_ok());
    EXPECT_EQ(data, std::vector<std::int32_t>(8, 2));
  });
}

// An earlier call's input may be a later one's output.
TEST(Fusion, a_later_call_may_overwrite_what_an_earlier_one_reads) {
  spawn(2, [](Rank comm) {
    std::vector<std::int32_t> a(8, 1), b(8, 10), c(8);
    Call first = all_reduce_of(a), second = all_reduce_of(b);
    first.out = c.data();
    second.out = a.data();
    TestGroup group;
    group.add(*comm, first);
    group.add(*comm, second);
    ASSERT_TRUE(group.run().is_ok());
    EXPECT_NE(group.operation(0).exchange, 0u);
    EXPECT_EQ(c, std::vector<std::int32_t>(8, 2));
    EXPECT_EQ(a, std::vector<std::int32_t>(8, 20));
  });
}

// In place, a rank's own block does not change: nothing of it is another call's doing.
TEST(Fusion, the_same_buffer_may_be_gathered_or_broadcast_twice) {
  for (const tutti_collective what : {TUTTI_ALL_GATHER, TUTTI_BROADCAST})
    spawn(3, [&](Rank comm) {
      std::vector<std::int32_t> data(12, comm->rank());
      Call call = all_reduce_of(data);
      call.what = what;
      if (what == TUTTI_ALL_GATHER) {
        call.count = 4;
        call.in = data.data() + 4 * comm->rank();
      } else {
        call.peer = 1;
      }
      TestGroup group;
      group.add(*comm, call);
      group.add(*comm, call);
      const Status status = group.run();
      ASSERT_TRUE(status.is_ok()) << status.to_string();
      EXPECT_NE(group.operation(0).exchange, 0u);
      for (std::size_t i = 0; i < data.size(); ++i)
        EXPECT_EQ(data[i], what == TUTTI_BROADCAST ? 1 : static_cast<std::int32_t>(i / 4));
      // From where the first one writes, it is another matter.
      std::vector<std::int32_t> shifted(16);
      Call first = call, second = call;
      if (what == TUTTI_ALL_GATHER) {
        first.out = shifted.data();
        first.in = data.data();
        second.in = shifted.data();
        second.out = data.data();
      } else {
        first.out = shifted.data();
        second.in = shifted.data() + 2;
      }
      if (what == TUTTI_BROADCAST && comm->rank() != 1) return;  // reads nothing
      TestGroup dependent;
      dependent.add(*comm, first);
      dependent.add(*comm, second);
      EXPECT_EQ(dependent.run().code(), TUTTI_INVALID_ARGUMENT);
    });
}

// ---- failures ----------------------------------------------------------------------------------------------------

TEST(Fusion, a_withheld_exchange_ends_with_every_operation_failed) {
  std::atomic<bool> over{false};
  spawn(
      2,
      [&](Rank comm) {
        std::vector<std::int32_t> a(3), b(5);
        if (comm->rank() == 1) {
          EXPECT_TRUE(testing::eventually([&] { return over.load(); }));
          return;
        }
        TestGroup group;
        group.add(*comm, all_reduce_of(a));
        group.add(*comm, all_reduce_of(b));
        EXPECT_EQ(group.run().code(), TUTTI_TIMEOUT);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(group.operation(i).status().code(), TUTTI_TIMEOUT);
          EXPECT_EQ(group.operation(i).status().failing_rank(), 1);
          EXPECT_EQ(group.operation(i).record->code, TUTTI_TIMEOUT);
        }
        over = true;
      },
      "timeout=200ms;init_timeout=30s;cost=default");
}

}  // namespace
}  // namespace tutti::core
