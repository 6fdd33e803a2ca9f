// SPDX-License-Identifier: Apache-2.0
// Allocated and registered buffers: the same results in every mix.
#include <algorithm>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Buffer;
using tutti::Code;
using tutti::Communicator;

TEST(Memory, allocated_memory_is_page_aligned_and_usable) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{3} << 20}) {
    auto buffer = Buffer<std::uint32_t>::make(count);
    ASSERT_STATUS_OK(buffer.status());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 4096, 0u);
    EXPECT_EQ(buffer->size(), count);
    std::fill(buffer->begin(), buffer->end(), 0xdeadbeefu);
    EXPECT_EQ((*buffer)[count - 1], 0xdeadbeefu);
  }
}

TEST(Memory, nothing_and_too_much) {
  const auto nothing = Buffer<int>::make(0);
  EXPECT_STATUS_OK(nothing.status());
  EXPECT_EQ(Buffer<double>::make(SIZE_MAX / 4).code(), Code::invalid_argument);
  const auto huge = Buffer<std::byte>::make(std::size_t{1} << 60);
  EXPECT_FALSE(huge.is_ok());
  EXPECT_NE(huge.text(), "");
}

TEST(Memory, freed_memory_is_used_again) {
  spawn(1, [](Communicator&) {
    for (int i = 0; i < 300; ++i) {
      auto buffer = Buffer<std::byte>::make(8 << 20);  // 2.4 GB in all: must be returned
      ASSERT_STATUS_OK(buffer.status());
      buffer->data()[i] = std::byte{1};
    }
  });
}

TEST(Memory, freeing_twice_is_refused) {
  void* pointer = nullptr;
  ASSERT_EQ(tutti_alloc(100, &pointer), TUTTI_OK);
  EXPECT_EQ(tutti_free(pointer), TUTTI_OK);
  EXPECT_EQ(tutti_free(pointer), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_free(nullptr), TUTTI_OK);
}

/// Which ranks use which memory: bit r of `allocated` and of `registered`.
void reduce_with(Communicator& comm, unsigned allocated, unsigned registered, std::size_t count) {
  const auto bit = 1u << comm.rank();
  std::vector<float> plain(allocated & bit ? 0 : 2 * count);
  Buffer<float> own;
  if (allocated & bit) own = Buffer<float>::make(2 * count).value();
  float* memory = allocated & bit ? own.data() : plain.data();
  const std::span in(memory, count), out(memory + count, count);
  tutti::Registration registration;
  if (registered & bit) registration = comm.register_buffer(memory, 2 * count * sizeof(float)).value();
  for (int round = 0; round < 4; ++round) {
    std::fill(in.begin(), in.end(), static_cast<float>(comm.rank() + round));
    std::fill(out.begin(), out.end(), -1.0f);
    const float expected = static_cast<float>(comm.ranks() * (comm.ranks() - 1) / 2 + comm.ranks() * round);
    if (round % 2 == 0) {
      ASSERT_STATUS_OK(comm.all_reduce(in, out));
      ASSERT_TRUE(std::all_of(out.begin(), out.end(), [=](float x) { return x == expected; }));
      ASSERT_EQ(in[count - 1], static_cast<float>(comm.rank() + round));
    } else {
      ASSERT_STATUS_OK(comm.all_reduce(in));
      ASSERT_TRUE(std::all_of(in.begin(), in.end(), [=](float x) { return x == expected; }));
    }
  }
}

TEST(Memory, every_mix_of_registered_and_plain_buffers_gives_the_same_results) {
  for (const std::size_t count : {2u, 3000u, 300001u})
    for (unsigned allocated = 0; allocated < 8; ++allocated)
      for (const unsigned registered : {0u, allocated, 7u})
        spawn(3, [=](Communicator& comm) { reduce_with(comm, allocated, registered, count); });
}

TEST(Memory, a_registration_ends_before_the_memory_goes) {
  spawn(2, [](Communicator& comm) {
    for (int i = 0; i < 50; ++i) {
      auto buffer = Buffer<int>::make(10000).value();
      auto registration = comm.register_buffer(buffer).value();
      std::fill(buffer.begin(), buffer.end(), i);
      ASSERT_STATUS_OK(comm.all_reduce(buffer));
      ASSERT_EQ(buffer[9999], 2 * i);
    }
  });
}

TEST(Memory, still_registered_memory_is_not_freed) {
  spawn(1, [](Communicator& comm) {
    void* pointer = nullptr;
    ASSERT_EQ(tutti_alloc(5000, &pointer), TUTTI_OK);
    tutti_registration* registration = nullptr;
    ASSERT_EQ(tutti_register_buffer(comm.handle(), pointer, 5000, &registration), TUTTI_OK);
    EXPECT_EQ(tutti_free(pointer), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(tutti_deregister_buffer(registration), TUTTI_OK);
    EXPECT_EQ(tutti_free(pointer), TUTTI_OK);
    EXPECT_EQ(tutti_deregister_buffer(nullptr), TUTTI_OK);
  });
}

}  // namespace
}  // namespace api_test
