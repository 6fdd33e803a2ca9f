// SPDX-License-Identifier: Apache-2.0
#include "tests/api/cases.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "tests/api/blocks.h"

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

/// What collectives without arithmetic see of a type is its size.
constexpr std::array kSizes{TUTTI_INT8, TUTTI_BFLOAT16, TUTTI_FLOAT32, TUTTI_INT64};

/// Sizes of the factors: type, op, ranks, count, in place, shift, algorithm, root.
constexpr std::size_t kFactors = 8;
using Choice = std::array<std::size_t, kFactors>;

Choice factor_sizes(tutti_collective what) {
  if (what == TUTTI_BARRIER) return {1, 1, kRanks.size(), 1, 1, 1, rows_of(what).size() + 1, 1};
  return {reduces(what) ? std::size_t{TUTTI_DTYPE_COUNT} : kSizes.size(),
          reduces(what) ? std::size_t{TUTTI_OP_COUNT} + 1 : 1u,  // the last one: pre-multiplied sums
          kRanks.size(),
          kCounts,
          2u,
          3u,
          rows_of(what).size() + 1,
          has_root(what) ? 3u : 1u};
}

tutti_op op_of(const Choice& choice) {
  return choice[1] == TUTTI_OP_COUNT ? TUTTI_PRE_MUL_SUM : static_cast<tutti_op>(choice[1]);
}

