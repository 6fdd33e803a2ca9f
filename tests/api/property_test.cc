// SPDX-License-Identifier: Apache-2.0
// Laws between collectives, on random sizes, types and rows: no account of single results is needed to check them.
// --gtest_random_seed=N draws others; every failure says the seed.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/api/cases.h"

namespace api_test {
namespace {

using tutti::Blocks;
using tutti::Communicator;
using tutti::DataType;
using tutti::Op;

/// Random numbers that are the same on every rank.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t limit) { return mix(seed_, ++throws_, 41) % limit; }
  bool heads() { return below(2) == 0; }
  int rank(int ranks) { return static_cast<int>(below(static_cast<std::uint64_t>(ranks))); }
  /// Often 0, mostly small, now and then more than a slot of the mailbox.
  std::uint64_t count() { return below(4) == 0 ? 0 : below(heads() ? 40 : 3000); }
  /// A row of `what` that runs over `ranks`.
  std::string row(tutti_collective what, int ranks) {
    while (true) {
      const std::string& row = rows_of(what)[below(rows_of(what).size())];
      if (runs_over(what, row, ranks)) return row;
    }
  }
  template <class T, std::size_t n>
  T one_of(const std::array<T, n>& list) {
    return list[below(n)];
  }

 private:
  std::uint64_t seed_, throws_ = 0;
};

void for_each_trial(int trials, const std::function<void(Communicator&, Dice&)>& trial) {
  const auto seed = static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed));
  for (int ranks = 2; ranks <= 9 && !::testing::Test::HasFailure(); ++ranks)
    spawn(ranks, [&](Communicator& comm) {
      for (int i = 0; i < trials && !::testing::Test::HasFatalFailure(); ++i) {
        SCOPED_TRACE("--gtest_random_seed=" + std::to_string(seed) + ", " + std::to_string(ranks) + " ranks, trial " +
                     std::to_string(i) + ", rank " + std::to_string(comm.rank()));
        Dice dice(mix(seed, static_cast<std::uint64_t>(ranks), static_cast<std::uint64_t>(i)));
        trial(comm, dice);
      }
    });
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Floats whose sum depends on the order: magnitudes between 2^-12 and 2^12, either sign.
template <class T>
std::vector<T> rough_floats(std::uint64_t seed, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix(seed, i, 5);
    const double size = std::ldexp(1.0 + static_cast<double>(word >> 12) * 0x1p-52, static_cast<int>(word % 25) - 12);
    values[i] = static_cast<T>((word >> 8 & 1) != 0 ? size : -size);
  }
  return values;
}

// ---- AllReduce = ReduceScatter, then AllGather ------------------------------------------------------------------

/// Rows that docs/determinism.md lists under one expression tree.
struct SameTree {
  std::string all_reduce, reduce_scatter;
};
const std::array<SameTree, 7>& rows_of_one_tree() {
  static const std::array<SameTree, 7> kPairs{{{"one_shot", "one_shot"},
                                               {"two_shot", "one_shot"},
                                               {"recursive_doubling", "balanced_tree"},
                                               {"halving_doubling", "balanced_tree"},
                                               {"balanced_tree", "balanced_tree"},
                                               {"recursive_doubling", "recursive_halving"},
                                               {"balanced_tree", "recursive_halving"}}};
  return kPairs;
}

template <class T>
struct Composed {
  std::vector<T> whole, parts;
};

