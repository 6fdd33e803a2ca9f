// SPDX-License-Identifier: Apache-2.0
#include "src/comm/selector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <regex>

#include "src/base/types.h"

namespace tutti::core {
namespace {

LinkCost documented_cost(int ranks, int cores) { return shared_memory_cost(CostTable{}, ranks, cores); }
LinkCost shm() { return documented_cost(8, 64); }

double predicted(const Algorithm& row, const LinkCost& link, int ranks, std::uint64_t bytes) {
  return predict_ns(row.cost(ranks), link, bytes);
}

/// The size from which on `small`'s row is no longer chosen, by halving.
std::uint64_t crossover(const Selector& selector, tutti_collective what) {
  const auto name = [&](std::uint64_t bytes) { return (*selector.choose(what, bytes, ""))->name; };
  std::uint64_t low = 1, high = std::uint64_t{1} << 40;
  const auto first = name(low);
  EXPECT_NE(first, name(high));
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (name(middle) == first ? low : high) = middle;
  }
  return high;
}

TEST(CostModel, adds_the_four_terms) {
  const RowCost row{.rounds = 3, .sent = 2, .reduced = 0.5, .messages = 7};
  const LinkCost link = shm();
  const double fixed = 3 * link.alpha_ns + 7 * link.overhead_ns;
  EXPECT_DOUBLE_EQ(predict_ns(row, link, 0), fixed);
  const double slope = (predict_ns(row, link, 2000000) - predict_ns(row, link, 1000000)) / 1e6;
  EXPECT_NEAR(slope, predict_ns(row, link, 1) - fixed, 1e-6);
  LinkCost dear = link;
  dear.beta_ns *= 10;
  EXPECT_NEAR(predict_ns(row, dear, 1000) - predict_ns(row, link, 1000), 9 * link.beta_ns * 2 * 1000, 1e-6);
}

TEST(CostModel, more_ranks_than_cores_cost_turns_of_the_scheduler) {
  const LinkCost roomy = documented_cost(4, 4), crowded = documented_cost(8, 4);
  EXPECT_GT(crowded.alpha_ns, 10 * roomy.alpha_ns);
  EXPECT_GT(crowded.beta_ns, roomy.beta_ns);
  EXPECT_NE(crowded.kind, roomy.kind);
  EXPECT_DOUBLE_EQ(documented_cost(16, 4).beta_ns, 2 * crowded.beta_ns);
  EXPECT_DOUBLE_EQ(documented_cost(16, 4).alpha_ns, 2 * crowded.alpha_ns) << "each core gives each rank a turn";
  EXPECT_TRUE(std::isfinite(documented_cost(3, 0).beta_ns));
}

TEST(Selector, chooses_the_row_that_the_model_finds_cheapest) {
  for (int what = 0; what < TUTTI_COLLECTIVE_COUNT; ++what)
    for (const int ranks : {1, 2, 3, 4, 7, 8, 17, 64}) {
      const Selector selector(ranks, shm());
      for (std::uint64_t bytes = 1; bytes <= std::uint64_t{1} << 32; bytes *= 4) {
        if (selector.consider(static_cast<tutti_collective>(what), bytes).empty()) continue;
        auto chosen = selector.choose(static_cast<tutti_collective>(what), bytes, "");
        ASSERT_TRUE(chosen.is_ok()) << chosen.status().to_string();
        ASSERT_TRUE(admits(**chosen, ranks));
        for (const Algorithm& row : algorithms())
          if (row.what == equal_form(static_cast<tutti_collective>(what)) && admits(row, ranks) &&
              what != TUTTI_ALL_TO_ALL_V) {
            ASSERT_LE(predicted(**chosen, shm(), ranks, bytes), predicted(row, shm(), ranks, bytes)) << row.name;
          }
        const auto candidates = selector.candidates(static_cast<tutti_collective>(what), bytes);
        ASSERT_FALSE(candidates.empty());
        EXPECT_EQ(candidates.front().row, *chosen);
        for (std::size_t i = 1; i < candidates.size(); ++i)
          EXPECT_LE(candidates[i - 1].predicted_ns, candidates[i].predicted_ns);
      }
    }
}

// The test hook of the design page: ten times the price of a byte moves the crossover to where the model's lines cross.
TEST(Selector, the_crossover_moves_with_beta_as_the_model_predicts) {
  constexpr int kRanks = 8;
  for (const double factor : {1.0, 10.0}) {
    LinkCost link = shm();
    link.beta_ns *= factor;
    const Selector selector(kRanks, link);
    const std::uint64_t at = crossover(selector, TUTTI_ALL_REDUCE);
    const Algorithm& before = **selector.choose(TUTTI_ALL_REDUCE, at - 1, "");
    const Algorithm& after = **selector.choose(TUTTI_ALL_REDUCE, at, "");
    ASSERT_NE(before.name, after.name);
    // Two lines a + b n cross at (a2 - a1) / (b1 - b2).
    const double a1 = predicted(before, link, kRanks, 0), a2 = predicted(after, link, kRanks, 0);
    const double b1 = (predicted(before, link, kRanks, 1000000) - a1) / 1e6;
    const double b2 = (predicted(after, link, kRanks, 1000000) - a2) / 1e6;
    EXPECT_NEAR(static_cast<double>(at), (a2 - a1) / (b1 - b2), 1.5) << "beta x " << factor;
  }
  LinkCost dear = shm();
  dear.beta_ns *= 10;
  EXPECT_LT(crossover(Selector(kRanks, dear), TUTTI_ALL_REDUCE), crossover(Selector(kRanks, shm()), TUTTI_ALL_REDUCE))
      << "dearer bytes favour the row that sends fewer from smaller sizes on";
}

// A rank knows its own counts only: neither a row that forwards foreign blocks, nor a choice by size.
TEST(Selector, all_to_all_v_takes_rows_of_one_hop_whatever_the_size) {
  const Selector selector(8, shm());
  for (const Candidate& candidate : selector.consider(TUTTI_ALL_TO_ALL_V, 1000))
    EXPECT_EQ(candidate.row->needs.forwards, !candidate.excluded.empty()) << candidate.row->name;
  const auto small = selector.candidates(TUTTI_ALL_TO_ALL_V, 1);
  const auto large = selector.candidates(TUTTI_ALL_TO_ALL_V, std::uint64_t{1} << 40);
  ASSERT_EQ(small.size(), large.size());
  for (std::size_t i = 0; i < small.size(); ++i) EXPECT_EQ(small[i].predicted_ns, large[i].predicted_ns);
}

TEST(Selector, forms_with_counts_per_rank_take_the_rows_of_the_equal_form) {
  const Selector selector(8, shm());
  for (const std::uint64_t bytes : {std::uint64_t{64}, std::uint64_t{1} << 26})
    EXPECT_EQ(*selector.choose(TUTTI_ALL_GATHER_V, bytes, ""), *selector.choose(TUTTI_ALL_GATHER, bytes, ""));
  EXPECT_EQ((*selector.choose(TUTTI_REDUCE_SCATTER_V, 64, "ring"))->what, TUTTI_REDUCE_SCATTER);
}

TEST(Selector, the_hash_of_the_rows_differs_by_ranks_only) {
  EXPECT_EQ(selection_hash(8), selection_hash(8));
  EXPECT_NE(selection_hash(8), selection_hash(7));
}

TEST(Selector, a_bare_name_counts_where_there_is_such_a_row) {
  Config config;
  ASSERT_TRUE(config.overlay_text("algorithm=ring").is_ok());
  EXPECT_EQ(forced_row(config, TUTTI_ALL_REDUCE), "ring");
  EXPECT_EQ(forced_row(config, TUTTI_ALL_GATHER_V), "ring");
  EXPECT_EQ(forced_row(config, TUTTI_BARRIER), "");
  EXPECT_EQ(forced_row(config, TUTTI_GATHER), "");
  // Nobody's name is everybody's error; so is a wrong name for one collective.
  ASSERT_TRUE(config.overlay_text("algorithm=rink").is_ok());
  EXPECT_EQ(forced_row(config, TUTTI_BARRIER), "rink");
  ASSERT_TRUE(config.overlay_text("algorithm=barrier:ring").is_ok());
  EXPECT_EQ(forced_row(config, TUTTI_BARRIER), "ring");
  EXPECT_EQ(forced_row(config, TUTTI_ALL_REDUCE), "");
}

TEST(Selector, reproducible_reductions_keep_one_tree_at_all_sizes) {
  for (const Reproducible level : {Reproducible::l2, Reproducible::l4})
    for (const tutti_collective what : {TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER_V})
      for (const int ranks : {1, 2, 3, 4, 6, 8, 16, 64}) {
        const Selector selector(ranks, shm(), level);
        std::optional<Tree> tree;
        for (std::uint64_t bytes = 1; bytes <= std::uint64_t{1} << 32; bytes *= 4) {
          auto chosen = selector.choose(what, bytes, "");
          if (!chosen.is_ok()) {
            EXPECT_EQ(chosen.status().code(), TUTTI_UNSUPPORTED);
            EXPECT_NE(chosen.status().message().find(level == Reproducible::l2 ? "l2" : "l4"), std::string::npos);
            EXPECT_EQ(level, Reproducible::l4) << chosen.status().to_string();
            continue;
          }
          const Tree used = (*chosen)->tree;
          EXPECT_NE(used, Tree::any);
          EXPECT_EQ(tree.value_or(used), used) << bytes;
          tree = used;
          if (level == Reproducible::l4) {
            EXPECT_EQ(used, Tree::balanced);
          }
          for (const Algorithm& row : algorithms())
            if (row.what == equal_form(what) && row.tree != used) {
              EXPECT_EQ(selector.choose(what, bytes, row.name).status().code(), TUTTI_UNSUPPORTED) << row.name;
            }
        }
      }
  // What only moves data has one result however it gets there.
  EXPECT_EQ(Selector(8, shm(), Reproducible::l4).candidates(TUTTI_ALL_GATHER, 8).size(),
            Selector(8, shm()).candidates(TUTTI_ALL_GATHER, 8).size());
}

TEST(Selector, does_what_it_is_told) {
  const Selector selector(8, shm());
  for (const Algorithm& row : algorithms()) {
    auto chosen = selector.choose(row.what, 1000, row.name);
    ASSERT_TRUE(chosen.is_ok());
    EXPECT_EQ(*chosen, &row);
  }
}

TEST(Selector, an_unknown_row_is_an_error_that_lists_the_rows) {
  const Selector selector(8, shm());
  const Status status = selector.choose(TUTTI_ALL_REDUCE, 8, "rings").status();
  EXPECT_EQ(status.code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("\"rings\""), std::string::npos) << status.to_string();
  for (const Algorithm& row : algorithms())
    if (row.what == TUTTI_ALL_REDUCE) {
      EXPECT_NE(status.remedy().find(row.name), std::string::npos) << status.remedy();
    }
  // A row of another collective is not one of this.
  EXPECT_EQ(selector.choose(TUTTI_BROADCAST, 8, "recursive_doubling").status().code(), TUTTI_INVALID_ARGUMENT);
}

TEST(Selector, a_collective_without_rows_is_an_error) {
  EXPECT_EQ(Selector(8, shm()).choose(TUTTI_SEND, 8, "").status().code(), TUTTI_UNSUPPORTED);
}

TEST(Selector, explains_its_choice_with_all_candidates) {
  const Selector selector(8, shm());
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1} << 26}) {
    const std::string text = selector.explain(TUTTI_ALL_REDUCE, bytes, "");
    const auto chosen = *selector.choose(TUTTI_ALL_REDUCE, bytes, "");
    EXPECT_NE(text.find(": " + std::string(chosen->name)), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("8 ranks"), std::string::npos) << text;
    for (const Candidate& candidate : selector.candidates(TUTTI_ALL_REDUCE, bytes))
      EXPECT_NE(text.find("  " + std::string(candidate.row->name)), std::string::npos) << text;
    EXPECT_NE(text.find("constants: the documented constants"), std::string::npos) << text;
  }
  EXPECT_NE(selector.explain(TUTTI_ALL_REDUCE, 8, "ring").find("as asked for"), std::string::npos);
  EXPECT_NE(selector.explain(TUTTI_ALL_REDUCE, 8, "rung").find("does not exist"), std::string::npos);
}

// Thresholds come from the model, never from a number of bytes in the selector.
TEST(Selector, holds_no_byte_literal) {
  for (const char* name : {"/src/comm/selector.cc", "/src/comm/selector.h", "/src/comm/cost_model.cc"}) {
    std::ifstream file(TUTTI_SOURCE_DIR + std::string(name));
    ASSERT_TRUE(file.good()) << name;
    std::string line;
    while (std::getline(file, line)) {
      line = std::regex_replace(line, std::regex("//.*|\"([^\"\\\\]|\\\\.)*\"|char \\w+\\[\\d+\\]"), "");
      EXPECT_FALSE(std::regex_search(line, std::regex("<<\\s*[0-9]|\\b[0-9]{4,}\\b(?!\\.0)"))) << name << ": " << line;
    }
  }
}

}  // namespace
}  // namespace tutti::core
