// SPDX-License-Identifier: Apache-2.0
#include "src/comm/user_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transports/registry.h"

namespace tutti::core {
namespace {

class UserMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<Endpoint> endpoint_ = std::move(find_transport("shm")->make()).value();
  UserMemory memory_{*endpoint_};

  std::byte* allocate(std::size_t bytes) {
    auto pointer = memory_.allocate(bytes);
    EXPECT_TRUE(pointer.is_ok()) << pointer.status().to_string();
    return pointer.is_ok() ? static_cast<std::byte*>(*pointer) : nullptr;
  }
};

TEST_F(UserMemoryTest, allocates_zeroed_pages_of_their_own) {
  for (const std::size_t bytes : std::initializer_list<std::size_t>{0, 1, 4096, 4097, 3 << 20}) {
    std::byte* pointer = allocate(bytes);
    ASSERT_NE(pointer, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 4096, 0u) << bytes;
    for (std::size_t i = 0; i < bytes; i += 100) ASSERT_EQ(pointer[i], std::byte{0});
    std::memset(pointer, 1, bytes);
  }
  std::byte* a = allocate(1);
  std::byte* b = allocate(1);
  EXPECT_GE(a > b ? a - b : b - a, 4096);
}

TEST_F(UserMemoryTest, sizes_beyond_memory_are_errors) {
  for (const std::size_t bytes : std::initializer_list<std::size_t>{SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2})
    EXPECT_FALSE(memory_.allocate(bytes).is_ok()) << bytes;
}

TEST_F(UserMemoryTest, frees_what_it_gave_once) {
  std::byte* pointer = allocate(100);
  EXPECT_EQ(memory_.free(pointer + 1).code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_TRUE(memory_.free(pointer).is_ok());
  EXPECT_EQ(memory_.free(pointer).code(), TUTTI_INVALID_ARGUMENT);
  int local = 0;
  EXPECT_EQ(memory_.free(&local).code(), TUTTI_INVALID_ARGUMENT);
}

TEST_F(UserMemoryTest, registered_memory_is_not_freed) {
  std::byte* pointer = allocate(8192);
  const auto id = memory_.register_range(pointer + 4000, 200);
  ASSERT_TRUE(id.is_ok());
  const Status status = memory_.free(pointer);
  EXPECT_EQ(status.code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(status.remedy().find("deregister"), std::string::npos);
  EXPECT_TRUE(memory_.deregister(*id).is_ok());
  EXPECT_EQ(memory_.deregister(*id).code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_TRUE(memory_.free(pointer).is_ok());
}

TEST_F(UserMemoryTest, finds_the_registration_that_holds_a_whole_buffer) {
  EXPECT_TRUE(memory_.empty());
  std::byte* pointer = allocate(8192);
  const auto id = memory_.register_range(pointer + 100, 1000);
  ASSERT_TRUE(id.is_ok());
  EXPECT_FALSE(memory_.empty());
  const Announcement all = memory_.find(pointer + 100, 1000);
  EXPECT_EQ(all.registration, *id);
  EXPECT_NE(all.generation, 0u);
  const Announcement part = memory_.find(pointer + 600, 500);
  EXPECT_EQ(part.registration, *id);
  EXPECT_EQ(part.offset, all.offset + 500);
  EXPECT_EQ(part.generation, all.generation);
  EXPECT_EQ(memory_.find(pointer + 99, 1000).registration, 0u);
  EXPECT_EQ(memory_.find(pointer + 100, 1001).registration, 0u);
  EXPECT_EQ(memory_.find(pointer + 1099, 2).registration, 0u);
  EXPECT_EQ(memory_.find(pointer + 100, UINT64_MAX).registration, 0u) << "no wrap around the end of memory";
  EXPECT_TRUE(memory_.deregister(*id).is_ok());
  EXPECT_TRUE(memory_.empty());
  EXPECT_EQ(memory_.find(pointer + 100, 1).registration, 0u);
}

TEST_F(UserMemoryTest, memory_of_the_user_s_own_is_announced_as_not_mapped) {
  std::vector<std::byte> own(1000);
  const auto id = memory_.register_range(own.data(), own.size());
  ASSERT_TRUE(id.is_ok());
  const Announcement found = memory_.find(own.data() + 10, 10);
  EXPECT_EQ(found.registration, *id);
  EXPECT_EQ(found.offset, ~std::uint64_t{0});
  // Half in, half out of an allocation is not mapped either.
  std::byte* pointer = allocate(4096);
  const auto across = memory_.register_range(pointer + 4000, 1000);
  ASSERT_TRUE(across.is_ok());
  EXPECT_EQ(memory_.find(pointer + 4000, 10).offset, ~std::uint64_t{0});
}

TEST_F(UserMemoryTest, a_new_buffer_at_an_old_address_is_another_generation) {
  std::byte* first = allocate(4096);
  const auto old_id = memory_.register_range(first, 4096);
  const std::uint32_t generation = memory_.find(first, 4096).generation;
  ASSERT_TRUE(memory_.deregister(*old_id).is_ok());
  ASSERT_TRUE(memory_.free(first).is_ok());
  std::byte* second = allocate(4096);
  const auto new_id = memory_.register_range(second, 4096);
  EXPECT_NE(memory_.find(second, 4096).generation, generation);
  EXPECT_NE(*new_id, *old_id);
}

TEST_F(UserMemoryTest, malformed_ranges_are_refused) {
  std::byte* pointer = allocate(4096);
  EXPECT_EQ(memory_.register_range(pointer, 0).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(memory_.register_range(pointer, SIZE_MAX).status().code(), TUTTI_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tutti::core
