// SPDX-License-Identifier: Apache-2.0
#include "tests/api/cases.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace api_test {

namespace {

constexpr std::array kRanks{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17};
constexpr std::size_t kGuard = 128;
constexpr std::byte kUntouched{0xa5};

/// Boundaries of the library: ranks (chunks), 48 payload bytes of a line, 4 KiB slots, 64 and 128 KiB slices.
std::vector<std::uint64_t> boundary_counts(tutti_dtype type, int ranks) {
  const std::uint64_t bytes = tutti_dtype_bytes(type);
  const auto p = static_cast<std::uint64_t>(ranks);
  return {0,
          1,
          2,
          3,
          p - 1,
          p,
          p + 1,
          11,
          12,
          13,
          48 / bytes - 1,
          48 / bytes,
          48 / bytes + 1,
          4096 / bytes - 1,
          4096 / bytes,
          4096 / bytes + 1,
          65536 / bytes,
          131072 / bytes - 1,
          131072 / bytes,
          131072 / bytes + 1};
}
constexpr std::size_t kCounts = 20;

bool reduces(tutti_collective what) { return what == TUTTI_ALL_REDUCE || what == TUTTI_REDUCE_SCATTER; }

/// Sizes of the factors: type, op, ranks, count, in place, shift, algorithm, root.
constexpr std::size_t kFactors = 8;
using Choice = std::array<std::size_t, kFactors>;

Choice factor_sizes(tutti_collective what) {
  const bool barrier = what == TUTTI_BARRIER;
  return {barrier ? 1u : std::size_t{TUTTI_DTYPE_COUNT},
          reduces(what) ? std::size_t{TUTTI_OP_COUNT} : 1u,
          kRanks.size(),
          barrier ? 1u : kCounts,
          barrier ? 1u : 2u,
          barrier ? 1u : 3u,
          rows_of(what).size() + 1,
          what == TUTTI_BROADCAST ? 3u : 1u};
}

Case to_case(tutti_collective what, const Choice& choice, std::uint64_t seed) {
  Case c;
  c.what = what;
  c.type = static_cast<tutti_dtype>(choice[0]);
  c.op = static_cast<tutti_op>(choice[1]);
  c.ranks = kRanks[choice[2]];
  c.count = what == TUTTI_BARRIER ? 0 : boundary_counts(c.type, c.ranks)[choice[3]];
  c.in_place = choice[4] == 1;
  c.shift = std::array<std::uint64_t, 3>{0, tutti_dtype_bytes(c.type), 1}[choice[5]];
  // Where a row does not run over these ranks, the selector picks.
  if (choice[6] > 0 && runs_over(what, rows_of(what)[choice[6] - 1], c.ranks))
    c.algorithm = rows_of(what)[choice[6] - 1];
  c.root = std::array{0, c.ranks - 1, c.ranks / 2}[choice[7]];
  c.seed = seed;
  return c;
}

/// Greedy: of a few random combinations that hold the first pair still missing, the one with most missing pairs.
std::vector<Choice> pairwise(const Choice& sizes) {
  using Pair = std::array<std::size_t, 4>;  // factor, value, later factor, value
  std::set<Pair> missing;
  for (std::size_t a = 0; a < kFactors; ++a)
    for (std::size_t b = a + 1; b < kFactors; ++b)
      for (std::size_t va = 0; va < sizes[a]; ++va)
        for (std::size_t vb = 0; vb < sizes[b]; ++vb) missing.insert({a, va, b, vb});
  const auto for_each_pair = [](const Choice& choice, const auto& function) {
    for (std::size_t a = 0; a < kFactors; ++a)
      for (std::size_t b = a + 1; b < kFactors; ++b) function(Pair{a, choice[a], b, choice[b]});
  };
  std::vector<Choice> choices;
  std::uint64_t random = 0;
  while (!missing.empty()) {
    const Pair wanted = *missing.begin();
    Choice best{};
    std::size_t best_gain = 0;
    for (int attempt = 0; attempt < 24; ++attempt) {
      Choice choice;
      for (std::size_t f = 0; f < kFactors; ++f) choice[f] = mix(++random, 7) % sizes[f];
      choice[wanted[0]] = wanted[1];
      choice[wanted[2]] = wanted[3];
      std::size_t gain = 0;
      for_each_pair(choice, [&](const Pair& pair) { gain += missing.count(pair); });
      if (gain > best_gain) {
        best = choice;
        best_gain = gain;
      }
    }
    for_each_pair(best, [&](const Pair& pair) { missing.erase(pair); });
    choices.push_back(best);
  }
  return choices;
}

std::vector<Choice> all_choices(const Choice& sizes) {
  std::vector<Choice> choices;
  Choice choice{};
  std::size_t turn = 0;
  while (true) {
    choice[4] = turn % sizes[4];
    choice[5] = turn / 2 % sizes[5];
    ++turn;
    choices.push_back(choice);
    std::size_t factor = 0;
    for (; factor < kFactors; ++factor) {
      if (factor == 4 || factor == 5) continue;
      if (++choice[factor] < sizes[factor]) break;
      choice[factor] = 0;
    }
    if (factor == kFactors) return choices;
  }
}

Pattern pattern_of(const Case& c) { return {.type = c.type, .op = c.op, .ranks = c.ranks, .seed = c.seed}; }

/// Memory with a guard on both sides, `shift` bytes beyond an aligned address.
class Region {
 public:
  Region(std::size_t bytes, std::uint64_t shift) : memory_(bytes + 2 * kGuard + 4096, kUntouched), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    data_ = memory_.data() + kGuard + (64 - address % 64) % 64 + shift;
  }
  std::byte* data() { return data_; }
  bool guards_intact() const {
    const std::byte* end = memory_.data() + memory_.size();
    return std::all_of(memory_.data(), static_cast<const std::byte*>(data_),
                       [](std::byte b) { return b == kUntouched; }) &&
           std::all_of(static_cast<const std::byte*>(data_) + bytes_, end, [](std::byte b) { return b == kUntouched; });
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::byte* data_;
};

struct Sizes {
  std::uint64_t in, out;  // elements
};

Sizes sizes_of(const Case& c) {
  const auto ranks = static_cast<std::uint64_t>(c.ranks);
  return {c.what == TUTTI_REDUCE_SCATTER ? c.count * ranks : c.count,
          c.what == TUTTI_ALL_GATHER ? c.count * ranks : c.count};
}

tutti::Status call(tutti::Communicator& comm, const Case& c, const std::byte* in, std::byte* out) {
  const tutti::CallOptions options{.tag = c.seed, .algorithm = c.algorithm};
  const auto type = static_cast<tutti::DataType>(c.type);
  const auto op = static_cast<tutti::Op>(c.op);
  switch (c.what) {
    case TUTTI_ALL_REDUCE: return comm.all_reduce(in, out, c.count, type, op, options);
    case TUTTI_ALL_GATHER: return comm.all_gather(in, out, c.count, type, options);
    case TUTTI_REDUCE_SCATTER: return comm.reduce_scatter(in, out, c.count, type, op, options);
    case TUTTI_BROADCAST: return comm.broadcast(in, out, c.count, type, c.root, options);
    default: return comm.barrier(options);
  }
}

void compare(const Case& c, int rank, const std::byte* got, const std::byte* expected) {
  const std::uint64_t bytes = sizes_of(c).out * tutti_dtype_bytes(c.type);
  if (bytes == 0 || std::memcmp(got, expected, bytes) == 0) return;
  const auto first = static_cast<std::uint64_t>(std::mismatch(got, got + bytes, expected).first - got);
  ADD_FAILURE() << to_string(c) << ": rank " << rank << ": first wrong byte " << first << " (element "
                << first / tutti_dtype_bytes(c.type) << "): " << static_cast<int>(got[first]) << ", expected "
                << static_cast<int>(expected[first]);
}

}  // namespace