Case to_case(tutti_collective what, const Choice& choice, std::uint64_t seed) {
  Case c;
  c.what = what;
  c.type = reduces(what) ? static_cast<tutti_dtype>(choice[0]) : kSizes[choice[0]];
  c.op = op_of(choice);
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

/// Floats have no bitwise operators, bool has no average and no product with a scalar.
bool is_valid(const Choice& choice) {
  const auto type = static_cast<tutti_dtype>(choice[0]);
  const tutti_op op = op_of(choice);
  if (op == TUTTI_PRE_MUL_SUM) return type != TUTTI_BOOL;
  return type == TUTTI_BOOL ? op != TUTTI_AVG : op < TUTTI_BAND || !is_float(type);
}

/// Blocks of 128 KiB for each of 9 ranks take most of the time and meet no other border than those of 4 ranks.
void shorten(Case& c) {
  const std::uint64_t most = 8192 / tutti_dtype_bytes(c.type);
  if (c.ranks > 4 && span_of(input_blocks(c, 0)) + span_of(output_blocks(c, 0)) > 3 * c.count)
    c.count = std::min(c.count, most);
}

/// Greedy: of a few random combinations that hold the first pair still missing, the one with most missing pairs.
std::vector<Choice> pairwise(const Choice& sizes) {
  using Pair = std::array<std::size_t, 4>;  // factor, value, later factor, value
  std::set<Pair> missing;
  for (std::size_t a = 0; a < kFactors; ++a)
    for (std::size_t b = a + 1; b < kFactors; ++b)
      for (std::size_t va = 0; va < sizes[a]; ++va)
        for (std::size_t vb = 0; vb < sizes[b]; ++vb)
          if (a != 0 || b != 1 || is_valid({va, vb})) missing.insert({a, va, b, vb});
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
      if (!is_valid(choice)) continue;
      std::size_t gain = 0;
      for_each_pair(choice, [&](const Pair& pair) { gain += missing.count(pair); });
      if (gain > best_gain) {
        best = choice;
        best_gain = gain;
      }
    }
    if (best_gain == 0) continue;  // all attempts were invalid: others follow
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
  std::size_t bytes() const { return bytes_; }
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

/// Displacements are left out in half of the calls that can do without.
tutti::Blocks blocks_of(const Case& c, const Layout& layout) {
  if (layout.packed && c.seed % 3 == 0) return {layout.counts};
  return {layout.counts, layout.displacements};
}

/// A call's buffers, and the operator that stands for its op: pre-multiplied sums are made for each call.
struct Arguments {
  const std::byte* in;
  std::byte* out;
  tutti::Op op;
};

tutti::Status call_with_counts(const tutti::Communicator& comm, const Case& c, const Arguments& arguments) {
  const auto [in, out, op] = arguments;
  const tutti::CallOptions options{.tag = c.seed, .algorithm = c.algorithm};
  const auto type = static_cast<tutti::DataType>(c.type);
  const Layout layout = layout_of(c, comm.rank()), received = received_layout(c, comm.rank());
  const tutti::Blocks blocks = blocks_of(c, layout);
  switch (c.what) {
    case TUTTI_ALL_GATHER_V: return comm.all_gather_v(in, out, blocks, type, options);
    case TUTTI_REDUCE_SCATTER_V: return comm.reduce_scatter_v(in, out, blocks, type, op, options);
    case TUTTI_GATHER_V: return comm.gather_v(in, out, blocks, type, c.root, options);
    case TUTTI_SCATTER_V: return comm.scatter_v(in, out, blocks, type, c.root, options);
    default: return comm.all_to_all_v(in, blocks, out, blocks_of(c, received), type, options);
  }
}

tutti::Status call(const tutti::Communicator& comm, const Case& c, const Arguments& arguments) {
  if (has_counts(c.what)) return call_with_counts(comm, c, arguments);
  const auto [in, out, op] = arguments;
  const tutti::CallOptions options{.tag = c.seed, .algorithm = c.algorithm};
  const auto type = static_cast<tutti::DataType>(c.type);
  switch (c.what) {
    case TUTTI_ALL_REDUCE: return comm.all_reduce(in, out, c.count, type, op, options);
    case TUTTI_ALL_GATHER: return comm.all_gather(in, out, c.count, type, options);
    case TUTTI_REDUCE_SCATTER: return comm.reduce_scatter(in, out, c.count, type, op, options);
    case TUTTI_BROADCAST: return comm.broadcast(in, out, c.count, type, c.root, options);
    case TUTTI_REDUCE: return comm.reduce(in, out, c.count, type, c.root, op, options);
    case TUTTI_GATHER: return comm.gather(in, out, c.count, type, c.root, options);
    case TUTTI_SCATTER: return comm.scatter(in, out, c.count, type, c.root, options);
    case TUTTI_ALL_TO_ALL: return comm.all_to_all(in, out, c.count, type, options);
    default: return comm.barrier(options);
  }
}

tutti::Status call(const tutti::Communicator& comm, const Case& c, const std::byte* in, std::byte* out) {
  if (c.op != TUTTI_PRE_MUL_SUM) return call(comm, c, {in, out, static_cast<tutti::Op>(c.op)});
  const std::uint64_t factor = pattern_of(c).factor(comm.rank());
  auto op = comm.pre_mul_sum(&factor, static_cast<tutti::DataType>(c.type));
  return op.is_ok() ? call(comm, c, {in, out, *op}) : op.status();
}

/// What a rank sees of a case: one region for both buffers if they share memory.
struct Seat {
  Seat(const Case& c, int rank) : input(input_blocks(c, rank)), output(output_blocks(c, rank)) {
    const bool both = !input.empty() && !output.empty();
    shared = c.in_place && both && c.what != TUTTI_ALL_TO_ALL && c.what != TUTTI_ALL_TO_ALL_V;
    if (!shared) return;
    // The buffer of one block lies where the other one has that block.
    const auto own = static_cast<std::size_t>(rank), all = static_cast<std::size_t>(c.ranks);
    if (output.size() == all) in_offset = output[own].offset;
    if (input.size() == all) out_offset = input[own].offset;
  }
  std::vector<Block> input, output;  // empty: the rank has no such buffer
  bool shared = false;
  std::uint64_t in_offset = 0, out_offset = 0;  // elements, in the shared region
};

void fill_blocks(const Case& c, const std::vector<Block>& blocks, std::byte* memory) {
  const std::size_t element = tutti_dtype_bytes(c.type);
  for (const Block& block : blocks)
    fill_input(pattern_of(c), block.rank, block.first, block.count, memory + block.offset * element);
}

void overlay_results(Expectation& expectation, const std::vector<Block>& blocks, std::byte* memory) {
  const Case& c = expectation.what();
  if (!reduces(c.what)) return fill_blocks(c, blocks, memory);
  const std::size_t element = tutti_dtype_bytes(c.type);
  for (const Block& block : blocks)
    if (block.count > 0)
      std::memcpy(memory + block.offset * element, expectation.reduced(block.first), block.count * element);
}

void compare(const Case& c, int rank, const std::byte* got, const std::vector<std::byte>& expected) {
  if (expected.empty() || std::memcmp(got, expected.data(), expected.size()) == 0) return;
  const auto first = static_cast<std::uint64_t>(std::mismatch(expected.begin(), expected.end(), got).second - got);
  ADD_FAILURE() << to_string(c) << ": rank " << rank << ": first wrong byte " << first << " (element "
                << first / tutti_dtype_bytes(c.type) << "): " << static_cast<int>(got[first]) << ", expected "
                << static_cast<int>(expected[first]);
}

/// "there are: a, b" -> {"a", "b"}; the text of the error for an unknown name ends with it.
std::vector<std::string> listed_rows(const std::string& text) {
  static const std::string kBefore = "(one of: ";
  const std::size_t list = text.find(kBefore);
  std::vector<std::string> rows;
  if (list == std::string::npos) return rows;
  std::string word;
  for (const char ch : text.substr(list + kBefore.size())) {
    if (std::isalnum(static_cast<unsigned char>(ch)) || ch == '_')
      word += ch;
    else if (!word.empty())
      rows.push_back(std::exchange(word, ""));
    if (ch == ';') break;
  }
  return rows;
}

}  // namespace

