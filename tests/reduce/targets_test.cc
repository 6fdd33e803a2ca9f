// SPDX-License-Identifier: Apache-2.0
// Every SIMD target gives the bits of the scalar one: all types, operators, source counts, lengths around every vector
// and block boundary, alignments, aliasing and flags.
#include <gtest/gtest.h>

#include <string>

#include "tests/reduce/reduce_testing.h"

namespace tutti::core {
namespace {

constexpr std::size_t kGuard = 64;  // bytes on both sides that no kernel may touch

struct Setting {
  tutti_dtype type;
  tutti_op op;
  int source_count;
  std::size_t count;
  int alias;  ///< source that is the destination as well; -1: none
  int raw_source;
  std::uint64_t divisor;
  bool final;
};

std::string describe(const Setting& s) {
  return std::string(dtype_name(s.type)) + " " + std::string(op_name(s.op)) + " sources " +
         std::to_string(s.source_count) + " count " + std::to_string(s.count) + " alias " + std::to_string(s.alias) +
         " raw " + std::to_string(s.raw_source) + " divisor " + std::to_string(s.divisor) + " final " +
         std::to_string(s.final);
}

/// Sources and destination in one arena, at odd offsets, with guards between them.
class Arena {
 public:
  Arena(const Setting& setting, OperandSource& operands) : setting_(setting) {
    const std::size_t bytes = setting.count * dtype_bytes(setting.type);
    std::size_t offset = kGuard;
    for (int k = 0; k <= setting.source_count; ++k) {
      offset += static_cast<std::size_t>(operands.below(64));
      offsets_.push_back(offset);
      offset += bytes + kGuard;
    }
    memory_.resize(offset);
    for (char& byte : memory_) byte = static_cast<char>(operands.word());
    for (std::size_t at : offsets_) operands.fill(setting.type, memory_.data() + at, setting.count);
  }

  /// The whole arena after the call; operands and guards are part of what must agree.
  std::vector<char> run(ReduceKernel kernel) const {
    std::vector<char> memory = memory_;
    std::vector<const void*> sources;
    for (int k = 0; k < setting_.source_count; ++k)
      sources.push_back(memory.data() + offsets_[static_cast<std::size_t>(k)]);
    kernel(ReduceArgs{.destination = memory.data() + destination_offset(),
                      .sources = sources.data(),
                      .source_count = setting_.source_count,
                      .count = setting_.count,
                      .raw_source = setting_.raw_source,
                      .scale = factor(),
                      .divisor = setting_.divisor,
                      .final = setting_.final});
    return memory;
  }
  static Factor factor() {
    Factor factor = 1.0 / 3;
    factor.integer = 0xfedcba9876543211u;
    return factor;
  }
  std::size_t destination_offset() const {
    return offsets_[static_cast<std::size_t>(setting_.alias < 0 ? setting_.source_count : setting_.alias)];
  }
  const std::vector<char>& before() const { return memory_; }