const std::vector<std::string>& rows_of(tutti_collective what) {
  static const std::vector<std::string> kRows[TUTTI_COLLECTIVE_COUNT] = {
      {"ring", "recursive_doubling", "halving_doubling", "one_shot", "two_shot"},
      {"ring", "recursive_doubling", "one_shot"},
      {"ring", "recursive_halving", "one_shot"},
      {"chain", "one_shot", "binomial", "k_nomial", "scatter_allgather"},
      {"dissemination"},
      {},
      {}};
  return kRows[what];
}

bool runs_over(tutti_collective what, const std::string& row, int ranks) {
  const bool power_of_two = (what == TUTTI_ALL_GATHER && row == "recursive_doubling") || row == "recursive_halving";
  return !power_of_two || (ranks & (ranks - 1)) == 0;
}

std::string to_string(const Case& c) {
  static const char* const kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier"};
  static const char* const kOps[] = {"sum", "prod", "max", "min", "avg"};
  return std::string(kNames[c.what]) + " " + tutti_dtype_name(c.type) + " x " + std::to_string(c.count) + " " +
         (reduces(c.what) ? kOps[c.op] : "") + " on " + std::to_string(c.ranks) + " ranks" +
         (c.in_place ? ", in place" : "") + ", shift " + std::to_string(c.shift) + ", algorithm '" + c.algorithm +
         "', root " + std::to_string(c.root) + ", seed " + std::to_string(c.seed);
}

