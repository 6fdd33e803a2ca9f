// SPDX-License-Identifier: Apache-2.0
#include "perf/common/element.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tutti::perf {
namespace {

using Half = Element<TUTTI_FLOAT16>;
using Bfloat = Element<TUTTI_BFLOAT16>;

TEST(Element, half_known_values) {
  EXPECT_EQ(Half::encode(1.0), 0x3c00);
  EXPECT_EQ(Half::encode(-2.0), 0xc000);
  EXPECT_EQ(Half::encode(65504.0), 0x7bff);
  EXPECT_EQ(Half::encode(65520.0), 0x7c00);  // half a unit above the largest: ties to even, infinity
  EXPECT_EQ(Half::encode(65519.0), 0x7bff);
  EXPECT_EQ(Half::encode(1e9), 0x7c00);
  EXPECT_EQ(Half::encode(std::nan("")), 0x7e00);
  EXPECT_EQ(Half::encode(-0.0), 0x8000);
}

TEST(Element, half_subnormals) {
  EXPECT_EQ(Half::encode(power_of_two(-14)), 0x0400);
  EXPECT_EQ(Half::encode(power_of_two(-15)), 0x0200);
  EXPECT_EQ(Half::encode(power_of_two(-24)), 0x0001);
  EXPECT_EQ(Half::encode(power_of_two(-25)), 0x0000);        // tie to even
  EXPECT_EQ(Half::encode(power_of_two(-25) * 1.5), 0x0001);  // above the tie
  EXPECT_EQ(Half::encode(power_of_two(-26)), 0x0000);
}

TEST(Element, rounds_ties_to_even) {
  EXPECT_EQ(Half::encode(1 + power_of_two(-11)), 0x3c00);
  EXPECT_EQ(Half::encode(1 + 3 * power_of_two(-11)), 0x3c02);
  EXPECT_EQ(Half::encode(1 + power_of_two(-11) + power_of_two(-30)), 0x3c01);
  EXPECT_EQ(Bfloat::encode(1.0), 0x3f80);
  EXPECT_EQ(Bfloat::encode(1 + power_of_two(-8)), 0x3f80);
  EXPECT_EQ(Bfloat::encode(1 + 3 * power_of_two(-8)), 0x3f82);
}

template <class Traits>
void every_pattern_survives() {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const double value = Traits::decode(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(Traits::encode(value), bits) << value;
  }
}
TEST(Element, half_round_trip) { every_pattern_survives<Half>(); }
TEST(Element, bfloat16_round_trip) { every_pattern_survives<Bfloat>(); }

TEST(Element, bfloat16_is_the_upper_half_of_float) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto wide = std::bit_cast<float>(bits << 16);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(Bfloat::decode(static_cast<uint16_t>(bits)), static_cast<double>(wide));
  }
}

TEST(Element, e4m3_saturates_and_e5m2_has_infinity) {
  using E4m3 = Element<TUTTI_FLOAT8_E4M3>;
  using E5m2 = Element<TUTTI_FLOAT8_E5M2>;
  EXPECT_EQ(E4m3::encode(1.0), 0x38);
  EXPECT_EQ(E4m3::encode(-448.0), 0xfe);
  EXPECT_EQ(E4m3::encode(464.0), 0x7e);
  EXPECT_EQ(E4m3::encode(1e9), 0x7e);
  EXPECT_EQ(E4m3::encode(HUGE_VAL), 0x7e);
  EXPECT_EQ(E4m3::encode(power_of_two(-9)), 0x01);
  EXPECT_EQ(E4m3::encode(power_of_two(-10)), 0x00);  // tie to even
  EXPECT_TRUE(std::isnan(E4m3::decode(0x7f)) && std::isnan(E4m3::decode(0xff)));
  EXPECT_EQ(E4m3::decode(0x78), 256.0);
  EXPECT_EQ(E5m2::encode(57344.0), 0x7b);
  EXPECT_EQ(E5m2::encode(61439.0), 0x7b);
  EXPECT_EQ(E5m2::encode(61440.0), 0x7c);
  EXPECT_EQ(E5m2::encode(-HUGE_VAL), 0xfc);
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<uint8_t>(bits);
    const double e4m3 = E4m3::decode(code), e5m2 = E5m2::decode(code);
    EXPECT_TRUE(std::isnan(e4m3) || E4m3::encode(e4m3) == code) << bits;
    EXPECT_TRUE(std::isnan(e5m2) || E5m2::encode(e5m2) == code) << bits;
  }
}

TEST(Element, reducible_pairs) {
  EXPECT_FALSE(is_reducible(TUTTI_BOOL, TUTTI_AVG) || is_reducible(TUTTI_FLOAT8_E5M2, TUTTI_BAND));
  EXPECT_FALSE(is_reducible(TUTTI_BOOL, TUTTI_SUM, true));
  EXPECT_TRUE(is_reducible(TUTTI_BOOL, TUTTI_BXOR) && is_reducible(TUTTI_INT8, TUTTI_BOR));
}

TEST(Element, describes_value_and_bits) {
  const float one_and_a_half = 1.5f;
  const int8_t minus_one = -1;
  const uint64_t largest = ~uint64_t{0};
  EXPECT_EQ(describe_element(TUTTI_FLOAT32, &one_and_a_half), "1.5 (0x3fc00000)");
  EXPECT_EQ(describe_element(TUTTI_INT8, &minus_one), "-1 (0xff)");
  EXPECT_EQ(describe_element(TUTTI_UINT64, &largest), "18446744073709551615 (0xffffffffffffffff)");
}

TEST(Element, bytes_agree_with_the_table) {
#define X(name, ENUMERATOR, bytes, value) EXPECT_EQ(element_bytes(TUTTI_##ENUMERATOR), size_t{bytes});
#include "tutti/dtypes.def"
#undef X
  EXPECT_TRUE(is_floating(TUTTI_BFLOAT16));
  EXPECT_FALSE(is_floating(TUTTI_UINT8));
}

}  // namespace
}  // namespace tutti::perf