/// The sum over all ranks in one operation and in two.
template <class T>
Composed<T> compose(Communicator& comm, const std::vector<T>& in, Op op, const SameTree& rows,
                    const std::string& gather) {
  Composed<T> result{std::vector<T>(in.size()), std::vector<T>(in.size())};
  std::vector<T> block(in.size() / index(comm.ranks()));
  EXPECT_STATUS_OK(comm.all_reduce(in, result.whole, op, {.algorithm = rows.all_reduce}));
  EXPECT_STATUS_OK(comm.reduce_scatter(in, block, op, {.algorithm = rows.reduce_scatter}));
  EXPECT_STATUS_OK(comm.all_gather(block, result.parts, {.algorithm = gather}));
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_same_tree(Communicator& comm, Dice& dice) {
  SameTree rows = dice.one_of(rows_of_one_tree());
  if (!runs_over(TUTTI_REDUCE_SCATTER, rows.reduce_scatter, comm.ranks())) rows.reduce_scatter = "balanced_tree";
  const std::string gather = dice.row(TUTTI_ALL_GATHER, comm.ranks());
  const std::size_t count = dice.count() * index(comm.ranks());
  const auto in = rough_floats<T>(mix(count, index(comm.rank())), count);
  const Composed<T> got = compose(comm, in, dice.heads() ? Op::sum : Op::avg, rows, gather);
  EXPECT_TRUE(same_bits(got.whole, got.parts))
      << rows.all_reduce << " against " << rows.reduce_scatter << " and " << gather << ", " << count << " elements";
}

TEST(Laws, all_reduce_is_reduce_scatter_and_all_gather_bit_for_bit_with_rows_of_one_tree) {
  for_each_trial(24, [](Communicator& comm, Dice& dice) {
    dice.heads() ? check_same_tree<float>(comm, dice) : check_same_tree<double>(comm, dice);
  });
}

TEST(Laws, the_floats_tell_trees_apart) {
  spawn(4, [](Communicator& comm) {
    const auto in = rough_floats<float>(index(comm.rank()), 4000);
    const Composed<float> got = compose(comm, in, Op::sum, {"ring", "balanced_tree"}, "ring");
    EXPECT_FALSE(same_bits(got.whole, got.parts));
  });
}

template <class T>
void check_integers(Communicator& comm, Dice& dice) {
  static constexpr std::array kOps{Op::sum, Op::prod, Op::min, Op::max, Op::avg, Op::band, Op::bor, Op::bxor};
  const SameTree rows{dice.row(TUTTI_ALL_REDUCE, comm.ranks()), dice.row(TUTTI_REDUCE_SCATTER, comm.ranks())};
  const std::string gather = dice.row(TUTTI_ALL_GATHER, comm.ranks());
  const Op op = dice.one_of(kOps);
  std::vector<T> in(dice.count() * index(comm.ranks()));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(mix(i, index(comm.rank()), 3));
  const Composed<T> got = compose(comm, in, op, rows, gather);
  EXPECT_EQ(got.whole, got.parts) << rows.all_reduce << " against " << rows.reduce_scatter << " and " << gather
                                  << ", operator " << static_cast<int>(op);
}

TEST(Laws, all_reduce_is_reduce_scatter_and_all_gather_of_integers_with_any_rows) {
  for_each_trial(24, [](Communicator& comm, Dice& dice) {
    switch (dice.below(3)) {
      case 0: return check_integers<std::int8_t>(comm, dice);
      case 1: return check_integers<std::int32_t>(comm, dice);
      default: return check_integers<std::uint64_t>(comm, dice);
    }
  });
}

// ---- AllToAll and its inverse -----------------------------------------------------------------------------------

/// Element `i` of what `from` has for `to`.
std::uint32_t item(int from, int to, std::uint64_t i) {
  return static_cast<std::uint32_t>(mix(index(from) * 64 + index(to), i, 17));
}

TEST(Laws, all_to_all_twice_is_the_identity) {
  for_each_trial(24, [](Communicator& comm, Dice& dice) {
    const std::uint64_t count = dice.count();
    std::vector<std::uint32_t> in;
    for (int to = 0; to < comm.ranks(); ++to)
      for (std::uint64_t i = 0; i < count; ++i) in.push_back(item(comm.rank(), to, i));
    std::vector<std::uint32_t> there(in.size()), back(in.size());
    ASSERT_STATUS_OK(comm.all_to_all(in, there, {.algorithm = dice.row(TUTTI_ALL_TO_ALL, comm.ranks())}));
    ASSERT_STATUS_OK(comm.all_to_all(there, back, {.algorithm = dice.row(TUTTI_ALL_TO_ALL, comm.ranks())}));
    EXPECT_EQ(back, in);
    if (count > 0) {
      EXPECT_NE(there, in);  // it was not the identity once
    }
  });
}

/// Blocks in a random order with random gaps; `size`: elements of a buffer for them.
struct Spread {
  std::vector<std::uint64_t> counts, displacements;
  std::size_t size = 0;
  Spread(Dice& dice, std::vector<std::uint64_t> wanted) : counts(std::move(wanted)), displacements(counts.size()) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.below(i)]);
    for (const std::size_t rank : order) {
      size += dice.below(3);
      displacements[rank] = size;
      size += counts[rank];
    }
  }
  Blocks blocks() const { return {counts, displacements}; }
};

