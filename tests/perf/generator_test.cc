// SPDX-License-Identifier: Apache-2.0
#include "perf/common/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "perf/common/element.h"
#include "perf/common/options.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kCount = 400;
constexpr uint64_t kSeed = 7;

Segment segment(Pattern pattern, tutti_op op, int rank, int ranks, bool premultiplied = false) {
  Segment result;
  result.pattern = pattern;
  result.count = kCount;
  result.first_index = 1000;
  result.seed = kSeed;
  result.rank = rank;
  result.ranks = ranks;
  result.op = op;
  result.premultiplied = premultiplied;
  return result;
}

template <class Bits>
std::vector<Bits> generated(tutti_dtype type, const Segment& wanted) {
  std::vector<Bits> values(wanted.count);
  generate(type, wanted, 0, wanted.count, values.data());
  return values;
}

/// One step of a reduction in the type itself: floats round after each step, integers wrap.
template <class Traits>
typename Traits::Bits combine(typename Traits::Bits left, typename Traits::Bits right, tutti_op op) {
  using Bits = typename Traits::Bits;
  if constexpr (Traits::kFloat) {
    const double a = Traits::decode(left), b = Traits::decode(right);
    switch (op) {
      case TUTTI_PROD: return Traits::encode(a * b);
      case TUTTI_MIN: return Traits::encode(std::min(a, b));
      case TUTTI_MAX: return Traits::encode(std::max(a, b));
      default: return Traits::encode(a + b);
    }
  } else if constexpr (Traits::kLogical) {
    const bool a = left != 0, b = right != 0;
    switch (op) {
      case TUTTI_PROD:
      case TUTTI_MIN:
      case TUTTI_BAND: return a && b ? 1 : 0;
      case TUTTI_BXOR: return a != b ? 1 : 0;
      default: return a || b ? 1 : 0;
    }
  } else {
    using Value = typename Traits::Value;
    switch (op) {
      case TUTTI_BAND: return left & right;
      case TUTTI_BOR: return left | right;
      case TUTTI_BXOR: return left ^ right;
      case TUTTI_PROD: return static_cast<Bits>(uint64_t{left} * right);
      case TUTTI_MIN: return static_cast<Bits>(std::min(static_cast<Value>(left), static_cast<Value>(right)));
      case TUTTI_MAX: return static_cast<Bits>(std::max(static_cast<Value>(left), static_cast<Value>(right)));
      default: return static_cast<Bits>(uint64_t{left} + right);
    }
  }
}

using Case = std::tuple<tutti_dtype, tutti_op, int>;

class Generator : public testing::TestWithParam<Case> {
 protected:
  tutti_dtype type() const { return std::get<0>(GetParam()); }
  tutti_op op() const { return std::get<1>(GetParam()); }
  int ranks() const { return std::get<2>(GetParam()); }

