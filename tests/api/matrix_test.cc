// SPDX-License-Identifier: Apache-2.0
// Every collective, type, operator, rank count, boundary count, placement, alignment and algorithm against expected
// values that are exact. Pairs of values here; the whole product in the nightly program (TUTTI_TEST_FULL).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "tests/api/cases.h"

namespace api_test {
namespace {

#if defined(TUTTI_TEST_FULL)
constexpr bool kFull = true;
constexpr int kSlices = 48;  // of each collective's cases: tests enough to share out among sections
#else
constexpr bool kFull = false;
constexpr int kSlices = 1;
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMaxRanks = 9;  // the larger ones add time, no code
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr int kMaxRanks = 9;
#else
constexpr int kMaxRanks = 17;
#endif
#else
constexpr int kMaxRanks = 17;
#endif

using Expectations = std::vector<std::unique_ptr<Expectation>>;

std::map<int, Expectations> by_ranks(const std::vector<Case>& cases) {
  std::map<int, Expectations> groups;
  for (const Case& c : cases)
    if (c.ranks <= kMaxRanks) groups[c.ranks].push_back(std::make_unique<Expectation>(c));
  return groups;
}

void run_in_threads(const std::vector<Case>& cases) {
  for (auto& [ranks, expectations] : by_ranks(cases)) {
    Expectations& list = expectations;
    spawn({.ranks = ranks, .deadline = kFull ? seconds(1500) : kJobDeadline}, [&list](tutti::Communicator& comm) {
      for (auto& expectation : list) {
        run_case(comm, *expectation);
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
    if (::testing::Test::HasFailure()) return;
  }
}

class Matrix : public ::testing::TestWithParam<std::tuple<tutti_collective, int>> {};

TEST_P(Matrix, agrees_with_the_reference) {
  const auto [what, slice] = GetParam();
  const std::vector<Case> all = make_cases(what, kFull);
  std::vector<Case> cases;
  for (auto i = static_cast<std::size_t>(slice); i < all.size(); i += kSlices) cases.push_back(all[i]);
  run_in_threads(cases);
}

constexpr std::array kCollectives{TUTTI_ALL_REDUCE,   TUTTI_ALL_GATHER,      TUTTI_REDUCE_SCATTER, TUTTI_BROADCAST,
                                  TUTTI_BARRIER,      TUTTI_REDUCE,          TUTTI_GATHER,         TUTTI_SCATTER,
                                  TUTTI_ALL_TO_ALL,   TUTTI_ALL_GATHER_V,    TUTTI_GATHER_V,       TUTTI_SCATTER_V,
                                  TUTTI_ALL_TO_ALL_V, TUTTI_REDUCE_SCATTER_V};
std::string name_of(const ::testing::TestParamInfo<Matrix::ParamType>& instance) {
  const std::string text = to_string(Case{.what = std::get<0>(instance.param)});
  return text.substr(0, text.find(' ')) + (kFull ? "_" + std::to_string(std::get<1>(instance.param)) : "");
}
INSTANTIATE_TEST_SUITE_P(Collectives, Matrix,
                         ::testing::Combine(::testing::ValuesIn(kCollectives), ::testing::Range(0, kSlices)), name_of);

#if !defined(TUTTI_TEST_FULL)

TEST(MatrixSizes, a_few_mebibytes_and_three_elements) {
  std::vector<Case> cases;
  for (const tutti_collective what : {TUTTI_ALL_REDUCE, TUTTI_ALL_GATHER, TUTTI_REDUCE_SCATTER, TUTTI_BROADCAST,
                                      TUTTI_REDUCE, TUTTI_GATHER, TUTTI_SCATTER, TUTTI_ALL_TO_ALL, TUTTI_ALL_TO_ALL_V})
    for (const int ranks : {2, 3, 8})
      for (const std::string& row : rows_of(what)) {
        if (!runs_over(what, row, ranks)) continue;
        const bool whole = what == TUTTI_ALL_REDUCE || what == TUTTI_BROADCAST || what == TUTTI_REDUCE;
        cases.push_back({.what = what,
                         .type = TUTTI_FLOAT32,
                         .ranks = ranks,
                         .count = whole ? (1 << 18) + 3u : (1 << 16) + 3u,
                         .in_place = cases.size() % 2 == 0,
                         .shift = cases.size() % 3 * 4,
                         .algorithm = row,
                         .root = ranks - 1,
                         .seed = cases.size()});
      }
  run_in_threads(cases);
}

TEST(MatrixRows, every_collective_has_rows) {
  for (const tutti_collective what : kCollectives) EXPECT_FALSE(rows_of(what).empty()) << what;
}

// Floats whose sum is inexact: no exact expectation, but every rank must hold the same bits, near the true value.
void check_inexact(tutti_dtype type, int ranks, const std::string& row, std::uint64_t count) {
  const std::size_t element = tutti_dtype_bytes(type);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks));
  const double epsilon = type == TUTTI_BFLOAT16  ? 0x1p-8
                         : type == TUTTI_FLOAT16 ? 0x1p-11
                         : type == TUTTI_FLOAT32 ? 0x1p-24
                                                 : 0x1p-53;
  const auto value = [&](int rank, std::uint64_t i) {
    // 1 + k/128: 8 significant bits, which every type here holds
    return 1.0 + static_cast<double>(mix(i, static_cast<std::uint64_t>(rank), 99) % 128) / 128;
  };
  spawn(ranks, [&](tutti::Communicator& comm) {
    std::vector<std::byte> data(count * element);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t bits = to_bits(type, value(comm.rank(), i));
      std::memcpy(data.data() + i * element, &bits, element);
    }
    ASSERT_STATUS_OK(comm.all_reduce(data.data(), data.data(), count, static_cast<tutti::DataType>(type),
                                     tutti::Op::avg, {.algorithm = row}));
    hashes[static_cast<std::size_t>(comm.rank())] = hash_bytes(data.data(), data.size());
    for (std::uint64_t i = 0; i < count; i += 17) {
      double exact = 0;
      for (int rank = 0; rank < ranks; ++rank) exact += value(rank, i);
      std::uint64_t bits = 0;
      std::memcpy(&bits, data.data() + i * element, element);
      // One rounding per addition and one for the scale, each of half a unit in the last place of at most 2.
      ASSERT_NEAR(to_value(type, bits), exact / ranks, 2 * epsilon * (ranks + 1)) << "element " << i;
    }
  });
  for (const std::uint64_t hash : hashes)
    EXPECT_EQ(hash, hashes[0]) << tutti_dtype_name(type) << " " << row << " on " << ranks << " ranks, count " << count;
}

TEST(MatrixBits, inexact_averages_are_identical_on_all_ranks) {
  for (const tutti_dtype type : {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64})
    for (const int ranks : {2, 3, 5, 7, 8})
      for (const std::string& row : rows_of(TUTTI_ALL_REDUCE))
        for (const std::uint64_t count : {std::uint64_t{5}, std::uint64_t{1000}, std::uint64_t{70000}}) {
          check_inexact(type, ranks, row, count);
          if (HasFailure()) return;
        }
}

// NaN of any sign and payload comes out canonical, whichever rank gave it and whatever the operator; inf - inf is NaN.
TEST(MatrixBits, every_nan_is_made_canonical) {
  const float nan_payload = [] {
    const std::uint32_t bits = 0xffc12345u;  // negative, quiet, payload
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }();
  for (const int ranks : {1, 2, 3, 8})
    for (const std::string& row : rows_of(TUTTI_ALL_REDUCE))
      spawn(ranks, [&](tutti::Communicator& comm) {
        for (const tutti::Op op : {tutti::Op::sum, tutti::Op::prod, tutti::Op::min, tutti::Op::max, tutti::Op::avg}) {
          std::vector<float> data(40, 1.0f);
          data[static_cast<std::size_t>(comm.rank())] = nan_payload;
          data[30] = comm.rank() % 2 == 0 ? INFINITY : -INFINITY;
          ASSERT_STATUS_OK(comm.all_reduce(data, op, {.algorithm = row}));
          const auto canonical = [&](std::size_t i) {
            std::uint32_t bits;
            std::memcpy(&bits, &data[i], sizeof bits);
            return bits == 0x7fc00000u;
          };
          for (int rank = 0; rank < ranks; ++rank)
            EXPECT_TRUE(canonical(static_cast<std::size_t>(rank))) << row << ", operator " << static_cast<int>(op);
          if (ranks > 1 && (op == tutti::Op::sum || op == tutti::Op::avg)) {
            EXPECT_TRUE(canonical(30)) << row;
          }
          EXPECT_FALSE(std::isnan(data[39])) << row;
        }
      });
}

#endif

}  // namespace
}  // namespace api_test
