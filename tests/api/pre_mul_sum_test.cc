// SPDX-License-Identifier: Apache-2.0
// Pre-multiplied sums: whose factor counts, how long a handle lives, and what a wrong one gives. (The matrix checks
// values over every type, row and size.)
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;
using tutti::DataType;
using tutti::Op;
using tutti::PreMulSum;
using tutti::Status;

/// Sum over `ranks` ranks of (rank + 1) * value.
float weighted(float value, int ranks) { return value * static_cast<float>(ranks * (ranks + 1)) / 2; }

TEST(PreMulSums, each_rank_multiplies_by_its_own_factor) {
  for (const int ranks : {1, 2, 3, 5})
    spawn(ranks, [ranks](Communicator& comm) {
      const auto all = static_cast<std::size_t>(ranks);
      const auto op = comm.pre_mul_sum(static_cast<float>(comm.rank() + 1)).value();
      const std::vector<float> in(7, 0.5f);
      std::vector<float> out(7);
      ASSERT_STATUS_OK(comm.all_reduce(in, out, op));
      EXPECT_EQ(out, std::vector<float>(7, weighted(0.5f, ranks)));
      out = in;
      ASSERT_STATUS_OK(comm.all_reduce(out, op));  // in place, where one rank copies a buffer onto itself
      EXPECT_EQ(out, std::vector<float>(7, weighted(0.5f, ranks)));

      std::vector<float> rooted(7);
      ASSERT_STATUS_OK(comm.reduce(in, rooted, ranks - 1, op));
      EXPECT_EQ(rooted[6], comm.rank() == ranks - 1 ? weighted(0.5f, ranks) : 0);

      std::vector<float> blocks(7 * all, 0.25f), block(7);
      ASSERT_STATUS_OK(comm.reduce_scatter(blocks, block, op));
      EXPECT_EQ(block, std::vector<float>(7, weighted(0.25f, ranks)));

      std::vector<std::uint64_t> counts(all);
      std::iota(counts.begin(), counts.end(), 2);
      std::vector<float> uneven(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 2);
      std::vector<float> own(counts[static_cast<std::size_t>(comm.rank())]);
      ASSERT_STATUS_OK(comm.reduce_scatter_v(uneven, own, {counts}, op));
      EXPECT_EQ(own, std::vector<float>(own.size(), weighted(2, ranks)));
    });
}

TEST(PreMulSums, integers_wrap) {
  spawn(3, [](Communicator& comm) {
    const std::uint8_t factor = comm.rank() == 1 ? 255 : 100;  // -1 where it is signed
    std::vector<std::uint8_t> bytes(100, 7);
    ASSERT_STATUS_OK(comm.all_reduce(bytes, comm.pre_mul_sum(factor).value()));
    EXPECT_EQ(bytes, std::vector<std::uint8_t>(100, static_cast<std::uint8_t>(100 * 7 + 255 * 7 + 100 * 7)));
    std::vector<std::int64_t> wide(3, std::int64_t{1} << 62);
    ASSERT_STATUS_OK(comm.all_reduce(wide, comm.pre_mul_sum(std::int64_t{comm.rank() == 2 ? -3 : 5}).value()));
    EXPECT_EQ(wide, std::vector<std::int64_t>(3, static_cast<std::int64_t>(std::uint64_t{7} << 62)));
  });
}

// Calls alike in everything but the factor share what the library remembers of a call.
TEST(PreMulSums, a_new_factor_is_used_at_once) {
  for (const int ranks : {2, 3})
    for (const std::size_t count : {std::size_t{2}, std::size_t{5000}})
      spawn(ranks, [&](Communicator& comm) {
        const auto constant = comm.pre_mul_sum(3.0f).value();
        for (int i = 0; i < 20; ++i) {
          const auto op = comm.pre_mul_sum(static_cast<float>(i)).value();
          std::vector<float> changed(count, 1), same(count, 1), plain(count, 1);
          ASSERT_STATUS_OK(comm.all_reduce(changed, op));
          ASSERT_STATUS_OK(comm.all_reduce(same, constant));
          ASSERT_STATUS_OK(comm.all_reduce(plain));
          EXPECT_EQ(changed, std::vector<float>(count, static_cast<float>(i * ranks)));
          EXPECT_EQ(same, std::vector<float>(count, static_cast<float>(3 * ranks)));
          EXPECT_EQ(plain, std::vector<float>(count, static_cast<float>(ranks)));
        }
      });
}

