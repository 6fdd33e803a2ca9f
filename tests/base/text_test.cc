// SPDX-License-Identifier: Apache-2.0
#include "src/base/text.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Text, parses_bytes) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("128K"), 131072);
  EXPECT_EQ(parse_bytes("1.5m"), 1572864);
  EXPECT_EQ(parse_bytes("2GiB"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "K", "-1", "1.5", "12X", "9223372036854775808", "1e3", " 4", "99999999999T"})
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
}

TEST(Text, parses_durations) {
  EXPECT_EQ(parse_duration_ns("300s"), 300 * kSecond);
  EXPECT_EQ(parse_duration_ns("8"), 8 * kSecond);
  EXPECT_EQ(parse_duration_ns("1.5s"), 3 * kSecond / 2);
  EXPECT_EQ(parse_duration_ns("50ms"), 50'000'000);
  EXPECT_EQ(parse_duration_ns("20us"), 20'000);
  EXPECT_EQ(parse_duration_ns("5m"), 300 * kSecond);
  EXPECT_EQ(parse_duration_ns("2h"), 7200 * kSecond);
  EXPECT_EQ(parse_duration_ns("1d"), 86400 * kSecond);
  for (const char* bad : {"", "s", "-1s", "5 s", "3x", "99999999999999s", "nan"})
    EXPECT_EQ(parse_duration_ns(bad), std::nullopt) << bad;
}

TEST(Text, parses_integers_and_booleans_whole) {
  EXPECT_EQ(parse_int("-17"), -17);
  for (const char* bad : {"", "1x", "x", "1.0", "+1", "9223372036854775808"})
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
  EXPECT_EQ(parse_bool("Yes"), true);
  EXPECT_EQ(parse_bool("off"), false);
  EXPECT_EQ(parse_bool("2"), std::nullopt);
}

TEST(Text, shortest_exact_form_reads_back) {
  EXPECT_EQ(bytes_text(131072), "128K");
  EXPECT_EQ(bytes_text(std::int64_t{1} << 30), "1G");
  EXPECT_EQ(bytes_text(1000), "1000");
  EXPECT_EQ(bytes_text(0), "0");
  EXPECT_EQ(duration_text(300 * kSecond), "300s");
  EXPECT_EQ(duration_text(1'500'000), "1500us");
  for (const std::int64_t value : {std::int64_t{1}, std::int64_t{4097}, std::int64_t{3} << 21, std::int64_t{7} << 40}) {
    EXPECT_EQ(parse_bytes(bytes_text(value)), value);
    EXPECT_EQ(parse_duration_ns(duration_text(value)), value);
  }
}

TEST(Text, splits_and_trims) {
  EXPECT_EQ(split(" a, b ,,c,", ','), (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(trim(" \t x y\n"), "x y");
  EXPECT_EQ(trim("  "), "");
}

TEST(Text, edit_distance_counts_swaps_of_neighbours_once) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("TUTTI_LANES", "TUTTI_LNAES"), 1);
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

TEST(Text, nearest_name_offers_only_what_is_near) {
  EXPECT_EQ(nearest_name("lane", {"lanes", "rank"}), "lanes");
  EXPECT_EQ(nearest_name("zzzzzz", {"lanes", "rank"}), std::nullopt);
}

TEST(Text, formats_beyond_the_inner_buffer) {
  EXPECT_EQ(text_format("%d-%s", 7, "x"), "7-x");
  EXPECT_EQ(text_format("%s", std::string(1000, 'y').c_str()), std::string(1000, 'y'));
  EXPECT_EQ(text_format("%255s", "z").size(), 255U);
  EXPECT_EQ(text_format("%256s", "z").size(), 256U);
}

}  // namespace
}  // namespace tutti::core
