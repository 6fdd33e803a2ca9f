// SPDX-License-Identifier: Apache-2.0
// What tutti.hpp adds to the C interface: types checked when compiling, sizes when running, values and exceptions,
// handles that move.
#include <array>
#include <type_traits>

#include "tests/api/harness.h"

namespace api_test {

struct Half {  // a type of the user's own
  std::uint16_t bits;
};

}  // namespace api_test

template <>
struct tutti::ElementType<api_test::Half> {
  static constexpr tutti::DataType value = tutti::DataType::float16;
};

namespace api_test {
namespace {

using tutti::Buffer;
using tutti::Code;
using tutti::Communicator;
using tutti::DataType;
using tutti::Result;
using tutti::Status;

template <class T>
constexpr DataType type_of = tutti::ElementType<T>::value;

static_assert(type_of<int> == DataType::int32 && type_of<long> == DataType::int64);
static_assert(type_of<unsigned long long> == DataType::uint64 && type_of<signed char> == DataType::int8);
static_assert(type_of<std::byte> == DataType::uint8 && type_of<Half> == DataType::float16);
static_assert(type_of<bool> == DataType::boolean && type_of<tutti::Float8E4m3> == DataType::float8_e4m3);
static_assert(type_of<tutti::Float8E5m2> == DataType::float8_e5m2 && !tutti::Input<std::vector<bool>&>);
static_assert(!tutti::Element<short> && !tutti::Element<std::string>);

// Lvalues and views are buffers; temporaries that would be gone before the operation are not.
static_assert(tutti::Input<std::vector<float>&> && tutti::Input<const std::vector<float>&>);
static_assert(tutti::Input<std::span<const int>> && tutti::Output<std::span<int>> && tutti::Output<int (&)[3]>);
static_assert(tutti::Output<std::array<double, 2>&> && tutti::Output<Buffer<float>&>);
static_assert(!tutti::Input<std::vector<float>> && !tutti::Output<Buffer<float>>);
static_assert(!tutti::Output<const std::vector<float>&> && !tutti::Output<std::span<const int>>);
static_assert(!tutti::OutputFor<std::vector<double>&, std::vector<float>&>);
static_assert(tutti::OutputFor<std::vector<float>&, std::span<const float>>);

static_assert(!std::is_copy_constructible_v<Communicator> && std::is_nothrow_move_constructible_v<Communicator>);
static_assert(!std::is_copy_constructible_v<tutti::Work> && std::is_nothrow_move_assignable_v<tutti::Work>);
static_assert(!std::is_copy_constructible_v<Buffer<int>> && !std::is_copy_constructible_v<tutti::Registration>);
static_assert(!std::is_move_constructible_v<tutti::Group>);

TEST(Values, a_result_holds_a_value_or_a_status) {
  Result<int> good(3);
  ASSERT_TRUE(good.is_ok());
  EXPECT_EQ(good.value(), 3);
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(good.code(), Code::ok);
  Result<int> bad(Status(Code::timeout, "rank 3 is late"));
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.text(), "rank 3 is late");
  try {
    static_cast<void>(bad.value());
    FAIL() << "value() of an error must throw";
  } catch (const tutti::Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_STREQ(error.what(), "rank 3 is late");
  }
  EXPECT_NO_THROW(Status().or_throw());
  EXPECT_THROW(Status(Code::aborted, "").or_throw(), tutti::Error);
}

TEST(Sizes, that_do_not_fit_are_refused_before_anything_is_sent) {
  spawn(2, [](Communicator& comm) {
    std::vector<float> four(4, 1), five(5), eight(8);
    const auto expect = [](const Status& status, const std::vector<std::string>& parts) {
      EXPECT_EQ(status.code(), Code::invalid_argument) << to_string(status);
      for (const std::string& part : parts)
        EXPECT_NE(status.text().find(part), std::string::npos) << part << " in " << status.text();
    };
    if (comm.rank() == 0) {
      expect(comm.all_reduce(four, five), {"all_reduce", "out", "5", "4"});
      expect(comm.all_gather(four, five), {"all_gather", "out", "5", "8"});
      expect(comm.reduce_scatter(five, four), {"reduce_scatter", "in", "5", "8"});
      expect(comm.async().all_gather(four, five).status(), {"out"});
      expect(comm.reduce(four, five, 0), {"reduce", "out", "5", "4"});
      expect(comm.gather(four, five, 0), {"gather", "out", "5", "8"});
      expect(comm.scatter(five, four, 0), {"scatter", "in", "5", "8"});
      expect(comm.all_to_all(four, five), {"all_to_all", "out", "5", "4"});
      expect(comm.all_to_all(five, std::span(eight).first(5)), {"all_to_all", "in", "5", "6"});
    }
    ASSERT_STATUS_OK(comm.all_gather(four, eight));
    EXPECT_EQ(eight, std::vector<float>(8, 1));
    ASSERT_STATUS_OK(comm.reduce_scatter(eight, four));
    EXPECT_EQ(four, std::vector<float>(4, 2));
  });
}

TEST(Ranges, of_all_kinds) {
  spawn(2, [](Communicator& comm) {
    int plain[3] = {1, 1, 1};
    ASSERT_STATUS_OK(comm.all_reduce(plain));
    EXPECT_EQ(plain[2], 2);
    const std::array<double, 2> in{1.5, 2};
    std::array<double, 2> out{};
    ASSERT_STATUS_OK(comm.all_reduce(in, out, tutti::Op::prod));
    EXPECT_EQ(out[0], 2.25);
    std::vector<Half> halves(2, Half{0x3c00});  // 1.0
    ASSERT_STATUS_OK(comm.all_reduce(halves));
    EXPECT_EQ(halves[0].bits, 0x4000);  // 2.0
    std::vector<tutti::Bfloat16> brains(2, tutti::Bfloat16{0x3f80});
    ASSERT_STATUS_OK(comm.all_reduce(std::span(brains).first(1)));
    EXPECT_EQ(brains[0].bits, 0x4000);
    EXPECT_EQ(brains[1].bits, 0x3f80);
    std::vector<std::byte> bytes(5, std::byte{static_cast<unsigned char>(comm.rank())});
    ASSERT_STATUS_OK(comm.broadcast(bytes, 1));
    EXPECT_EQ(bytes[4], std::byte{1});
    // In place: the input is the own block of the output.
    std::vector<int> blocks{comm.rank(), comm.rank()};
    ASSERT_STATUS_OK(comm.all_gather(std::span(blocks).subspan(static_cast<std::size_t>(comm.rank()), 1), blocks));
    EXPECT_EQ(blocks, (std::vector<int>{0, 1}));
  });
}

// What only the root uses may be empty elsewhere.
TEST(Ranges, of_the_root_alone) {
  spawn(2, [](Communicator& comm) {
    constexpr int kRoot = 1;
    const bool at_root = comm.rank() == kRoot;
    const std::vector<double> mine{1.0 + comm.rank(), 10};
    std::vector<double> sum(at_root ? 2 : 0), whole(at_root ? 4 : 0);
    ASSERT_STATUS_OK(comm.reduce(mine, sum, kRoot));
    ASSERT_STATUS_OK(comm.gather(mine, whole, kRoot));
    if (at_root) {
      EXPECT_EQ(sum, (std::vector<double>{3, 20}));
      EXPECT_EQ(whole, (std::vector<double>{1, 10, 2, 10}));
    }
    std::array<double, 2> back{};
    ASSERT_STATUS_OK(comm.scatter(whole, back, kRoot));
    EXPECT_EQ(back[0], mine[0]);

    // In place: reduce keeps what the other ranks gave.
    std::vector<Half> halves(3, Half{0x3c00});  // 1.0
    ASSERT_STATUS_OK(comm.reduce(halves, 0));
    EXPECT_EQ(halves[2].bits, comm.rank() == 0 ? 0x4000 : 0x3c00);
    std::vector<int> blocks{comm.rank(), comm.rank()};
    const auto own = std::span(blocks).subspan(static_cast<std::size_t>(comm.rank()), 1);
    ASSERT_STATUS_OK(comm.gather(own, blocks, kRoot));
    EXPECT_EQ(blocks, (std::vector<int>{0, at_root ? 1 : 0}));
    if (at_root) blocks = {5, 6};
    ASSERT_STATUS_OK(comm.scatter(blocks, own, kRoot));
    EXPECT_EQ(own[0], 5 + comm.rank());
    tutti::Work work = comm.async().reduce(mine, sum, kRoot, tutti::Op::max).value();
    ASSERT_STATUS_OK(work.wait());
    EXPECT_TRUE(sum.empty() || sum[0] == 2.0);
  });
}

TEST(Ranges, of_blocks) {
  spawn(2, [](Communicator& comm) {
    const int rank = comm.rank();
    std::array<int, 4> in{10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3}, out{};
    ASSERT_STATUS_OK(comm.all_to_all(in, out));
    const int first = 2 * rank;
    EXPECT_EQ(out, (std::array<int, 4>{first, first + 1, first + 10, first + 11}));

    // Rank 0 has one element, rank 1 has three; they lie in the other order.
    const std::array<std::uint64_t, 2> counts{1, 3}, places{3, 0};
    const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
    const auto mine = std::span<const int>(in).first(own);
    const std::array<int, 4> all{10, 11, 12, 0};
    ASSERT_STATUS_OK(comm.all_gather_v(mine, out, {counts, places}));
    EXPECT_EQ(out, all);
    std::vector<int> part(own);
    ASSERT_STATUS_OK(comm.reduce_scatter_v(all, part, {counts, places}, tutti::Op::prod));
    EXPECT_EQ(part[0], rank == 0 ? 0 : 100);
    std::vector<int> whole(rank == 0 ? 4 : 0);
    ASSERT_STATUS_OK(comm.gather_v(mine, whole, {counts}, 0));
    if (rank == 0) {
      EXPECT_EQ(whole, (std::vector<int>{0, 10, 11, 12}));
    }
    ASSERT_STATUS_OK(comm.scatter_v(whole, part, {counts}, 0));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), mine.begin()));
    // One element stays, three go to the other rank.
    const std::array<std::uint64_t, 2> sent{rank == 0 ? 1u : 3u, rank == 0 ? 3u : 1u};
    ASSERT_STATUS_OK(comm.all_to_all_v(in, {sent}, out, {sent}));
    EXPECT_EQ(out, (rank == 0 ? std::array<int, 4>{0, 10, 11, 12} : std::array<int, 4>{1, 2, 3, 13}));
  });
}

