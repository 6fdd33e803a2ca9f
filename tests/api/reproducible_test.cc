// SPDX-License-Identifier: Apache-2.0
// The levels of docs/determinism.md, by bits: L2 whatever the size, pieces, slices and lanes; L4 whatever number of
// ranks shares sixteen terms.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Communicator;

/// Terms whose sum depends on the order: magnitudes between 2^-12 and 2^12, either sign.
double term(std::uint64_t leaf, std::uint64_t index) {
  std::uint64_t word = leaf * 1000003 + index + 1;  // one step of splitmix64
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  word ^= word >> 31;
  const double mantissa = 1.0 + static_cast<double>(word >> 12) * 0x1p-52;
  const int exponent = static_cast<int>((word >> 1) % 25) - 12;
  return std::ldexp((word & 1) != 0 ? mantissa : -mantissa, exponent);
}

// What the library promises of one addition, per type: in float64, float32, or float32 rounded to nearest even.
struct Float64 {
  using Element = double;
  static constexpr tutti_dtype kType = TUTTI_FLOAT64;
  static Element make(double value) { return value; }
  static Element add(Element a, Element b) { return a + b; }
};

struct Float32 {
  using Element = float;
  static constexpr tutti_dtype kType = TUTTI_FLOAT32;
  static Element make(double value) { return static_cast<float>(value); }
  static Element add(Element a, Element b) { return a + b; }
};

struct BFloat16 {
  using Element = std::uint16_t;
  static constexpr tutti_dtype kType = TUTTI_BFLOAT16;
  static float widen(Element value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }
  static Element narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Element>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }
  static Element make(double value) { return narrow(static_cast<float>(value)); }
  static Element add(Element a, Element b) { return narrow(widen(a) + widen(b)); }
};

/// The terms first .. first + leaves - 1 of every element, added by the balanced tree.
template <class Type>
std::vector<typename Type::Element> tree_sum(std::uint64_t first, std::uint64_t leaves, std::size_t count) {
  std::vector<typename Type::Element> sum(count);
  if (leaves == 1) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = Type::make(term(first, i));
    return sum;
  }
  const auto left = tree_sum<Type>(first, leaves / 2, count);
  const auto right = tree_sum<Type>(first + leaves / 2, leaves / 2, count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = Type::add(left[i], right[i]);
  return sum;
}

template <class Element>
::testing::AssertionResult same_bits(const Element* a, const Element* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (std::memcmp(a + i, b + i, sizeof(Element)) != 0)
      return ::testing::AssertionFailure() << "element " << i << " of " << count << " differs";
  return ::testing::AssertionSuccess();
}

template <class Type>
class Reproducible : public testing::Test {};
using Types = testing::Types<Float64, Float32, BFloat16>;
TYPED_TEST_SUITE(Reproducible, Types);

constexpr std::uint64_t kLeaves = 16;

// Local sums by the balanced tree, then the library's over the ranks: the bits of one rank that adds all by itself.
TYPED_TEST(Reproducible, l4_gives_the_same_bits_on_any_power_of_two_of_ranks) {
  using Element = typename TypeParam::Element;
  // One line, one slot, several slices of each chunk; all divisible by sixteen.
  for (const std::size_t count : {std::size_t{16}, std::size_t{1040}, std::size_t{100000}}) {
    const std::vector<Element> whole = tree_sum<TypeParam>(0, kLeaves, count);
    for (const int ranks : {1, 2, 4, 8, 16})
      spawn({.ranks = ranks, .settings = "reproducible=L4;slice_bytes=16K"}, [&](Communicator& comm) {
        const auto rank = static_cast<std::uint64_t>(comm.rank());
        const std::uint64_t share = kLeaves / static_cast<std::uint64_t>(ranks);
        const std::vector<Element> in = tree_sum<TypeParam>(rank * share, share, count);
        std::vector<Element> out(count);
        ASSERT_EQ(tutti_all_reduce(in.data(), out.data(), count, TypeParam::kType, TUTTI_SUM, comm.handle(), nullptr,
                                   nullptr),
                  TUTTI_OK);
        EXPECT_TRUE(same_bits(out.data(), whole.data(), count)) << "all_reduce over " << ranks << " ranks";
        for (const int root : {0, ranks - 1}) {
          ASSERT_EQ(tutti_reduce(in.data(), out.data(), count, TypeParam::kType, TUTTI_SUM, root, comm.handle(),
                                 nullptr, nullptr),
                    TUTTI_OK);
          if (comm.rank() == root) {
            EXPECT_TRUE(same_bits(out.data(), whole.data(), count)) << "reduce to " << root << " of " << ranks;
          }
          std::fill(out.begin(), out.end(), Element{});
        }
        const std::size_t block = count / static_cast<std::size_t>(ranks);
        ASSERT_EQ(tutti_reduce_scatter(in.data(), out.data(), block, TypeParam::kType, TUTTI_SUM, comm.handle(),
                                       nullptr, nullptr),
                  TUTTI_OK);
        EXPECT_TRUE(same_bits(out.data(), whole.data() + rank * block, block)) << "reduce_scatter over " << ranks;
      });
  }
}

