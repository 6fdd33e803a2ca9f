// SPDX-License-Identifier: Apache-2.0
// Ranks that call different things: every one of them gets an error with both calls in its text, soon.
#include <array>
#include <atomic>
#include <barrier>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;
using tutti::DataType;
using tutti::Op;

enum class Kind { collective, count, dtype, op, root, count_zero };

struct Row {
  std::uint64_t bytes;
  bool registered;
  Kind kind;
  int ranks;
};

std::string name_of(const Row& row) {
  static const char* const kNames[] = {"collective", "count", "dtype", "op", "root", "count_zero"};
  return std::to_string(row.bytes) + (row.registered ? "_registered_" : "_") + kNames[static_cast<int>(row.kind)] +
         "_" + std::to_string(row.ranks) + "_ranks";
}

/// What the odd rank (1) calls, and what the others call.
tutti::Status call(Communicator& comm, const Row& row, void* data, bool odd) {
  const std::uint64_t count = row.bytes / 4;
  const DataType f32 = DataType::float32;
  if (row.kind == Kind::root) return comm.broadcast(data, data, count, f32, odd ? 1 : 0);
  if (!odd) return comm.all_reduce(data, data, count, f32);
  switch (row.kind) {
    case Kind::collective: return comm.broadcast(data, data, count, f32, 0);
    case Kind::count: return comm.all_reduce(data, data, count - 1, f32);
    case Kind::dtype: return comm.all_reduce(data, data, count, DataType::int32);
    case Kind::op: return comm.all_reduce(data, data, count, f32, Op::max);
    default: return comm.all_reduce(data, data, 0, f32);
  }
}

/// Texts of the two calls, as far as they differ.
std::vector<std::string> both_calls(const Row& row) {
  const std::string count = std::to_string(row.bytes / 4);
  switch (row.kind) {
    case Kind::collective: return {"all_reduce", "broadcast"};
    case Kind::count: return {"x " + count, "x " + std::to_string(row.bytes / 4 - 1)};
    case Kind::dtype: return {"float32", " int32"};
    case Kind::op: return {"sum", "max"};
    case Kind::root: return {"root 0", "root 1"};
    default: return {"x " + count, "x 0"};
  }
}

void check_rank(Communicator& comm, const Row& row, void* data) {
  const std::int64_t begin = now_ns();
  tutti::Status status = call(comm, row, data, comm.rank() == 1);
  // A rank whose call had completed locally fails in its next one.
  if (status.is_ok()) status = comm.barrier();
  const std::int64_t took = now_ns() - begin;
  EXPECT_EQ(status.code(), Code::mismatch) << "rank " << comm.rank() << ": " << to_string(status);
  EXPECT_LT(took, 5'000'000'000) << "rank " << comm.rank() << ": 1 s when the machine is idle";
  for (const std::string& part : both_calls(row))
    EXPECT_NE(status.text().find(part), std::string::npos)
        << "rank " << comm.rank() << ": no '" << part << "' in: " << status.text();
  EXPECT_NE(status.text().find("rank 1"), std::string::npos) << status.text();
  // From now on: the first error, at once.
  const tutti::Status again = comm.barrier();
  EXPECT_EQ(again.code(), Code::mismatch) << to_string(again);
  EXPECT_NE(again.text().find(both_calls(row)[0]), std::string::npos) << again.text();
}

class Mismatch : public ::testing::TestWithParam<Row> {};

TEST_P(Mismatch, ends_on_every_rank_and_names_both_calls) {
  const Row& row = GetParam();
  std::barrier all_done(row.ranks);
  spawn(row.ranks, [&](Communicator& comm) {
    auto memory = tutti::Buffer<std::byte>::make(row.bytes);
    ASSERT_STATUS_OK(memory.status());
    tutti::Registration registration;
    if (row.registered) registration = comm.register_buffer(*memory).value();
    ASSERT_STATUS_OK(comm.barrier());
    all_done.arrive_and_wait();  // or the verdict of the next operation ends a barrier that is still under way
    check_rank(comm, row, memory->data());
  });
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const int ranks : {2, 5})
    for (const std::uint64_t bytes : {8u, 4096u, 1u << 20, 64u << 20})
      for (const Kind kind : {Kind::collective, Kind::count, Kind::dtype, Kind::op, Kind::root, Kind::count_zero})
        rows.push_back({bytes, bytes == 64u << 20, kind, ranks});
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Table, Mismatch, ::testing::ValuesIn(all_rows()),
                         [](const auto& instance) { return name_of(instance.param); });

// ---- Other collectives -------------------------------------------------------------------------------------------

struct Pair {
  const char* name;
  tutti::Status (*call)(Communicator&, int* in, int* out, std::uint64_t count, bool odd);
  std::vector<std::string> parts;  ///< of the text
};