TEST(Handles, move_and_release) {
  spawn(2, [](Communicator& comm) {
    Communicator first = comm.split(0).value();
    Communicator second = std::move(first);
    EXPECT_FALSE(static_cast<bool>(first));  // NOLINT(bugprone-use-after-move): defined here
    ASSERT_STATUS_OK(second.barrier());
    tutti_comm* const handle = second.handle();
    second = comm.split(0).value();
    EXPECT_NE(second.handle(), handle);
    ASSERT_STATUS_OK(second.barrier());

    std::vector<int> data(10, 1), more(10, 1);
    tutti::Work work = comm.async().all_reduce(data).value();
    tutti::Work other = comm.async().all_reduce(more).value();
    work = std::move(other);  // releases the first one, which goes on
    ASSERT_STATUS_OK(work.wait());
    EXPECT_EQ(data[0] + more[0], 4);

    auto buffer = Buffer<int>::make(5).value();
    int* const memory = buffer.data();
    Buffer<int> moved = std::move(buffer);
    EXPECT_EQ(moved.data(), memory);
    moved = Buffer<int>::make(6).value();
    EXPECT_EQ(moved.size(), 6u);
  });
}

TEST(Exceptions, the_short_way) {
  spawn(2, [](Communicator& comm) {
    std::vector<float> data(4, 1);
    EXPECT_NO_THROW(comm.all_reduce(data).or_throw());
    EXPECT_THROW(comm.broadcast(data, 17).or_throw(), tutti::Error);
    EXPECT_THROW(static_cast<void>(comm.async().broadcast(data, 17).value()), tutti::Error);
  });
}

}  // namespace
}  // namespace api_test
