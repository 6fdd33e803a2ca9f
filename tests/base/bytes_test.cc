// SPDX-License-Identifier: Apache-2.0
#include "src/base/bytes.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

TEST(Bytes, reads_back_what_was_written_in_little_endian_order) {
  ByteWriter writer;
  writer.write<std::uint16_t>(0x0201);
  writer.write<std::int64_t>(-5);
  writer.write_text("abc");
  EXPECT_EQ(writer.buffer().substr(0, 2), std::string("\x01\x02"));
  ByteReader reader(writer.buffer());
  EXPECT_EQ(reader.read<std::uint16_t>(), 0x0201);
  EXPECT_EQ(reader.read<std::int64_t>(), -5);
  EXPECT_EQ(reader.read_text(100), "abc");
  EXPECT_TRUE(reader.finished());
}

TEST(Bytes, every_truncation_fails_and_reads_zero) {
  ByteWriter writer;
  writer.write<std::uint32_t>(7);
  writer.write_text("hello");
  for (std::size_t length = 0; length < writer.buffer().size(); ++length) {
    // A copy of exactly this length: a read past the end is an error under the address sanitizer.
    const std::string piece(writer.buffer(), 0, length);
    ByteReader reader(piece);
    const auto number = reader.read<std::uint32_t>();
    if (length < 4) {
      EXPECT_EQ(number, 0U);
    }
    EXPECT_EQ(reader.read_text(100), "");
    EXPECT_FALSE(reader.ok()) << length;
    EXPECT_EQ(reader.read<std::uint8_t>(), 0);
    EXPECT_FALSE(reader.finished());
  }
}

TEST(Bytes, refuses_texts_over_the_limit_and_leftovers) {
  ByteWriter writer;
  writer.write_text("abcdef");
  ByteReader limited(writer.buffer());
  EXPECT_EQ(limited.read_text(5), "");
  EXPECT_FALSE(limited.ok());
  ByteReader leftover(writer.buffer());
  leftover.read<std::uint32_t>();
  EXPECT_TRUE(leftover.ok());
  EXPECT_FALSE(leftover.finished());
}

}  // namespace
}  // namespace tutti::core
