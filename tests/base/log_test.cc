// SPDX-License-Identifier: Apache-2.0
#include "src/base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace tutti::core {
namespace {

// Sends the log to a file of its own and restores the default afterwards.
class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/tutti-log-test-XXXXXX";
    const int fd = mkstemp(path);
    ASSERT_GE(fd, 0);
    close(fd);
    path_ = path;
    options_.file_pattern = path_;
  }
  void TearDown() override {
    EXPECT_TRUE(configure_log({}).is_ok());
    std::remove(path_.c_str());
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }
  std::string path_;
  LogOptions options_;
};

TEST_F(Log, text_line_has_level_rank_event_and_fields_in_order) {
  options_.level = LogLevel::info;
  options_.job = "night run";
  ASSERT_TRUE(configure_log(options_).is_ok());
  TUTTI_LOG(info, 3, "link up", {"transport", "shm"}, {"peer", 7}, {"share", 0.5}, {"mapped", true});
  ASSERT_EQ(lines().size(), 1U);
  const std::string line = lines()[0];
  EXPECT_EQ(line.substr(0, 6), "tutti ");
  EXPECT_NE(line.find(":" + std::to_string(getpid()) +
                      " info rank 3 link up transport shm peer 7 share 0.5 mapped yes job \"night run\""),
            std::string::npos)
      << line;
}

TEST_F(Log, levels_below_the_threshold_write_nothing_and_evaluate_nothing) {
  options_.level = LogLevel::warn;
  ASSERT_TRUE(configure_log(options_).is_ok());
  int evaluated = 0;
  TUTTI_LOG(info, -1, "hidden", {"count", ++evaluated});
  TUTTI_LOG(warn, -1, "shown", {"count", ++evaluated});
  EXPECT_EQ(evaluated, 1);
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_NE(lines()[0].find(" warn shown count 1"), std::string::npos);
  options_.level = LogLevel::none;
  ASSERT_TRUE(configure_log(options_).is_ok());
  TUTTI_LOG(error, -1, "silenced");
  EXPECT_EQ(lines().size(), 1U);
}

TEST_F(Log, an_event_is_always_one_line) {
  ASSERT_TRUE(configure_log(options_).is_ok());
  TUTTI_LOG(error, -1, "two\nlines", {"text", "a\nb \"c\""}, {"empty", ""});
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_NE(lines()[0].find("two lines text \"a\\nb \\\"c\\\"\" empty \"\""), std::string::npos) << lines()[0];
}

TEST_F(Log, json_line_keeps_types_and_escapes) {
  options_.json = true;
  ASSERT_TRUE(configure_log(options_).is_ok());
  TUTTI_LOG(error, 2, "call \"failed\"", {"peer", -1}, {"bytes", std::uint64_t{18446744073709551615U}},
            {"text", std::string("tab\there\x01")}, {"slow", false}, {"ratio", 0.25},
            {"infinite", std::numeric_limits<double>::infinity()});
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_NE(lines()[0].find("\"level\":\"error\",\"rank\":2,\"event\":\"call \\\"failed\\\"\",\"peer\":-1,"
                            "\"bytes\":18446744073709551615,\"text\":\"tab\\there\\u0001\",\"slow\":false,"
                            "\"ratio\":0.25,\"infinite\":null}"),
            std::string::npos)
      << lines()[0];
}

TEST_F(Log, lines_of_several_threads_stay_whole) {
  options_.level = LogLevel::info;
  ASSERT_TRUE(configure_log(options_).is_ok());
  constexpr int kThreads = 4, kLines = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < kLines; ++i) TUTTI_LOG(info, t, "event", {"filler", std::string(200, 'x')}, {"end", i});
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> next(kThreads, 0);
  for (const std::string& line : lines()) {
    const std::size_t at = line.find(" rank ");
    ASSERT_NE(at, std::string::npos) << line;
    const int rank = std::atoi(line.c_str() + at + 6);
    ASSERT_LT(rank, kThreads);
    const std::string end = " end " + std::to_string(next[static_cast<std::size_t>(rank)]++);
    EXPECT_EQ(line.substr(line.size() - end.size()), end);
  }
  EXPECT_EQ(next, std::vector<int>(kThreads, kLines));
}

TEST(LogPattern, fills_in_host_and_process) {
  char host[256] = "";
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(expand_log_pattern("/a/%h-%p.%%log%x%"),
            "/a/" + std::string(host) + "-" + std::to_string(getpid()) + ".%log%x%");
}

TEST(LogFile, a_file_that_cannot_be_opened_is_named_and_nothing_changes) {
  const Status status = configure_log({LogLevel::trace, "/nonexistent-folder/log", true, ""});
  EXPECT_EQ(status.code(), TUTTI_UNAVAILABLE);
  EXPECT_NE(status.to_string().find("/nonexistent-folder/log"), std::string::npos);
  EXPECT_NE(status.to_string().find("TUTTI_DEBUG_FILE"), std::string::npos);
  EXPECT_FALSE(log_enabled(LogLevel::info));
}

}  // namespace
}  // namespace tutti::core