const std::vector<Pair>& pairs() {
  constexpr DataType kInt = DataType::int32;
  static const std::vector<Pair> kPairs = {
      {"reduce_root",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) { return c.reduce(in, out, n, kInt, odd); },
       {"reduce int32", "root 0", "root 1"}},
      {"reduce_op",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return c.reduce(in, out, n, kInt, 0, odd ? Op::min : Op::sum);
       },
       {"reduce int32", "min", "sum"}},
      {"pre_mul_sum_for_sum",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return odd ? c.all_reduce(in, out, n, kInt) : c.all_reduce(in, out, n, kInt, c.pre_mul_sum(1).value());
       },
       {"all_reduce int32", " pre_mul_sum", " sum"}},
      {"reduce_for_all_reduce",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return odd ? c.reduce(in, out, n, kInt, 0) : c.all_reduce(in, out, n, kInt);
       },
       {"all_reduce int32", "reduce int32"}},
      {"gather_count",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return c.gather(in, out, n + odd, kInt, 0);
       },
       {"gather int32 x"}},
      {"gather_type",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return c.gather(in, out, n, odd ? DataType::float32 : kInt, 0);
       },
       {"int32", "float32"}},
      {"scatter_root",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) { return c.scatter(in, out, n, kInt, odd); },
       {"scatter int32", "root 0", "root 1"}},
      {"scatter_count",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return c.scatter(in, out, n + odd, kInt, 0);
       },
       {"scatter int32 x"}},
      {"all_to_all_count",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return c.all_to_all(in, out, n + odd, kInt);
       },
       {"all_to_all int32 x"}},
      {"all_to_all_for_all_gather",
       [](Communicator& c, int* in, int* out, std::uint64_t n, bool odd) {
         return odd ? c.all_to_all(in, out, n, kInt) : c.all_gather(in, out, n, kInt);
       },
       {"all_to_all int32", "all_gather int32"}},
  };
  return kPairs;
}

/// Every rank gets a mismatch that holds `parts`, in the call or in the barrier after it.
void expect_mismatch(Communicator& comm, const char* name, tutti::Status status,
                     const std::vector<std::string>& parts) {
  if (status.is_ok()) status = comm.barrier();
  EXPECT_EQ(status.code(), Code::mismatch) << name << ", rank " << comm.rank() << ": " << to_string(status);
  for (const std::string& part : parts)
    EXPECT_NE(status.text().find(part), std::string::npos)
        << name << ", rank " << comm.rank() << ": no '" << part << "' in: " << status.text();
}

TEST(MismatchPairs, end_on_every_rank_and_name_both_calls) {
  for (const int ranks : {2, 5})
    for (const std::uint64_t count : {2u, 100000u})
      for (const Pair& pair : pairs())
        spawn(ranks, [&](Communicator& comm) {
          const std::size_t all = (count + 1) * static_cast<std::size_t>(ranks);
          std::vector<int> in(all, 1), out(all);
          expect_mismatch(comm, pair.name, pair.call(comm, in.data(), out.data(), count, comm.rank() == 1), pair.parts);
        });
}

// The forms with counts that all ranks share: the text says which of them differs.
TEST(MismatchCounts, the_one_that_differs_is_named_with_both_values) {
  for (const std::uint64_t base : {1u, 50000u})
    for (const int form : {0, 1, 2, 3})
      spawn(3, [&](Communicator& comm) {
        std::vector<std::uint64_t> counts{base, 2 * base, base};
        if (comm.rank() == 1) counts[2] += 3;
        std::vector<int> in(6 * base + 3, 1), out(6 * base + 3);
        const DataType type = DataType::int32;
        const auto call = [&] {
          switch (form) {
            case 0: return comm.all_gather_v(in.data(), out.data(), {counts}, type);
            case 1: return comm.reduce_scatter_v(in.data(), out.data(), {counts}, type);
            case 2: return comm.gather_v(in.data(), out.data(), {counts}, type, 0);
            default: return comm.scatter_v(in.data(), out.data(), {counts}, type, 0);
          }
        };
        expect_mismatch(
            comm, "one count", call(),
            {"_v int32 x", "counts[2] is", std::to_string(base + 3) + " on rank 1", std::to_string(base) + " on rank"});
      });
}

TEST(MismatchCounts, several_that_differ_are_said_to) {
  spawn(2, [](Communicator& comm) {
    std::vector<std::uint64_t> counts{4, 6};
    if (comm.rank() == 1) counts = {6, 4};
    std::vector<int> in(6), out(10);
    expect_mismatch(comm, "same sum", comm.all_gather_v(in.data(), out.data(), {counts}, DataType::int32),
                    {"all_gather_v int32 x 10 in all", "counts differ in several places"});
  });
}