// One vector as a whole and in pieces, under settings that cut it differently.
TYPED_TEST(Reproducible, l2_gives_the_same_bits_whole_or_in_pieces) {
  using Element = typename TypeParam::Element;
  constexpr std::size_t kCount = 60000;
  constexpr std::size_t kPieces[] = {1, 63, 936, 9000, 50000};
  for (const int ranks : {2, 3, 6}) {
    std::vector<Element> first;
    std::mutex mutex;
    for (const char* settings : {"reproducible=l2", "reproducible=l2;slice_bytes=4K;lanes=1",
                                 "reproducible=l2;slice_bytes=20K;lanes=4", "reproducible=l2;fifo_bytes=64K"})
      spawn({.ranks = ranks, .settings = settings}, [&](Communicator& comm) {
        const std::vector<Element> in = tree_sum<TypeParam>(static_cast<std::uint64_t>(comm.rank()), 1, kCount);
        const auto add = [&](std::size_t begin, std::size_t count, Element* out) {
          ASSERT_EQ(tutti_all_reduce(in.data() + begin, out + begin, count, TypeParam::kType, TUTTI_SUM, comm.handle(),
                                     nullptr, nullptr),
                    TUTTI_OK);
        };
        std::vector<Element> whole(kCount), pieces(kCount);
        add(0, kCount, whole.data());
        std::size_t begin = 0;
        for (const std::size_t piece : kPieces) {
          add(begin, piece, pieces.data());
          begin += piece;
        }
        ASSERT_EQ(begin, kCount);
        EXPECT_TRUE(same_bits(whole.data(), pieces.data(), kCount)) << ranks << " ranks, " << settings;
        const std::lock_guard lock(mutex);
        if (first.empty()) first = whole;
        EXPECT_TRUE(same_bits(whole.data(), first.data(), kCount)) << ranks << " ranks, " << settings;
      });
  }
}

// Reduce and ReduceScatter add by the tree of AllReduce, whoever is the root and wherever a block begins.
TYPED_TEST(Reproducible, l2_is_the_same_for_all_three_collectives) {
  using Element = typename TypeParam::Element;
  constexpr std::size_t kBlock = 7001;
  for (const int ranks : {3, 4})
    spawn({.ranks = ranks, .settings = "reproducible=l2;slice_bytes=8K"}, [&](Communicator& comm) {
      const std::size_t count = kBlock * static_cast<std::size_t>(ranks);
      const std::vector<Element> in = tree_sum<TypeParam>(static_cast<std::uint64_t>(comm.rank()), 1, count);
      std::vector<Element> all(count), out(count);
      ASSERT_EQ(
          tutti_all_reduce(in.data(), all.data(), count, TypeParam::kType, TUTTI_SUM, comm.handle(), nullptr, nullptr),
          TUTTI_OK);
      for (int root = 0; root < ranks; ++root) {
        ASSERT_EQ(tutti_reduce(in.data(), out.data(), count, TypeParam::kType, TUTTI_SUM, root, comm.handle(), nullptr,
                               nullptr),
                  TUTTI_OK);
        if (comm.rank() == root) {
          EXPECT_TRUE(same_bits(out.data(), all.data(), count)) << "reduce to " << root << " of " << ranks;
        }
      }
      ASSERT_EQ(tutti_reduce_scatter(in.data(), out.data(), kBlock, TypeParam::kType, TUTTI_SUM, comm.handle(), nullptr,
                                     nullptr),
                TUTTI_OK);
      EXPECT_TRUE(same_bits(out.data(), all.data() + kBlock * static_cast<std::size_t>(comm.rank()), kBlock))
          << "reduce_scatter over " << ranks;
    });
}

// The data tells orders apart: without the setting, a row that adds in another order gives other bits.
TYPED_TEST(Reproducible, another_order_would_be_seen) {
  using Element = typename TypeParam::Element;
  constexpr std::size_t kCount = 60000;
  spawn(4, [&](Communicator& comm) {
    const std::vector<Element> in = tree_sum<TypeParam>(static_cast<std::uint64_t>(comm.rank()), 1, kCount);
    std::vector<Element> ring(kCount);
    tutti_call call{};
    call.struct_size = sizeof call;
    call.algorithm = "ring";
    ASSERT_EQ(
        tutti_all_reduce(in.data(), ring.data(), kCount, TypeParam::kType, TUTTI_SUM, comm.handle(), &call, nullptr),
        TUTTI_OK);
    EXPECT_FALSE(same_bits(ring.data(), tree_sum<TypeParam>(0, 4, kCount).data(), kCount));
  });
}

TEST(Reproducible, a_row_with_another_order_is_refused) {
  spawn({.ranks = 2, .settings = "reproducible=l2"}, [](Communicator& comm) {
    float value = 1;
    const auto status =
        comm.all_reduce(&value, &value, 1, tutti::DataType::float32, tutti::Op::sum, {.algorithm = "ring"});
    EXPECT_EQ(status.code(), tutti::Code::unsupported) << to_string(status);
    EXPECT_NE(to_string(status).find("order"), std::string::npos) << to_string(status);
  });
}

TEST(Reproducible, explain_says_so) {
  spawn({.ranks = 4, .settings = "reproducible=l4"}, [](Communicator& comm) {
    const auto text = comm.explain(tutti::Collective::all_reduce, 1000);
    ASSERT_STATUS_OK(text.status());
    EXPECT_NE(text->find("\"balanced\""), std::string::npos) << *text;
    EXPECT_NE(text->find("documented constants"), std::string::npos) << *text;
  });
}

}  // namespace
}  // namespace api_test
