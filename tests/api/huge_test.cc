// SPDX-License-Identifier: Apache-2.0
// More than 2^32 bytes and elements in one operation: 2 ranks, threads of this process, in place, every byte compared.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Communicator;
using tutti::DataType;

constexpr int kRanks = 2;
/// A little more than 2^32, and no multiple of anything.
constexpr std::uint64_t kCount = (std::uint64_t{1} << 32) + 4099;
constexpr std::uint64_t kBlock = kCount / kRanks + 1;  // both blocks together: more than 2^32, too

/// Two buffers of 4.3 GB and what the rest of the machine needs.
constexpr std::uint64_t kNeededKib = std::uint64_t{14} << 20;

std::uint64_t available_kib() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word)
    if (word == "MemAvailable:") {
      std::uint64_t kib = 0;
      file >> kib;
      return kib;
    }
  return 0;
}

class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes, MADV_HUGEPAGE);  // advice: without it only slower
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(data_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::uint64_t kWord = 8;

/// Bytes [8 * word, 8 * word + 8) of what `rank` contributes: no two words of a buffer are equal.
std::uint64_t word_of(int rank, std::uint64_t word) {
  return (word * 2 + static_cast<std::uint64_t>(rank)) * 0x9e3779b97f4a7c15ULL;
}

/// Adds eight pairs of int8, each wrapping for itself.
std::uint64_t add_bytes(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kHigh = 0x8080808080808080ULL;
  return ((a & ~kHigh) + (b & ~kHigh)) ^ ((a ^ b) & kHigh);
}

void fill(std::byte* data, std::uint64_t bytes, int rank) {
  for (std::uint64_t word = 0; word * kWord < bytes; ++word) {
    const std::uint64_t value = word_of(rank, word);
    std::memcpy(data + word * kWord, &value, std::min(kWord, bytes - word * kWord));
  }
}

/// Compares with expected(word), word by word.
template <class Expected>
void compare(const std::byte* data, std::uint64_t bytes, Expected expected) {
  for (std::uint64_t word = 0; word * kWord < bytes; ++word) {
    const std::uint64_t wanted = expected(word);
    ASSERT_EQ(std::memcmp(data + word * kWord, &wanted, std::min(kWord, bytes - word * kWord)), 0)
        << "within the 8 bytes from " << word * kWord << " on, of " << bytes;
  }
}

class Huge : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::uint64_t kib = available_kib(); kib < kNeededKib)
      GTEST_SKIP() << "needs " << (kNeededKib >> 20) << " GiB of available memory; MemAvailable is " << (kib >> 20)
                   << " GiB";
  }
  static void run(const std::function<void(Communicator&)>& body) {
    spawn({.ranks = kRanks, .settings = "timeout=600s", .deadline = seconds(900)}, body);
  }
};

TEST_F(Huge, all_reduce_of_more_than_2_to_the_32_elements_in_place) {
  run([](Communicator& comm) {
    const Memory memory(kCount);
    fill(memory.data(), kCount, comm.rank());
    ASSERT_STATUS_OK(comm.all_reduce(memory.data(), memory.data(), kCount, DataType::int8));
    compare(memory.data(), kCount, [](std::uint64_t word) { return add_bytes(word_of(0, word), word_of(1, word)); });
  });
}

TEST_F(Huge, all_gather_of_more_than_2_to_the_32_bytes_in_place) {
  run([](Communicator& comm) {
    const Memory memory(kRanks * kBlock);
    std::byte* const own = memory.data() + kBlock * static_cast<std::uint64_t>(comm.rank());
    fill(own, kBlock, comm.rank());
    ASSERT_STATUS_OK(comm.all_gather(own, memory.data(), kBlock, DataType::int8));
    for (int rank = 0; rank < kRanks; ++rank)
      compare(memory.data() + kBlock * static_cast<std::uint64_t>(rank), kBlock,
              [rank](std::uint64_t word) { return word_of(rank, word); });
  });
}

// The second block lies beyond 2^32 elements of a sparse buffer; the first one is where the buffer begins.
TEST_F(Huge, blocks_beyond_2_to_the_32_elements) {
  run([](Communicator& comm) {
    constexpr std::uint64_t kLength = 100'003;
    const std::vector<std::uint64_t> counts{kLength, kLength}, places{0, kCount};
    const Memory in(kCount + kLength), out(kCount + kLength);
    for (std::size_t r = 0; r < kRanks; ++r) fill(in.data() + places[r], kLength, comm.rank());
    const tutti::Blocks blocks{counts, places};
    ASSERT_STATUS_OK(comm.all_to_all_v(in.data(), blocks, out.data(), blocks, DataType::int8));
    for (std::size_t r = 0; r < kRanks; ++r)
      compare(out.data() + places[r], kLength, [r](std::uint64_t word) { return word_of(static_cast<int>(r), word); });
  });
}

}  // namespace
}  // namespace api_test