 private:
  Setting setting_;
  std::vector<std::size_t> offsets_;
  std::vector<char> memory_;
};

void expect_same_bits(const Setting& setting, OperandSource& operands) {
  const Arena arena(setting, operands);
  const std::size_t bytes = dtype_bytes(setting.type), begin = arena.destination_offset();
  const std::size_t end = begin + setting.count * bytes;
  const std::vector<char> expected = arena.run(find_reduce_kernel(setting.type, setting.op, SimdTarget::scalar));
  for (SimdTarget target : targets_of_this_machine()) {
    const std::vector<char> got = arena.run(find_reduce_kernel(setting.type, setting.op, target));
    for (std::size_t i = begin; i < end; i += bytes) {
      const std::uint64_t want = load_element(&expected[i], bytes), have = load_element(&got[i], bytes);
      ASSERT_TRUE(same_element(setting.type, want, have, setting.final))
          << simd_target_name(target) << ": " << describe(setting) << " element " << (i - begin) / bytes << std::hex
          << " scalar 0x" << want << " got 0x" << have;
    }
    const std::vector<char>& before = arena.before();
    ASSERT_EQ(std::memcmp(got.data(), before.data(), begin), 0)
        << simd_target_name(target) << ": " << describe(setting);
    ASSERT_EQ(std::memcmp(got.data() + end, before.data() + end, got.size() - end), 0)
        << simd_target_name(target) << ": " << describe(setting);
  }
}

constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17};

class ReduceTargets : public testing::TestWithParam<int> {
 protected:
  tutti_dtype type() const { return static_cast<tutti_dtype>(GetParam()); }
  std::uint64_t divisor(OperandSource& operands) const {
    return is_float(type()) ? 0 : static_cast<std::uint64_t>(operands.below(12));
  }
};

TEST_P(ReduceTargets, agree_on_every_length_with_random_aliasing_and_flags) {
  OperandSource operands(static_cast<std::uint64_t>(GetParam()) + 100);
  // The widest register, the narrow one, and three single elements.
  const std::size_t longest = (64 + 16) / dtype_bytes(type()) + 3;
  for (tutti_op op : ops_of(type()))
    for (int source_count : kSourceCounts)
      for (std::size_t count = 0; count <= longest; ++count)
        for (int repeat = 0; repeat < 2; ++repeat) {
          expect_same_bits({type(), op, source_count, count, operands.below(source_count + 1) - 1,
                            operands.below(source_count + 1) - 1, divisor(operands), operands.below(2) == 1},
                           operands);
          if (HasFatalFailure()) return;
        }
}

TEST_P(ReduceTargets, agree_on_every_alias_and_raw_source) {
  OperandSource operands(static_cast<std::uint64_t>(GetParam()) + 200);
  for (tutti_op op : ops_of(type()))
    for (int source_count : kSourceCounts)
      for (int alias = -1; alias < source_count; ++alias)
        for (int raw_source = -1; raw_source < (op == TUTTI_SUM ? source_count : 0); ++raw_source)
          for (bool final : {false, true}) {
            expect_same_bits({type(), op, source_count, 37, alias, raw_source, divisor(operands), final}, operands);
            if (HasFatalFailure()) return;
          }
}

TEST_P(ReduceTargets, agree_across_blocks) {
  OperandSource operands(static_cast<std::uint64_t>(GetParam()) + 300);
  for (tutti_op op : ops_of(type()))
    for (int source_count : kSourceCounts)
      for (std::size_t count : {std::size_t{1000}, std::size_t{4096}, std::size_t{9001}}) {
        expect_same_bits({type(), op, source_count, count, operands.below(source_count + 1) - 1,
                          operands.below(source_count + 1) - 1, divisor(operands), operands.below(2) == 1},
                         operands);
        if (HasFatalFailure()) return;
      }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, ReduceTargets, testing::Range(0, static_cast<int>(TUTTI_DTYPE_COUNT)),
                         [](const testing::TestParamInfo<int>& parameter) {
                           return std::string(dtype_name(static_cast<tutti_dtype>(parameter.param)));
                         });

TEST(ReduceCopy, one_untouched_source_is_copied_bit_for_bit_and_may_be_the_destination) {
  // Signalling NaNs included: a copy is no arithmetic.
  OperandSource operands(5);
  for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type)
    for (SimdTarget target : targets_of_this_machine()) {
      std::vector<char> source(8 * 333 + 1), result(source.size());
      operands.fill(static_cast<tutti_dtype>(type), source.data(), 333);
      const std::vector<char> original = source;
      const std::size_t bytes = 333 * dtype_bytes(static_cast<tutti_dtype>(type));
      const ReduceKernel kernel = find_reduce_kernel(static_cast<tutti_dtype>(type), TUTTI_SUM, target);
      const void* pointer = source.data();
      kernel(ReduceArgs{.destination = result.data(), .sources = &pointer, .source_count = 1, .count = 333});
      EXPECT_EQ(std::memcmp(result.data(), original.data(), bytes), 0);
      EXPECT_EQ(result[bytes], 0);
      kernel(ReduceArgs{.destination = source.data(), .sources = &pointer, .source_count = 1, .count = 333});
      EXPECT_EQ(source, original);
    }
}

TEST(ReduceCopy, zero_elements_touch_nothing_not_even_null_pointers) {
  const void* sources[] = {nullptr, nullptr};
  for (SimdTarget target : targets_of_this_machine())
    for (int source_count : {1, 2})
      find_reduce_kernel(TUTTI_FLOAT16, TUTTI_SUM, target)(
          ReduceArgs{.destination = nullptr, .sources = sources, .source_count = source_count, .count = 0});
}

}  // namespace
}  // namespace tutti::core