// Small operations of a group share exchanges; those with factors must not share one's.
TEST(PreMulSums, in_a_group_each_keeps_its_factor_though_its_operator_is_gone) {
  spawn(3, [](Communicator& comm) {
    std::vector<std::vector<float>> data(12, std::vector<float>(5, 1));
    {
      tutti::Group group;
      for (std::size_t i = 0; i < data.size(); ++i) {
        if (i % 4 == 3) {
          ASSERT_STATUS_OK(comm.all_reduce(data[i]));
        } else {
          const auto op = comm.pre_mul_sum(static_cast<float>(i)).value();
          ASSERT_STATUS_OK(comm.all_reduce(data[i], op));
        }
      }
      ASSERT_STATUS_OK(group.end());
    }
    for (std::size_t i = 0; i < data.size(); ++i)
      EXPECT_EQ(data[i], std::vector<float>(5, i % 4 == 3 ? 3.0f : static_cast<float>(3 * i))) << i;
  });
}

TEST(PreMulSums, an_operation_under_way_does_not_need_its_operator) {
  spawn(2, [](Communicator& comm) {
    std::vector<double> data(100000, 0.5);
    auto op = comm.pre_mul_sum(4.0).value();
    auto work = comm.async().all_reduce(data, op);
    ASSERT_STATUS_OK(work.status());
    op = PreMulSum();
    ASSERT_STATUS_OK(work->wait());
    EXPECT_EQ(data, std::vector<double>(100000, 4.0));
  });
}

TEST(PreMulSums, an_operator_may_outlive_its_communicator) {
  spawn_ranks({.ranks = 1}, [](int) {
    std::optional<Communicator> comm =
        Communicator::create(tutti::UniqueId::create().value(), 0, 1, test_config()).value();
    const auto op = comm->pre_mul_sum(2.0f).value();
    comm.reset();
    comm = Communicator::create(tutti::UniqueId::create().value(), 0, 1, test_config()).value();
    std::vector<float> data(3, 1);
    const Status status = comm->all_reduce(data, op);
    EXPECT_EQ(status.code(), Code::invalid_argument) << to_string(status);
    EXPECT_NE(status.text().find("destroyed"), std::string::npos) << status.text();
  });
}

// Handles come and go on threads of their own while the communicator runs.
TEST(PreMulSums, are_made_and_destroyed_on_any_thread) {
  spawn(2, [](Communicator& comm) {
    std::atomic<bool> stop{false};
    std::atomic<int> made{0};
    std::thread maker([&] {
      while (!stop.load()) {
        const auto op = comm.pre_mul_sum(std::int32_t{5});
        EXPECT_STATUS_OK(op.status());
        made.fetch_add(1);
      }
    });
    const auto own = comm.pre_mul_sum(2.0f).value();
    // Both ranks make as many calls: until both threads have made enough.
    std::vector<std::int32_t> missing{1};
    for (int i = 0; i < 50 || missing[0] != 0; ++i) {
      std::vector<float> data(4, 1);
      EXPECT_STATUS_OK(comm.all_reduce(data, own));
      EXPECT_EQ(data[3], 4);
      missing[0] = made.load() < 50 ? 1 : 0;
      if (!comm.all_reduce(missing, Op::max)) break;
    }
    EXPECT_STATUS_OK(comm.status());
    stop.store(true);
    maker.join();
  });
}

TEST(PreMulSums, events_know_them_as_such) {
  spawn(2, [](Communicator& comm) {
    std::vector<tutti_op> seen;
    ASSERT_STATUS_OK(comm.set_event_hook([&](const tutti_event& event) { seen.push_back(event.op); }));
    std::vector<float> data(4, 1);
    ASSERT_STATUS_OK(comm.all_reduce(data, comm.pre_mul_sum(2.0f).value()));
    ASSERT_STATUS_OK(comm.set_event_hook({}));
    EXPECT_EQ(seen, (std::vector<tutti_op>{TUTTI_PRE_MUL_SUM, TUTTI_PRE_MUL_SUM}));
  });
}

// ---- Wrong use ---------------------------------------------------------------------------------------------------

