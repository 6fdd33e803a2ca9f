// SPDX-License-Identifier: Apache-2.0
// The forms with a count per rank: bad counts and displacements, blocks of nothing, gaps, one rank, in place, through
// the C interface and tutti::Blocks. Results at large: matrix_test.cc; counts that differ between ranks:
// mismatch_test.cc.
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Blocks;
using tutti::Code;
using tutti::Communicator;
using tutti::DataType;
using tutti::Status;

using Numbers = std::array<std::uint64_t, 2>;

constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};  // what -1 becomes
constexpr std::uint64_t kMinusFour = kMinusOne - 3;
constexpr Numbers kTwo{2, 2}, kApart{4, 0}, kOverlapping{0, 1};

float in[64], out[64];

/// The five forms of one set of arguments; a root of 0.
using Form = tutti_code (*)(const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm);
struct NamedForm {
  const char* name;
  const char* prefix;  ///< of the parameters' names in errors
  Form call;
};
constexpr NamedForm kForms[] = {
    {"all_gather_v", "",
     [](const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm) {
       return tutti_all_gather_v(in, out, counts, displacements, TUTTI_FLOAT32, comm, nullptr, nullptr);
     }},
    {"reduce_scatter_v", "",
     [](const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm) {
       return tutti_reduce_scatter_v(in, out, counts, displacements, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr, nullptr);
     }},
    {"gather_v", "",
     [](const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm) {
       return tutti_gather_v(in, out, counts, displacements, TUTTI_FLOAT32, 0, comm, nullptr, nullptr);
     }},
    {"scatter_v", "",
     [](const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm) {
       return tutti_scatter_v(in, out, counts, displacements, TUTTI_FLOAT32, 0, comm, nullptr, nullptr);
     }},
    {"all_to_all_v of what is sent", "send_",
     [](const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm) {
       return tutti_all_to_all_v(in, counts, displacements, out, kTwo.data(), nullptr, TUTTI_FLOAT32, comm, nullptr,
                                 nullptr);
     }},
    {"all_to_all_v of what is received", "recv_",
     [](const std::uint64_t* counts, const std::uint64_t* displacements, tutti_comm* comm) {
       return tutti_all_to_all_v(in, kTwo.data(), nullptr, out, counts, displacements, TUTTI_FLOAT32, comm, nullptr,
                                 nullptr);
     }},
};

void expect_bad(const Status& status, const std::string& what, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), Code::invalid_argument) << what << ": " << to_string(status);
  for (const std::string& part : parts)
    EXPECT_NE(status.text().find(part), std::string::npos) << what << ": no '" << part << "' in: " << status.text();
}

/// Rank 0 makes the bad calls alone: none of them may reach rank 1, whose one barrier meets rank 0's.
void refused(const std::function<void(Communicator&)>& bad_calls) {
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 0) bad_calls(comm);
    EXPECT_STATUS_OK(comm.barrier());
  });
}

struct BadNumbers {
  const char* name;
  const Numbers* counts;
  const Numbers* displacements;
  std::vector<std::string> parts;  ///< of the text; the first one follows the prefix
};

TEST(Counts, bad_numbers_are_refused_in_every_form_and_named) {
  static constexpr Numbers kSum{kHuge, kHuge}, kProduct{std::uint64_t{1} << 62, 1}, kNegative{kMinusOne, 0},
      kNegativeLast{1, kMinusOne}, kManyBytes{std::uint64_t{1} << 60, 1}, kFar{0, kMinusFour}, kFarther{kHuge, 0},
      kFarBytes{0, std::uint64_t{1} << 62};
  const std::vector<BadNumbers> table = {
      {"no counts", nullptr, nullptr, {"counts", "NULL"}},
      {"no counts but displacements", nullptr, &kApart, {"counts", "NULL"}},
      {"sum overflows", &kSum, nullptr, {"counts[0]", "9223372036854775808"}},
      {"product overflows", &kProduct, nullptr, {"counts[0]", "4611686018427387904"}},
      {"negative", &kNegative, nullptr, {"counts[0]", "18446744073709551615"}},
      {"negative makes the sum 0", &kNegativeLast, nullptr, {"counts[1]", "18446744073709551615"}},
      {"too much only together", &kManyBytes, nullptr, {"counts", "adding up to 1152921504606846977"}},
      {"negative displacement", &kTwo, &kFar, {"displacements[1]", "18446744073709551612"}},
      {"far displacement", &kTwo, &kFarther, {"displacements[0]", "9223372036854775808"}},
      {"displacement overflows in bytes", &kTwo, &kFarBytes, {"displacements[1]", "4611686018427387904"}},
  };
  refused([&](Communicator& comm) {
    for (const NamedForm& form : kForms)
      for (const BadNumbers& row : table) {
        std::vector<std::string> parts = row.parts;
        parts[0] = form.prefix + parts[0];
        const auto* counts = row.counts == nullptr ? nullptr : row.counts->data();
        const auto* displacements = row.displacements == nullptr ? nullptr : row.displacements->data();
        expect_bad(Status::from_c(form.call(counts, displacements, comm.handle())),
                   std::string(form.name) + ", " + row.name, parts);
      }
  });
}