TEST(Laws, all_to_all_v_undoes_itself_with_the_counts_exchanged) {
  for_each_trial(24, [](Communicator& comm, Dice& dice) {
    const std::size_t ranks = index(comm.ranks()), rank = index(comm.rank());
    std::vector<std::uint64_t> counts(ranks * ranks), sent, received;
    for (std::uint64_t& count : counts) count = dice.count() / 3;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      sent.push_back(counts[rank * ranks + peer]);
      received.push_back(counts[peer * ranks + rank]);
    }
    const std::string first = dice.row(TUTTI_ALL_TO_ALL_V, comm.ranks());
    const std::string second = dice.row(TUTTI_ALL_TO_ALL_V, comm.ranks());
    Dice own(mix(rank, counts[0], dice.below(1000)));  // displacements are each rank's affair
    const Spread here(own, sent), there(own, received);
    constexpr std::uint32_t kGap = 0xa5a5a5a5;
    std::vector<std::uint32_t> in(here.size, kGap), middle(there.size, kGap), back(here.size, kGap);
    for (std::size_t to = 0; to < ranks; ++to)
      for (std::uint64_t i = 0; i < sent[to]; ++i)
        in[here.displacements[to] + i] = item(comm.rank(), static_cast<int>(to), i);
    ASSERT_STATUS_OK(comm.all_to_all_v(in, here.blocks(), middle, there.blocks(), {.algorithm = first}));
    ASSERT_STATUS_OK(comm.all_to_all_v(middle, there.blocks(), back, here.blocks(), {.algorithm = second}));
    EXPECT_EQ(back, in);
    for (std::size_t from = 0; from < ranks; ++from)
      if (received[from] > 0) {
        EXPECT_EQ(middle[there.displacements[from]], item(static_cast<int>(from), comm.rank(), 0)) << "from " << from;
      }
  });
}

// ---- Gather and Scatter -----------------------------------------------------------------------------------------

TEST(Laws, gather_then_scatter_is_the_identity_for_any_root) {
  for_each_trial(24, [](Communicator& comm, Dice& dice) {
    const std::uint64_t count = dice.count();
    const int root = dice.rank(comm.ranks());
    std::vector<std::uint32_t> in(count), whole(comm.rank() == root ? count * index(comm.ranks()) : 0), out(count);
    for (std::uint64_t i = 0; i < count; ++i) in[i] = item(comm.rank(), root, i);
    ASSERT_STATUS_OK(comm.gather(in, whole, root, {.algorithm = dice.row(TUTTI_GATHER, comm.ranks())}));
    if (!whole.empty()) {
      EXPECT_EQ(whole.back(), item(comm.ranks() - 1, root, count - 1));
    }
    ASSERT_STATUS_OK(comm.scatter(whole, out, root, {.algorithm = dice.row(TUTTI_SCATTER, comm.ranks())}));
    EXPECT_EQ(out, in);
  });
}

// The root's own block stays where it is in half of the trials.
TEST(Laws, scatter_v_then_gather_v_is_the_identity_for_any_root) {
  for_each_trial(24, [](Communicator& comm, Dice& dice) {
    const int root = dice.rank(comm.ranks());
    std::vector<std::uint64_t> counts(index(comm.ranks()));
    for (std::uint64_t& count : counts) count = dice.count();
    const bool in_place = dice.heads();
    const std::string scatter = dice.row(TUTTI_SCATTER_V, comm.ranks());
    const std::string gather = dice.row(TUTTI_GATHER_V, comm.ranks());
    const bool at_root = comm.rank() == root;
    const Spread from(dice, counts);
    std::vector<std::uint32_t> whole(at_root ? from.size : 0), own(counts[index(comm.rank())]);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = item(root, 0, i);
    const std::vector<std::uint32_t> before = whole;
    const auto block =
        at_root && in_place ? std::span(whole).subspan(from.displacements[index(root)], own.size()) : std::span(own);
    ASSERT_STATUS_OK(comm.scatter_v(whole, block, from.blocks(), root, {.algorithm = scatter}));
    EXPECT_EQ(whole, before);
    // What lies between the blocks comes from nobody.
    for (std::size_t r = 0; at_root && r < counts.size(); ++r)
      if (!in_place || r != index(root))
        std::fill_n(whole.begin() + static_cast<std::ptrdiff_t>(from.displacements[r]), counts[r], 0u);
    ASSERT_STATUS_OK(comm.gather_v(block, whole, from.blocks(), root, {.algorithm = gather}));
    EXPECT_EQ(whole, before);
  });
}

TEST(Laws, all_gather_v_is_gather_v_and_broadcast) {
  for_each_trial(16, [](Communicator& comm, Dice& dice) {
    const int root = dice.rank(comm.ranks());
    std::vector<std::uint64_t> counts(index(comm.ranks()));
    for (std::uint64_t& count : counts) count = dice.count();
    const Blocks packed{counts};
    std::vector<std::uint32_t> in(counts[index(comm.rank())]), all(packed.extent()), parts(packed.extent());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = item(comm.rank(), 0, i);
    ASSERT_STATUS_OK(comm.all_gather_v(in, all, packed, {.algorithm = dice.row(TUTTI_ALL_GATHER_V, comm.ranks())}));
    ASSERT_STATUS_OK(comm.gather_v(in, parts, packed, root, {.algorithm = dice.row(TUTTI_GATHER_V, comm.ranks())}));
    ASSERT_STATUS_OK(comm.broadcast(parts, root, {.algorithm = dice.row(TUTTI_BROADCAST, comm.ranks())}));
    EXPECT_EQ(all, parts);
  });
}

}  // namespace
}  // namespace api_test