void expect_refused(const Status& status, const std::vector<std::string>& parts, Code code = Code::invalid_argument) {
  EXPECT_EQ(status.code(), code) << to_string(status);
  for (const std::string& part : parts)
    EXPECT_NE(status.text().find(part), std::string::npos) << "no '" << part << "' in: " << status.text();
}

Status destroy(tutti_op op, const Communicator& comm) { return Status::from_c(tutti_op_destroy(op, comm.handle())); }

tutti_op make(const Communicator& comm, float factor) {
  tutti_op op = TUTTI_SUM;
  EXPECT_EQ(tutti_op_create_pre_mul_sum(&factor, TUTTI_FLOAT32, comm.handle(), &op), TUTTI_OK) << tutti_last_error();
  EXPECT_GT(op, TUTTI_PRE_MUL_SUM);
  return op;
}

TEST(PreMulSums, a_wrong_handle_is_told_from_a_right_one) {
  spawn(2, [](Communicator& comm) {
    auto other = comm.split(0, comm.rank(), {.name = "the_other"});
    ASSERT_STATUS_OK(other.status());
    if (comm.rank() == 0) {  // refused calls are no operations: the other rank need not know
      std::vector<float> data(4, 1);
      std::vector<double> wide(4, 1);
      const tutti_op op = make(comm, 2), foreign = make(*other, 2), gone = make(comm, 2);
      EXPECT_NE(op, gone);
      ASSERT_STATUS_OK(destroy(gone, comm));
      const auto call = [&](tutti_op wrong) { return comm.all_reduce(data, static_cast<Op>(wrong)); };
      expect_refused(call(foreign), {"op " + std::to_string(foreign), "the_other", "belongs to", comm.name()});
      expect_refused(comm.all_reduce(wide, static_cast<Op>(op)), {"op", "float32", "float64"});
      expect_refused(call(gone), {"op " + std::to_string(gone), "destroyed"});
      expect_refused(call(TUTTI_PRE_MUL_SUM), {"op 64", "no operator", "TUTTI_BXOR"});
      expect_refused(call(TUTTI_OP_LAST), {"no operator", "tutti_op_create_pre_mul_sum"});
      expect_refused(comm.all_reduce(data, PreMulSum()), {"no operator"});
      expect_refused(destroy(foreign, comm), {"the_other", "belongs to"});
      expect_refused(destroy(gone, comm), {"destroyed"});
      expect_refused(destroy(TUTTI_MAX, comm), {"max", "built in"});
      {
        tutti::Group group;
        expect_refused(call(gone), {"destroyed"});
        expect_refused(group.end(), {"destroyed"});
      }
      ASSERT_STATUS_OK(destroy(op, comm));
      EXPECT_EQ(data, std::vector<float>(4, 1));
    }
    std::vector<float> data(4, 1);
    EXPECT_STATUS_OK(comm.all_reduce(data));
    EXPECT_EQ(data, std::vector<float>(4, 2));
  });
}

TEST(PreMulSums, creation_checks_its_arguments) {
  spawn(1, [](Communicator& comm) {
    const float one = 1;
    tutti_op op = TUTTI_SUM;
    const auto create = [&](const void* scalar, int type, tutti_comm* handle, tutti_op* result) {
      return Status::from_c(tutti_op_create_pre_mul_sum(scalar, static_cast<tutti_dtype>(type), handle, result));
    };
    expect_refused(create(nullptr, TUTTI_FLOAT32, comm.handle(), &op), {"scalar", "NULL"});
    expect_refused(create(&one, TUTTI_FLOAT32, nullptr, &op), {"comm", "NULL"});
    expect_refused(create(&one, TUTTI_FLOAT32, comm.handle(), nullptr), {"op", "NULL"});
    expect_refused(create(&one, TUTTI_DTYPE_COUNT, comm.handle(), &op), {"type", "13", "dtypes.def"});
    expect_refused(create(&one, TUTTI_BOOL, comm.handle(), &op), {"boolean", "not supported"}, Code::unsupported);
    expect_refused(Status::from_c(tutti_op_destroy(TUTTI_SUM, nullptr)), {"comm", "NULL"});
    EXPECT_EQ(op, TUTTI_SUM);
  });
}

}  // namespace
}  // namespace api_test