TEST(Counts, blocks_of_an_output_must_not_overlap) {
  refused([](Communicator& comm) {
    for (const NamedForm& form : {kForms[0], kForms[2], kForms[5]})
      expect_bad(Status::from_c(form.call(kTwo.data(), kOverlapping.data(), comm.handle())), form.name,
                 {form.prefix + std::string("displacements[1]"), "inside the block of rank 0"});
  });
}

TEST(Counts, bad_buffers_are_named) {
  refused([](Communicator& comm) {
    tutti_comm* const c = comm.handle();
    const std::uint64_t* const two = kTwo.data();
    constexpr tutti_dtype kType = TUTTI_FLOAT32;
    const auto bad = [](tutti_code code, const char* what, const std::vector<std::string>& parts) {
      expect_bad(Status::from_c(code), what, parts);
    };
    bad(tutti_all_gather_v(nullptr, out, two, nullptr, kType, c, nullptr, nullptr), "in", {"in is NULL"});
    bad(tutti_all_gather_v(in, nullptr, two, nullptr, kType, c, nullptr, nullptr), "out", {"out is NULL"});
    bad(tutti_reduce_scatter_v(nullptr, out, two, nullptr, kType, TUTTI_SUM, c, nullptr, nullptr), "in",
        {"in is NULL"});
    bad(tutti_gather_v(in, nullptr, two, nullptr, kType, 0, c, nullptr, nullptr), "root's out", {"out is NULL"});
    bad(tutti_scatter_v(nullptr, out, two, nullptr, kType, 0, c, nullptr, nullptr), "root's in", {"in is NULL"});
    bad(tutti_all_to_all_v(nullptr, two, nullptr, out, two, nullptr, kType, c, nullptr, nullptr), "in", {"in is NULL"});
    bad(tutti_all_to_all_v(in, two, nullptr, nullptr, two, nullptr, kType, c, nullptr, nullptr), "out",
        {"out is NULL"});
    // Neither in place nor apart.
    bad(tutti_all_gather_v(out + 1, out, two, nullptr, kType, c, nullptr, nullptr), "overlap",
        {"in", "overlapping out"});
    bad(tutti_reduce_scatter_v(in, in + 3, two, nullptr, kType, TUTTI_SUM, c, nullptr, nullptr), "overlap",
        {"out", "overlapping in"});
    bad(tutti_gather_v(out + 2, out, two, nullptr, kType, 0, c, nullptr, nullptr), "another's block",
        {"overlapping out", "displacements[root]"});
    bad(tutti_scatter_v(in, in + 2, two, nullptr, kType, 0, c, nullptr, nullptr), "another's block",
        {"overlapping in", "displacements[root]"});
    bad(tutti_all_to_all_v(out, two, nullptr, out, two, nullptr, kType, c, nullptr, nullptr), "in place",
        {"no in-place form"});
    bad(tutti_gather_v(in, out, two, nullptr, kType, 2, c, nullptr, nullptr), "root", {"root is 2", "0..1"});
    bad(tutti_scatter_v(in, out, two, nullptr, kType, -1, c, nullptr, nullptr), "root", {"root is -1", "0..1"});
    constexpr Numbers kOne{1, 2};
    bad(tutti_all_to_all_v(in, two, nullptr, out, kOne.data(), nullptr, kType, c, nullptr, nullptr), "own block",
        {"recv_counts[0] is 1", "2", "send_counts[0]"});
  });
}