// What rank 1 sends to rank 0 is not what rank 0 expects of it.
TEST(MismatchCounts, of_all_to_all_v_names_sender_receiver_and_both_counts) {
  const std::vector<std::array<std::uint64_t, 2>> table = {
      {5, 7}, {0, 3}, {3, 0}, {11, 12}, {100000, 5}, {5, 100000}, {200000, 200001}, {300000, 100000}};
  for (const int ranks : {2, 4})
    for (const auto& [sends, expects] : table) {
      const std::uint64_t sent = sends, expected = expects;
      spawn(ranks, [=](Communicator& comm) {
        const auto size = static_cast<std::size_t>(ranks);
        std::vector<std::uint64_t> send(size, 6), receive(size, 6);
        if (comm.rank() == 1) send[0] = sent;
        if (comm.rank() == 0) receive[1] = expected;
        std::vector<int> in(6 * size + sent, 1), out(6 * size + expected);
        expect_mismatch(comm, "all_to_all_v",
                        comm.all_to_all_v(in.data(), {send}, out.data(), {receive}, DataType::int32),
                        {"all_to_all_v: rank 1 sends int32 x " + std::to_string(sent) + " to rank 0",
                         "rank 0 expects int32 x " + std::to_string(expected) + " from rank 1", "send_counts[0]",
                         "recv_counts[1]"});
      });
    }
}

TEST(MismatchCounts, that_are_equal_are_not_blamed_for_another_algorithm) {
  spawn(2, [](Communicator& comm) {
    const std::vector<std::uint64_t> counts{4, 5};
    std::vector<int> in(counts[comm.rank() == 0 ? 0 : 1]), out(9);
    expect_mismatch(comm, "all_gather_v",
                    comm.all_gather_v(in, out, {counts}, {.algorithm = comm.rank() == 0 ? "ring" : "one_shot"}),
                    {"all_gather_v int32 x 9 in all", "by another algorithm"});
  });
}

TEST(MismatchCounts, all_to_all_v_against_all_to_all_is_another_collective) {
  spawn(3, [](Communicator& comm) {
    const std::vector<std::uint64_t> counts(3, 4);
    std::vector<int> in(12), out(12);
    expect_mismatch(comm, "forms",
                    comm.rank() == 1 ? comm.all_to_all(in, out) : comm.all_to_all_v(in, {counts}, out, {counts}),
                    {"all_to_all int32 x 4", "all_to_all_v int32 x 12 sent in all"});
  });
}

TEST(MismatchOrder, swapped_operations_are_found_although_both_are_issued) {
  spawn(3, [](Communicator& comm) {
    std::vector<float> a(100, 1), b(100, 1);
    auto first = comm.rank() == 1 ? comm.async().all_reduce(a, Op::max) : comm.async().all_reduce(a);
    auto second = comm.rank() == 1 ? comm.async().all_reduce(b) : comm.async().all_reduce(b, Op::max);
    // Found in one of the four calls: the first operation may have failed before the second one was issued.
    tutti::Status status = first.is_ok() ? first->wait() : first.status();
    if (status.is_ok()) status = second.is_ok() ? second->wait() : second.status();
    EXPECT_EQ(status.code(), Code::mismatch) << to_string(status);
  });
}

TEST(MismatchInit, agreed_settings_must_be_equal_and_both_values_are_named) {
  const auto id = tutti::UniqueId::create().value();
  spawn_ranks({.ranks = 2}, [&](int rank) {
    const auto comm = Communicator::create(id, rank, 2, test_config(rank == 0 ? "lanes=2" : "lanes=4"));
    EXPECT_EQ(comm.code(), Code::mismatch) << to_string(comm.status());
    for (const char* part : {"lanes", "2", "4"})
      EXPECT_NE(comm.text().find(part), std::string::npos) << part << " in " << comm.text();
  });
}

TEST(MismatchInit, the_number_of_ranks_must_be_equal) {
  const auto id = tutti::UniqueId::create().value();
  spawn_ranks({.ranks = 2}, [&](int rank) {
    const auto comm = Communicator::create(id, rank, rank == 0 ? 2 : 3, test_config("init_timeout=3s"));
    EXPECT_EQ(comm.code(), Code::invalid_argument) << to_string(comm.status());
    for (const char* part : {"3 ranks", "with 2"})
      EXPECT_NE(comm.text().find(part), std::string::npos) << part << " in " << comm.text();
  });
}

TEST(MismatchInit, two_of_one_rank_are_refused) {
  const auto id = tutti::UniqueId::create().value();
  std::atomic<int> refused{0};
  spawn_ranks({.ranks = 3}, [&](int thread) {
    const int rank = thread == 0 ? 0 : 1;
    const auto comm = Communicator::create(id, rank, 3, test_config("init_timeout=2s"));
    EXPECT_FALSE(comm.is_ok());
    if (comm.text().find("rank 1") != std::string::npos || comm.text().find("missing: 2") != std::string::npos)
      ++refused;
  });
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace api_test