const std::byte* Expectation::of(int rank) {
  std::call_once(once_, [&] {
    const Pattern pattern = pattern_of(case_);
    const std::size_t element = tutti_dtype_bytes(case_.type);
    if (case_.what == TUTTI_ALL_GATHER) {
      bytes_.resize(sizes_of(case_).out * element);
      for (int from = 0; from < case_.ranks; ++from)
        fill_input(pattern, from, 0, case_.count,
                   bytes_.data() + static_cast<std::size_t>(from) * case_.count * element);
    } else if (case_.what == TUTTI_BROADCAST) {
      bytes_.resize(case_.count * element);
      fill_input(pattern, case_.root, 0, case_.count, bytes_.data());
    } else {
      bytes_.resize(sizes_of(case_).in * element);
      fill_expected(pattern, 0, sizes_of(case_).in, bytes_.data());
    }
  });
  const std::size_t block = case_.count * tutti_dtype_bytes(case_.type);
  return bytes_.data() + (case_.what == TUTTI_REDUCE_SCATTER ? static_cast<std::size_t>(rank) * block : 0);
}

void run_case(tutti::Communicator& comm, Expectation& expectation) {
  const Case& c = expectation.what();
  const int rank = comm.rank();
  if (c.what == TUTTI_BARRIER) {
    EXPECT_STATUS_OK(call(comm, c, nullptr, nullptr)) << to_string(c);
    return;
  }
  const std::size_t element = tutti_dtype_bytes(c.type);
  const Sizes sizes = sizes_of(c);
  const std::size_t block = static_cast<std::size_t>(rank) * c.count * element;
  Region output(std::max(sizes.out, c.in_place ? sizes.in : 0) * element, c.shift);
  Region separate(c.in_place ? 0 : sizes.in * element, c.shift);
  std::byte* out = output.data();
  std::byte* in = c.in_place ? out : separate.data();
  if (c.in_place && c.what == TUTTI_ALL_GATHER) in = out + block;
  if (c.in_place && c.what == TUTTI_REDUCE_SCATTER) out += block;
  fill_input(pattern_of(c), rank, 0, sizes.in, in);
  const std::vector<std::byte> before(in, in + sizes.in * element);

  const tutti::Status status = call(comm, c, in, out);
  ASSERT_STATUS_OK(status) << to_string(c) << ": rank " << rank;
  compare(c, rank, out, expectation.of(rank));
  EXPECT_TRUE(output.guards_intact() && separate.guards_intact())
      << to_string(c) << ": rank " << rank << ": wrote outside its buffer";
  if (c.in_place || before.empty()) return;
  EXPECT_EQ(std::memcmp(in, before.data(), before.size()), 0)
      << to_string(c) << ": rank " << rank << ": changed its input";
}

std::vector<Case> make_cases(tutti_collective what, bool full) {
  const Choice sizes = factor_sizes(what);
  std::vector<Case> cases;
  for (const Choice& choice : full ? all_choices(sizes) : pairwise(sizes))
    cases.push_back(to_case(what, choice, cases.size() + 1));
  std::stable_sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.ranks < b.ranks; });
  return cases;
}

}  // namespace api_test