TEST(Counts, blocks_that_do_not_fit_are_refused_before_anything_is_sent) {
  refused([](Communicator& comm) {
    const std::vector<std::uint64_t> counts{1, 2}, three{1, 2, 3}, apart{0, 4}, far{0, kMinusOne};
    std::vector<float> one(1), two(2), few(4), enough(6);
    expect_bad(comm.all_gather_v(one, few, {three}), "counts", {"all_gather_v", "counts", "3", "2"});
    expect_bad(comm.reduce_scatter_v(few, one, {counts, three}), "displacements", {"displacements", "3", "2"});
    expect_bad(comm.all_gather_v(two, few, {counts}), "own block", {"all_gather_v", "in", "2", "1"});
    expect_bad(comm.all_gather_v(one, few, {counts, apart}), "whole", {"all_gather_v", "out", "4", "6"});
    expect_bad(comm.reduce_scatter_v(few, one, {counts, apart}), "whole", {"reduce_scatter_v", "in", "4", "6"});
    expect_bad(comm.gather_v(one, few, {counts, apart}, 0), "root", {"gather_v", "out", "4", "6"});
    expect_bad(comm.scatter_v(few, one, {counts, apart}, 0), "root", {"scatter_v", "in", "4", "6"});
    expect_bad(comm.scatter_v(enough, two, {counts, apart}, 0), "own block", {"scatter_v", "out", "2", "1"});
    expect_bad(comm.all_to_all_v(two, {counts}, enough, {counts}), "sent", {"all_to_all_v", "in", "2", "3"});
    expect_bad(comm.all_to_all_v(few, {counts}, enough, {three}), "received", {"all_to_all_v", "counts", "3", "2"});
    expect_bad(comm.all_gather_v(one, enough, {counts, far}), "negative", {"18446744073709551615"});
    expect_bad(comm.async().all_gather_v(one, few, {counts, apart}).status(), "async", {"out", "6"});
  });
}

TEST(Counts, nothing_at_all_needs_no_buffer) {
  spawn(3, [](Communicator& comm) {
    const std::vector<std::uint64_t> none(3, 0);
    ASSERT_STATUS_OK(comm.all_gather_v(nullptr, nullptr, {none}, DataType::float32));
    ASSERT_STATUS_OK(comm.reduce_scatter_v(nullptr, nullptr, {none}, DataType::float32));
    ASSERT_STATUS_OK(comm.gather_v(nullptr, nullptr, {none}, DataType::float32, 1));
    ASSERT_STATUS_OK(comm.scatter_v(nullptr, nullptr, {none}, DataType::float32, 1));
    ASSERT_STATUS_OK(comm.all_to_all_v(nullptr, {none}, nullptr, {none}, DataType::float32));
    // One rank alone has something: the others need no buffer to give.
    const std::vector<std::uint64_t> one{0, 0, 5};
    std::vector<int> own(comm.rank() == 2 ? 5 : 0, 7), all(5);
    ASSERT_STATUS_OK(comm.all_gather_v(own, all, {one}));
    EXPECT_EQ(all, std::vector<int>(5, 7));
    std::vector<int> sum(own.size());
    ASSERT_STATUS_OK(comm.reduce_scatter_v(all, sum, {one}));
    EXPECT_EQ(sum, std::vector<int>(own.size(), 21));
  });
}

// Reading one element for several ranks is nobody's business but the caller's.
TEST(Counts, blocks_of_an_input_may_overlap) {
  spawn(3, [](Communicator& comm) {
    const std::vector<std::uint64_t> counts{3, 3, 3}, sliding{0, 1, 2}, apart{6, 0, 3};
    const int rank = comm.rank();
    std::vector<int> five{10, 11, 12, 13, 14}, three(3);
    const std::vector<int> window{10 + rank, 11 + rank, 12 + rank};
    ASSERT_STATUS_OK(comm.scatter_v(five, three, {counts, sliding}, 2));
    EXPECT_EQ(three, window);
    ASSERT_STATUS_OK(comm.reduce_scatter_v(five, three, {counts, sliding}));
    EXPECT_EQ(three, (std::vector<int>{3 * window[0], 3 * window[1], 3 * window[2]}));
    std::vector<int> nine(9);
    ASSERT_STATUS_OK(comm.all_to_all_v(five, {counts, sliding}, nine, {counts, apart}));
    for (std::size_t from = 0; from < 3; ++from)
      EXPECT_TRUE(std::equal(window.begin(), window.end(), nine.begin() + static_cast<std::ptrdiff_t>(apart[from])));
  });
}