  /// Reduces all inputs left to right in a random order, and as a random binary tree, in the type itself.
  template <class Traits>
  void check_orders(bool average) {
    using Bits = typename Traits::Bits;
    std::vector<std::vector<Bits>> inputs;
    for (int rank = 0; rank < ranks(); ++rank)
      inputs.push_back(generated<Bits>(type(), segment(Pattern::reduce_input, op(), rank, ranks())));
    if (average && Traits::kFloat)
      for (auto& input : inputs)
        for (Bits& value : input) value = premultiplied<Traits>(value);
    const Segment wanted = segment(Pattern::reduce_expected, op(), 0, ranks());
    const auto expected = generated<Bits>(type(), wanted);
    std::mt19937 random(99);
    std::vector<size_t> order(inputs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (uint64_t k = 0; k < kCount; ++k) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Bits> values;
      for (size_t rank : order) values.push_back(inputs[rank][k]);
      while (values.size() > 1) {  // neighbours of a random place: any tree, any order
        const size_t at = random() % (values.size() - 1);
        values[at] = combine<Traits>(values[at], values[at + 1], op());
        values.erase(values.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      }
      Bits result = values[0];
      if (average && !Traits::kFloat) result = divided<Traits>(result);
      const auto low = std::min(result, expected[k]), high = std::max(result, expected[k]);
      ASSERT_LE(uint64_t{high} - uint64_t{low}, tolerance(type(), wanted))
          << "element " << k << " expected " << describe_element(type(), &expected[k]) << " got "
          << describe_element(type(), &result);
    }
  }

  template <class Traits>
  typename Traits::Bits premultiplied(typename Traits::Bits value) const {
    if constexpr (Traits::kFloat) {
      // The library's factor: a double for doubles, a float for all others.
      const double factor = sizeof value == 8 ? 1.0 / ranks() : static_cast<double>(static_cast<float>(1.0 / ranks()));
      return Traits::encode(Traits::decode(value) * factor);
    } else {
      return value;
    }
  }
  template <class Traits>
  typename Traits::Bits divided(typename Traits::Bits value) const {
    if constexpr (!Traits::kFloat) {
      using Wide = std::conditional_t<std::is_signed_v<typename Traits::Value>, int64_t, uint64_t>;
      return static_cast<typename Traits::Bits>(static_cast<Wide>(static_cast<typename Traits::Value>(value)) /
                                                static_cast<Wide>(ranks()));
    } else {
      return value;
    }
  }
};

TEST_P(Generator, is_exact_in_any_order_at_the_types_own_precision) {
  with_element(type(), [&](auto traits) { check_orders<decltype(traits)>(op() == TUTTI_AVG); });
}

TEST_P(Generator, losing_or_doubling_one_rank_shows) {
  if (ranks() == 1) return;
  with_element(type(), [&](auto traits) {
    using Traits = decltype(traits);
    using Bits = typename Traits::Bits;
    const auto expected = generated<Bits>(type(), segment(Pattern::reduce_expected, op(), 0, ranks()));
    std::vector<std::vector<Bits>> inputs;
    for (int rank = 0; rank < ranks(); ++rank)
      inputs.push_back(generated<Bits>(type(), segment(Pattern::reduce_input, op(), rank, ranks())));
    const bool idempotent = op() == TUTTI_MIN || op() == TUTTI_MAX || op() == TUTTI_BAND || op() == TUTTI_BOR ||
                            (Traits::kLogical && op() != TUTTI_BXOR);
    for (int odd = 0; odd < ranks(); ++odd) {
      uint64_t lost = 0, doubled = 0;
      for (uint64_t k = 0; k < kCount; ++k) {
        std::vector<Bits> without;
        for (int rank = 0; rank < ranks(); ++rank)
          if (rank != odd) without.push_back(inputs[static_cast<size_t>(rank)][k]);
        Bits result = without[0];
        for (size_t index = 1; index < without.size(); ++index) result = combine<Traits>(result, without[index], op());
        const Bits own = inputs[static_cast<size_t>(odd)][k];
        const Bits all = combine<Traits>(result, own, op());
        lost += result != all;
        doubled += combine<Traits>(all, own, op()) != all;
      }
      EXPECT_GT(lost, 0u) << "rank " << odd << " does not matter";
      if (!idempotent) {
        EXPECT_GT(doubled, 0u) << "rank " << odd << " may count twice";
      }
    }
    EXPECT_EQ(expected.size(), kCount);
  });
}

TEST_P(Generator, values_differ_between_elements_and_stay_finite) {
  with_element(type(), [&](auto traits) {
    using Traits = decltype(traits);
    using Bits = typename Traits::Bits;
    const auto expected = generated<Bits>(type(), segment(Pattern::reduce_expected, op(), 0, ranks()));
    const size_t wanted = Traits::kLogical ? 1 : sizeof(Bits) == 1 ? 10 : 50;
    EXPECT_GT(std::set<Bits>(expected.begin(), expected.end()).size(), wanted);
    if constexpr (Traits::kFloat) {
      for (Bits bits : expected) ASSERT_TRUE(std::isfinite(Traits::decode(bits)));
    }
  });
}

std::vector<tutti_dtype> types() {
  std::vector<tutti_dtype> result;
  for (const NamedType& type : named_types()) result.push_back(type.type);
  return result;
}

std::vector<Case> reducible_cases() {
  std::vector<Case> cases;
  for (const tutti_dtype type : types())
    for (const NamedOp& op : named_ops())
      for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17})
        if (!op.premultiplied && is_reducible(type, op.op)) cases.emplace_back(type, op.op, ranks);
  return cases;
}

std::vector<tutti_dtype> multipliable_types() {
  std::vector<tutti_dtype> result;
  for (const tutti_dtype type : types())
    if (is_reducible(type, TUTTI_SUM, true)) result.push_back(type);
  return result;
}

class GeneratorMulSum : public testing::TestWithParam<std::tuple<tutti_dtype, int>> {};