const std::vector<std::string>& rows_of(tutti_collective what) {
  static const std::vector<std::vector<std::string>> kRows = [] {
    const auto comm = tutti::Communicator::create(tutti::UniqueId::create().value(), 0, 1, test_config()).value();
    std::vector<std::vector<std::string>> rows(TUTTI_COLLECTIVE_COUNT);
    tutti_call wrong{};
    wrong.struct_size = sizeof wrong;
    wrong.algorithm = "no_such_row";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Case c{.what = static_cast<tutti_collective>(i), .ranks = 1, .algorithm = wrong.algorithm};
      if (i != TUTTI_SEND && i != TUTTI_RECV) rows[i] = listed_rows(call(comm, c, nullptr, nullptr).text());
      // The list is that of the equal form; rows that forward cannot run all_to_all_v.
      std::erase_if(rows[i], [&](const std::string& row) {
        c.algorithm = row;
        return has_counts(c.what) && call(comm, c, nullptr, nullptr).code() == tutti::Code::unsupported;
      });
    }
    return rows;
  }();
  return kRows[what];
}

bool runs_over(tutti_collective what, const std::string& row, int ranks) {
  const bool gathers = what == TUTTI_ALL_GATHER || what == TUTTI_ALL_GATHER_V;
  const bool power_of_two = (gathers && row == "recursive_doubling") || row == "recursive_halving";
  return !power_of_two || (ranks & (ranks - 1)) == 0;
}

std::string to_string(const Case& c) {
  static const char* const kNames[] = {"all_reduce",       "all_gather", "reduce_scatter", "broadcast",
                                       "barrier",          "send",       "recv",           "reduce",
                                       "gather",           "scatter",    "all_to_all",     "all_gather_v",
                                       "reduce_scatter_v", "gather_v",   "scatter_v",      "all_to_all_v"};
  static const char* const kOps[] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor", "pre_mul_sum"};
  const int op = c.op == TUTTI_PRE_MUL_SUM ? int{TUTTI_OP_COUNT} : int{c.op};
  return std::string(kNames[c.what]) + " " + tutti_dtype_name(c.type) + " x " + std::to_string(c.count) + " " +
         (reduces(c.what) ? kOps[op] : "") + " on " + std::to_string(c.ranks) + " ranks" +
         (c.in_place ? ", in place" : "") + ", shift " + std::to_string(c.shift) + ", algorithm '" + c.algorithm +
         "', root " + std::to_string(c.root) + ", seed " + std::to_string(c.seed);
}

const std::byte* Expectation::reduced(std::uint64_t first) {
  std::call_once(once_, [&] {
    const std::uint64_t count = reduced_elements(case_);
    bytes_.resize(count * tutti_dtype_bytes(case_.type));
    fill_expected(pattern_of(case_), 0, count, bytes_.data());
  });
  return bytes_.data() + first * tutti_dtype_bytes(case_.type);
}

void run_case(tutti::Communicator& comm, Expectation& expectation) {
  const Case& c = expectation.what();
  const int rank = comm.rank();
  if (c.what == TUTTI_BARRIER) {
    EXPECT_STATUS_OK(call(comm, c, nullptr, nullptr)) << to_string(c);
    return;
  }
  const std::size_t element = tutti_dtype_bytes(c.type);
  const Seat seat(c, rank);
  const std::size_t in_bytes = span_of(seat.input) * element, out_bytes = span_of(seat.output) * element;
  Region output(seat.shared ? std::max(in_bytes, out_bytes) : out_bytes, c.shift);
  Region separate(seat.shared ? 0 : in_bytes, c.shift);
  std::byte* out = output.data() + seat.out_offset * element;
  std::byte* in = seat.shared ? output.data() + seat.in_offset * element : separate.data();
  fill_blocks(c, seat.input, in);
  const std::vector<std::byte> before(separate.data(), separate.data() + separate.bytes());
  std::vector<std::byte> expected(output.data(), output.data() + output.bytes());
  overlay_results(expectation, seat.output, expected.data() + seat.out_offset * element);

  // What a rank has no use for may be anything.
  const bool null = c.seed % 2 == 0;
  const tutti::Status status =
      call(comm, c, seat.input.empty() && null ? nullptr : in, seat.output.empty() && null ? nullptr : out);
  ASSERT_STATUS_OK(status) << to_string(c) << ": rank " << rank;
  compare(c, rank, output.data(), expected);
  EXPECT_TRUE(output.guards_intact() && separate.guards_intact())
      << to_string(c) << ": rank " << rank << ": wrote outside its buffer";
  EXPECT_TRUE(std::equal(before.begin(), before.end(), separate.data()))
      << to_string(c) << ": rank " << rank << ": changed its input";
}

std::vector<Case> make_cases(tutti_collective what, bool full) {
  const Choice sizes = factor_sizes(what);
  std::vector<Case> cases;
  for (const Choice& choice : full ? all_choices(sizes) : pairwise(sizes))
    if (is_valid(choice)) cases.push_back(to_case(what, choice, cases.size() + 1));
  if (!full) std::for_each(cases.begin(), cases.end(), shorten);
  std::stable_sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.ranks < b.ranks; });
  return cases;
}

}  // namespace api_test