TEST(Counts, one_rank_alone_copies_to_where_its_block_is) {
  spawn(1, [](Communicator& comm) {
    const std::vector<std::uint64_t> counts{3}, second{2};
    const std::vector<int> data{1, 2, 3}, shifted{0, 0, 1, 2, 3};
    std::vector<int> five(5), three(3);
    ASSERT_STATUS_OK(comm.all_gather_v(data, five, {counts, second}));
    EXPECT_EQ(five, shifted);
    ASSERT_STATUS_OK(comm.reduce_scatter_v(five, three, {counts, second}));
    EXPECT_EQ(three, data);
    five.assign(5, 0);
    ASSERT_STATUS_OK(comm.gather_v(data, five, {counts, second}, 0));
    EXPECT_EQ(five, shifted);
    three.assign(3, 0);
    ASSERT_STATUS_OK(comm.scatter_v(five, three, {counts, second}, 0));
    EXPECT_EQ(three, data);
    five.assign(5, 0);
    ASSERT_STATUS_OK(comm.all_to_all_v(data, {counts}, five, {counts, second}));
    EXPECT_EQ(five, shifted);
  });
}

// Unequal blocks, one of them empty, whose order in memory is not that of the ranks; gaps stay as they were.
TEST(Counts, in_place_within_blocks_in_any_order) {
  spawn(4, [](Communicator& comm) {
    const std::vector<std::uint64_t> counts{2, 0, 1, 3}, places{5, 4, 8, 0};
    const std::size_t rank = static_cast<std::size_t>(comm.rank());
    const std::vector<int> gathered{30, 31, 32, -1, -1, 0, 1, -1, 20};
    std::vector<int> data(9, -1);
    const auto own = std::span(data).subspan(places[rank], counts[rank]);
    std::iota(own.begin(), own.end(), static_cast<int>(rank) * 10);
    ASSERT_STATUS_OK(comm.all_gather_v(own, data, {counts, places}));
    EXPECT_EQ(data, gathered);
    ASSERT_STATUS_OK(comm.reduce_scatter_v(data, own, {counts, places}));
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i], 4 * gathered[places[rank] + i]);
    const int root = 3;
    std::copy(gathered.begin(), gathered.end(), data.begin());
    ASSERT_STATUS_OK(comm.scatter_v(data, own, {counts, places}, root));
    EXPECT_EQ(data, gathered);
    for (int& value : own) value += 100;
    ASSERT_STATUS_OK(comm.gather_v(own, data, {counts, places}, root));
    std::vector<int> expected = gathered;
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t i = 0; i < counts[r]; ++i)
        if (comm.rank() == root || r == rank) expected[places[r] + i] += 100;
    EXPECT_EQ(data, expected);
  });
}

TEST(Counts, arrays_may_change_once_the_call_has_returned) {
  spawn(2, [](Communicator& comm) {
    std::vector<std::uint64_t> counts{1, 3}, places{3, 0}, packed{1, 3};
    const auto own = static_cast<std::size_t>(comm.rank() == 0 ? 1 : 3);
    std::vector<int> data(own, comm.rank() + 1), all(4), received(2 * own);
    auto gather = comm.async().all_gather_v(data, all, {counts, places});
    ASSERT_STATUS_OK(gather.status());
    std::vector<int> sent(4, comm.rank() + 5);
    std::vector<std::uint64_t> equal(2, own);
    auto exchange = comm.async().all_to_all_v(sent, {packed}, received, {equal});
    ASSERT_STATUS_OK(exchange.status());
    for (auto* array : {&counts, &places, &packed, &equal}) array->assign(2, kMinusOne);
    ASSERT_STATUS_OK(gather->wait());
    ASSERT_STATUS_OK(exchange->wait());
    EXPECT_EQ(all, (std::vector<int>{2, 2, 2, 1}));
    std::vector<int> expected(own, 5);
    expected.resize(2 * own, 6);
    EXPECT_EQ(received, expected);
  });
}

}  // namespace
}  // namespace api_test