TEST_P(GeneratorMulSum, is_exact_in_any_order_and_needs_every_multiplier) {
  const auto [type, ranks] = GetParam();
  with_element(type, [type = type, ranks = ranks](auto traits) {
    using Traits = decltype(traits);
    using Bits = typename Traits::Bits;
    std::vector<std::vector<Bits>> inputs;
    for (int rank = 0; rank < ranks; ++rank)
      inputs.push_back(generated<Bits>(type, segment(Pattern::reduce_input, TUTTI_SUM, rank, ranks, true)));
    const auto expected = generated<Bits>(type, segment(Pattern::reduce_expected, TUTTI_SUM, 0, ranks, true));
    const auto multiplied = [&](size_t rank, uint64_t k, int by) {
      const Bits input = inputs[rank][k];
      if constexpr (Traits::kFloat) return Traits::encode(Traits::decode(input) * by);
      return static_cast<Bits>(uint64_t{input} * static_cast<uint64_t>(by));
    };
    std::mt19937 random(5);
    std::vector<size_t> order(inputs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<uint64_t> matters(inputs.size(), 0);
    for (uint64_t k = 0; k < kCount; ++k) {
      std::shuffle(order.begin(), order.end(), random);
      Bits sum = 0;
      for (const size_t rank : order)
        sum = combine<Traits>(sum, multiplied(rank, k, premultiplier(static_cast<int>(rank))), TUTTI_SUM);
      ASSERT_EQ(sum, expected[k]) << "element " << k;
      for (size_t rank = 0; rank < inputs.size(); ++rank)
        matters[rank] += multiplied(rank, k, 1) != multiplied(rank, k, 2);
    }
    for (size_t rank = 0; rank < inputs.size(); ++rank) EXPECT_GT(matters[rank], 0u) << "rank " << rank;
  });
}

INSTANTIATE_TEST_SUITE_P(TypesRanks, GeneratorMulSum,
                         testing::Combine(testing::ValuesIn(multipliable_types()),
                                          testing::Values(2, 3, 4, 5, 8, 9, 16, 17)));

std::string op_name(tutti_op wanted) {
  for (const NamedOp& op : named_ops())
    if (op.op == wanted) return op.name;
  return "unknown";
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return named_types()[static_cast<size_t>(std::get<0>(info.param))].name + "_" + op_name(std::get<1>(info.param)) +
         "_" + std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(TypesOpsRanks, Generator, testing::ValuesIn(reducible_cases()), case_name);

TEST(GeneratorSum, more_ranks_than_units_stay_exact) {
  // bfloat16 has 256 units: with 600 ranks every third holds something.
  using Traits = Element<TUTTI_BFLOAT16>;
  constexpr int kRanks = 600;
  std::vector<double> sums(kCount, 0.0);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto input = generated<uint16_t>(TUTTI_BFLOAT16, segment(Pattern::reduce_input, TUTTI_SUM, rank, kRanks));
    for (uint64_t k = 0; k < kCount; ++k) {
      sums[k] += Traits::decode(input[k]);
      ASSERT_EQ(Traits::decode(Traits::encode(sums[k])), sums[k]);
    }
  }
  const auto expected = generated<uint16_t>(TUTTI_BFLOAT16, segment(Pattern::reduce_expected, TUTTI_SUM, 0, kRanks));
  for (uint64_t k = 0; k < kCount; ++k) ASSERT_EQ(Traits::encode(sums[k]), expected[k]);
}

TEST(GeneratorSum, both_signs_appear) {
  const auto input = generated<uint32_t>(TUTTI_FLOAT32, segment(Pattern::reduce_input, TUTTI_SUM, 1, 4));
  const auto negative = std::count_if(input.begin(), input.end(), [](uint32_t bits) { return bits >> 31 != 0; });
  EXPECT_GT(negative, 100);
  EXPECT_LT(negative, 300);
}

TEST(GeneratorUntouched, is_what_a_buffer_holds_before) {
  for (const NamedType& type : named_types()) {
    const Segment wanted = segment(Pattern::untouched, TUTTI_SUM, 3, 1);
    std::vector<char> buffer(kCount * 8, '\0');
    fill(type.type, {wanted}, buffer.data());
    const auto end = buffer.begin() + static_cast<std::ptrdiff_t>(kCount * element_bytes(type.type));
    EXPECT_TRUE(std::all_of(buffer.begin(), end, [](char byte) { return byte == static_cast<char>(kUntouchedByte); }));
  }
}

TEST(GeneratorCopy, floats_are_finite_and_ranks_differ) {
  const auto first = generated<uint32_t>(TUTTI_FLOAT32, segment(Pattern::copy, TUTTI_SUM, 0, 1));
  const auto second = generated<uint32_t>(TUTTI_FLOAT32, segment(Pattern::copy, TUTTI_SUM, 1, 1));
  uint64_t equal = 0;
  for (uint64_t k = 0; k < kCount; ++k) {
    EXPECT_TRUE(std::isfinite(std::bit_cast<float>(first[k])));
    equal += first[k] == second[k];
  }
  EXPECT_LT(equal, 3u);
}

TEST(GeneratorCopy, pieces_make_the_whole) {
  const Segment wanted = segment(Pattern::copy, TUTTI_SUM, 3, 1);
  const auto whole = generated<uint16_t>(TUTTI_FLOAT16, wanted);
  std::vector<uint16_t> pieces(kCount);
  generate(TUTTI_FLOAT16, wanted, 0, 150, pieces.data());
  generate(TUTTI_FLOAT16, wanted, 150, kCount - 150, pieces.data() + 150);
  EXPECT_EQ(whole, pieces);
}

TEST(GeneratorFill, segments_follow_each_other_at_any_alignment) {
  const Segment first = segment(Pattern::copy, TUTTI_SUM, 0, 1);
  Segment second = segment(Pattern::zero, TUTTI_SUM, 0, 1);
  second.count = 5;
  std::vector<char> buffer(1 + (kCount + 5) * 8, '\x55');
  fill(TUTTI_INT64, {first, second}, buffer.data() + 1);
  const auto expected = generated<uint64_t>(TUTTI_INT64, first);
  EXPECT_EQ(std::memcmp(buffer.data() + 1, expected.data(), kCount * 8), 0);
  for (size_t k = 1 + kCount * 8; k < buffer.size(); ++k) EXPECT_EQ(buffer[k], 0);
  EXPECT_EQ(element_count({first, second}), kCount + 5);
}

}  // namespace
}  // namespace tutti::perf
