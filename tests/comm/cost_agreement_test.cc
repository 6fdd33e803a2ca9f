// SPDX-License-Identifier: Apache-2.0
// One cost table for all ranks: rank 0's, whatever the others have, and what happens to groups split off.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "src/comm/communicator.h"
#include "src/comm/cost_cache.h"

namespace tutti::core {
namespace {

using Rank = Result<std::unique_ptr<Communicator>>;

tutti_config config_of(const char* settings) {
  tutti_config config{};
  config.struct_size = sizeof config;
  config.name = "cost";
  config.settings = settings;
  return config;
}

/// Ranks as threads, each with settings of its own.
void spawn(const std::vector<std::string>& settings, const std::function<void(int rank, Rank)>& body) {
  const UniqueIdBytes id = std::move(make_unique_id()).value();
  const int ranks = static_cast<int>(settings.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const std::string all = "timeout=30s;init_timeout=30s;" + settings[static_cast<std::size_t>(r)];
      const tutti_config config = config_of(all.c_str());
      body(r, Communicator::create(id, r, ranks, &config));
    });
  for (std::thread& thread : threads) thread.join();
}

/// The first word after "ranks: ".
std::string chosen_row(Communicator& comm, std::uint64_t bytes) {
  const std::string text = comm.explain(TUTTI_ALL_REDUCE, bytes);
  const std::size_t at = text.find("ranks: ") + 7;
  return text.substr(at, text.find_first_of(",\n", at) - at);
}

class OneTable : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/tutti-one-table-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/table.txt";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(OneTable, rank_0_has_the_file_and_all_choose_by_it) {
  constexpr int kRanks = 4;
  std::vector<std::string> rows[2];
  for (const int dear : {0, 1}) {
    CostTable table;
    if (dear == 1) table.constants.beta_ns *= 10;
    ASSERT_TRUE(write_cost_file(path_, table).is_ok());
    std::vector<std::string> settings(kRanks, "cost=file;cost_file=" + folder_ + "/none");
    settings[0] = "cost=file;cost_file=" + path_;
    std::vector<std::string> texts(kRanks);
    spawn(settings, [&](int rank, Rank comm) {
      ASSERT_TRUE(comm.is_ok()) << comm.status().to_string();
      texts[static_cast<std::size_t>(rank)] = (*comm)->explain(TUTTI_ALL_REDUCE, 5000);
      if (rank == 0)
        for (std::uint64_t bytes = 8; bytes < (std::uint64_t{1} << 24); bytes += bytes / 8 + 8)
          rows[dear].push_back(chosen_row(**comm, bytes));
    });
    for (const std::string& text : texts) EXPECT_EQ(text, texts.front());
    EXPECT_NE(texts.back().find("constants: " + path_), std::string::npos) << texts.back();
  }
  ASSERT_EQ(rows[0].size(), rows[1].size());
  EXPECT_EQ(rows[0].front(), rows[1].front()) << "the cheapest row of tiny messages";
  const auto leaves = [](const std::vector<std::string>& names) {
    return std::find_if(names.begin(), names.end(), [&](const std::string& name) { return name != names.front(); }) -
           names.begin();
  };
  EXPECT_LT(leaves(rows[1]), leaves(rows[0])) << "dearer bytes move the crossover down";
}

TEST_F(OneTable, a_table_that_rank_0_was_told_to_use_and_lacks_is_an_error_there) {
  std::vector<std::string> settings{"cost=file;cost_file=" + path_};
  spawn(settings, [&](int, Rank comm) {
    ASSERT_FALSE(comm.is_ok());
    EXPECT_NE(comm.status().message().find(path_), std::string::npos) << comm.status().to_string();
    EXPECT_NE(comm.status().remedy().find("TUTTI_COST"), std::string::npos) << comm.status().to_string();
  });
}

TEST_F(OneTable, different_settings_are_an_init_error_that_names_both) {
  spawn({"cost=default", "cost=measured"}, [](int, Rank comm) {
    ASSERT_FALSE(comm.is_ok());
    EXPECT_EQ(comm.status().code(), TUTTI_MISMATCH);
    for (const char* part : {"cost", "default", "measured"})
      EXPECT_NE(comm.status().message().find(part), std::string::npos) << comm.status().to_string();
  });
}

TEST_F(OneTable, groups_inherit_it_or_all_take_the_documented_one) {
  CostTable table;
  table.constants.alpha_ns *= 3;
  ASSERT_TRUE(write_cost_file(path_, table).is_ok());
  spawn(std::vector<std::string>(4, "cost=file;cost_file=" + path_), [&](int rank, Rank comm) {
    ASSERT_TRUE(comm.is_ok()) << comm.status().to_string();
    auto plain = (*comm)->split(rank % 2, rank, nullptr);
    ASSERT_TRUE(plain.is_ok()) << plain.status().to_string();
    EXPECT_NE((*plain)->explain(TUTTI_ALL_REDUCE, 8).find(path_), std::string::npos);
    const tutti_config fixed = config_of("reproducible=l2");
    auto reproducible = (*comm)->split(0, rank, &fixed);
    ASSERT_TRUE(reproducible.is_ok()) << reproducible.status().to_string();
    EXPECT_NE((*reproducible)->explain(TUTTI_ALL_REDUCE, 8).find("documented"), std::string::npos);
    const tutti_config odd = config_of(rank == 2 ? "cost=default" : "");
    EXPECT_EQ((*comm)->split(0, rank, &odd).status().code(), TUTTI_MISMATCH);
  });
}

}  // namespace
}  // namespace tutti::core
