// SPDX-License-Identifier: Apache-2.0
#include "src/exec/control.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace tutti::core {
namespace {

CallDescriptor::Content content_of(std::uint64_t number) {
  return {number * 3 + 1,
          number * 5,
          number * 7,
          number * 11,
          {static_cast<std::uint32_t>(number), 2, number * 13},
          {1, static_cast<std::uint32_t>(number), number * 17},
          0,
          number * 19};
}

TEST(CallDescriptor, gives_back_what_was_written_for_that_operation_only) {
  auto descriptor = std::make_unique<CallDescriptor>();
  CallDescriptor::Content read;
  EXPECT_FALSE(descriptor->read(0, read));
  descriptor->write(5, content_of(5));
  EXPECT_FALSE(descriptor->read(4, read));
  EXPECT_FALSE(descriptor->read(5 + kDescriptors, read));
  ASSERT_TRUE(descriptor->read(5, read));
  EXPECT_EQ(read.fingerprint, 16u);
  EXPECT_EQ(read.tag, 55u);
  EXPECT_EQ(read.input.registration, 5u);
  EXPECT_EQ(read.input.offset, 65u);
  EXPECT_EQ(read.output.generation, 5u);
  EXPECT_EQ(read.weighted_count, 95u);
  descriptor->write(5 + kDescriptors, content_of(5 + kDescriptors));
  EXPECT_FALSE(descriptor->read(5, read)) << "forgotten";
}

// A reader that is late by 64 operations gets the old call or none, never a mix: a mix would be taken for a mismatch.
TEST(CallDescriptor, is_never_read_half_written) {
  auto descriptor = std::make_unique<CallDescriptor>();
  constexpr std::uint64_t kCalls = 200'000;
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kCalls; ++i) descriptor->write(i * kDescriptors, content_of(i * kDescriptors));
  });
  std::uint64_t last = 0;
  while (last < kCalls - 1) {
    CallDescriptor::Content read;
    const std::uint64_t sequence = descriptor->sequence.load();
    if (sequence == 0 || !descriptor->read(sequence - 1, read)) continue;
    last = (sequence - 1) / kDescriptors;
    const CallDescriptor::Content expected = content_of(sequence - 1);
    ASSERT_EQ(read.fingerprint, expected.fingerprint);
    ASSERT_EQ(read.count, expected.count);
    ASSERT_EQ(read.call, expected.call);
    ASSERT_EQ(read.tag, expected.tag);
    ASSERT_EQ(read.input.offset, expected.input.offset);
    ASSERT_EQ(read.output.offset, expected.output.offset);
    ASSERT_EQ(read.output.generation, expected.output.generation);
    ASSERT_EQ(read.weighted_count, expected.weighted_count);
  }
  writer.join();
}

TEST(Verdict, packs_code_culprit_and_author) {
  for (const int culprit : {-1, 0, 1, 1048575})
    for (const int author : {0, 77, 1048575}) {
      const std::uint64_t word = pack_verdict(TUTTI_PEER_LOST, culprit, author);
      EXPECT_NE(word, 0u);
      EXPECT_EQ(verdict_code(word), TUTTI_PEER_LOST);
      EXPECT_EQ(verdict_culprit(word), culprit);
      EXPECT_EQ(verdict_author(word), author);
    }
}

}  // namespace
}  // namespace tutti::core
