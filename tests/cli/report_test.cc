// SPDX-License-Identifier: Apache-2.0
#include "src/cli/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "src/cli/ustar.h"
#include "tests/cli/recordings.h"

namespace tutti::core::testing {
namespace {

using ::testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Unpacks with the system's tar, the judge of whether it is one.
void unpack(const std::string& archive, const std::string& folder) {
  const std::string command = "tar -xf '" + archive + "' -C '" + folder + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
}

TEST(ustar, is_read_by_tar) {
  const RecordingFolder folder;
  const std::string path = folder.path() + "/x.tar";
  Result<UstarWriter> archive = UstarWriter::create(path);
  ASSERT_TRUE(archive.is_ok()) << archive.status().to_string();
  const std::string long_name = "folder/" + std::string(93, 'n');  // 100 bytes: the longest
  const std::string block(512, 'b');
  ASSERT_TRUE(archive->add("folder/empty", "", 0).is_ok());
  ASSERT_TRUE(archive->add("folder/block", block, 1'700'000'000).is_ok());
  ASSERT_TRUE(archive->add(long_name, std::string(100'001, '\0'), 1).is_ok());
  EXPECT_EQ(archive->add(long_name + "n", "", 0).code(), TUTTI_INVALID_ARGUMENT);
  ASSERT_TRUE(archive->finish().is_ok());
  unpack(path, folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/folder/empty"));
  EXPECT_EQ(content_of(folder.path() + "/folder/block"), block);
  EXPECT_EQ(content_of(folder.path() + "/" + long_name), std::string(100'001, '\0'));
}

TEST(ustar, does_not_overwrite) {
  const RecordingFolder folder;
  const std::string path = folder.path() + "/x.tar";
  std::ofstream(path) << "precious";
  EXPECT_EQ(UstarWriter::create(path).status().code(), TUTTI_UNAVAILABLE);
  EXPECT_EQ(content_of(path), "precious");
}

TEST(report, packs_recorders_as_they_are_with_their_explanation) {
  const RecordingFolder folder;
  folder.add_dead([](Recorder& recorder) { write_record(*recorder.acquire(42, "dp", 0, 1), {.number = 9}); });
  const std::vector<std::string> recorders = list_recorders(folder.path());
  ASSERT_FALSE(recorders.empty());
  const std::string recorder = recorders.front();  // the folder comes first in the search order
  const Result<std::string> path =
      write_report({.job_prefix = "01234567", .run_dir = folder.path(), .output = folder.path() + "/r.tar"});
  ASSERT_TRUE(path.is_ok()) << path.status().to_string();
  unpack(path.value(), folder.path());
  const std::string unpacked = folder.path() + "/tutti-report-01234567";
  EXPECT_EQ(content_of(unpacked + "/recorders/" + recorder.substr(recorder.rfind('/') + 1)), content_of(recorder));
  EXPECT_THAT(content_of(unpacked + "/version.txt"), HasSubstr("tutti "));
  EXPECT_THAT(content_of(unpacked + "/top.txt"), HasSubstr("communicator \"dp\""));
  EXPECT_THAT(content_of(unpacked + "/top.json"), HasSubstr("\"dp\""));
  EXPECT_THAT(content_of(unpacked + "/topo.txt"), HasSubstr("cpu "));
  EXPECT_THAT(content_of(unpacked + "/topo.json"), HasSubstr("allowed_cpus"));
  EXPECT_THAT(content_of(unpacked + "/config.txt"), HasSubstr("TUTTI_LANES"));
}

TEST(report, leaves_secrets_out) {
  const RecordingFolder folder;
  folder.add_dead([](Recorder& recorder) { recorder.acquire(42, "dp", 0, 1); });
  const std::string secret = std::string(96, 'a') + std::string(160, '0');
  setenv("TUTTI_UNIQUE_ID", secret.c_str(), 1);
  const Result<std::string> path =
      write_report({.job_prefix = "01234567", .run_dir = folder.path(), .output = folder.path() + "/r.tar"});
  unsetenv("TUTTI_UNIQUE_ID");
  ASSERT_TRUE(path.is_ok()) << path.status().to_string();
  EXPECT_THAT(content_of(path.value()), ::testing::Not(HasSubstr(std::string(64, 'a'))));
  EXPECT_THAT(content_of(path.value()), HasSubstr("(set)"));
}

TEST(report, asks_which_job_is_meant) {
  const RecordingFolder folder;
  const Result<std::string> none = write_report({.job_prefix = "feed", .run_dir = folder.path(), .output = {}});
  EXPECT_EQ(none.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(none.status().to_string(), HasSubstr("no recorder of a job 'feed'"));
  const auto one = Recorder::make(folder.path(), "feedaaaa");
  const auto other = Recorder::make(folder.path(), "feedbbbb");
  const Result<std::string> two = write_report({.job_prefix = "feed", .run_dir = folder.path(), .output = {}});
  EXPECT_THAT(two.status().to_string(), HasSubstr("may be any of"));
  EXPECT_THAT(two.status().to_string(), HasSubstr("feedbbbb"));
}

}  // namespace
}  // namespace tutti::core::testing
