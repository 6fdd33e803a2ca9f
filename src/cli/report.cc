// SPDX-License-Identifier: Apache-2.0
#include "src/cli/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/unique_fd.h"
#include "src/cli/config.h"
#include "src/cli/top.h"
#include "src/cli/topo.h"
#include "src/cli/ustar.h"
#include "src/cli/version.h"

namespace tutti::core {

namespace {

struct FileContent {
  std::string bytes;
  std::int64_t modified_seconds = 0;
};

/// A file as long as it was when we opened it. The recorder of a living job goes on changing: its reader copes.
Result<FileContent> read_file(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0) return Status::from_errno(errno, "cannot read " + path);
  FileContent content;
  content.modified_seconds = info.st_mtim.tv_sec;
  content.bytes.resize(static_cast<std::size_t>(info.st_size));
  std::size_t done = 0;
  while (done < content.bytes.size()) {
    const ssize_t got = read(file.get(), content.bytes.data() + done, content.bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(errno, "cannot read " + path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.bytes.resize(done);
  return content;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<JobView> choose_job(const TopPage& page, const std::string& prefix) {
  if (page.jobs.size() == 1) return page.jobs.front();
  std::string known;
  for (const JobView& job : page.jobs) known += (known.empty() ? "" : ", ") + job.id;
  if (page.jobs.empty())
    return Status::error(TUTTI_INVALID_ARGUMENT, "no recorder of a job '" + prefix + "' on this machine")
        .with_remedy("`tutti top` lists the jobs; --run-dir names another folder");
  return Status::error(TUTTI_INVALID_ARGUMENT, "'" + prefix + "' may be any of " + known)
      .with_remedy("give more digits of the job's id");
}

int make_report(const ReportRequest& request) {
  const Result<std::string> path = write_report(request);
  if (!path.is_ok()) return report_error(path.status());
  std::puts(path.value().c_str());
  return 0;
}

}  // namespace

Result<std::string> write_report(const ReportRequest& request) {
  const TopPage page = read_top({request.run_dir, request.job_prefix, true});
  TUTTI_TRY(job, choose_job(page, request.job_prefix));
  const std::string name = "tutti-report-" + (job.id.empty() ? "nojob" : job.id.substr(0, 8));
  const std::string path = request.output.empty() ? name + ".tar" : request.output;
  const std::int64_t now = page.now_ns / 1'000'000'000;
  Result<UstarWriter> created = UstarWriter::create(path);
  if (!created.is_ok()) {
    Status status = created.status();
    return std::move(status).with_remedy("choose another file with -o");
  }
  UstarWriter& archive = created.value();

  // Only this job's part of the page: other jobs are nobody's business.
  const TopPage own{{job}, 0, {}, page.folders, page.now_ns};
  const MachineFacts facts = collect_machine_facts(FactReader());
  const Result<Config> config = Config::from_environment();
  TUTTI_TRY(archive.add(name + "/version.txt", version_line() + "\n", now));
  TUTTI_TRY(archive.add(name + "/top.txt", top_text(own), now));
  TUTTI_TRY(archive.add(name + "/top.json", top_json(own), now));
  TUTTI_TRY(archive.add(name + "/topo.txt", topo_text(facts), now));
  TUTTI_TRY(archive.add(name + "/topo.json", topo_json(facts), now));
  TUTTI_TRY(archive.add(name + "/config.txt",
                        config.is_ok() ? config_text(config.value()) : config.status().to_string() + "\n", now));
  for (const std::string& recorder : job.paths) {
    const Result<FileContent> content = read_file(recorder);
    // A rank of a living job may have ended, and removed its file, since we looked.
    if (content.is_ok())
      TUTTI_TRY(archive.add(name + "/recorders/" + base_name(recorder), content.value().bytes,
                            content.value().modified_seconds));
  }
  TUTTI_TRY(archive.finish());
  return path;
}

void register_report(CLI::App& program, int& exit_code) {
  auto request = std::make_shared<ReportRequest>();
  CLI::App* command =
      program.add_subcommand("report", "Packs a job's flight recorders, this machine and the versions into a tar file");
  command->add_option("job", request->job_prefix, "The job's id or its first digits (tutti top)")->required();
  command->add_option("-o,--output", request->output, "The file to make [tutti-report-JOB.tar]");
  command->add_option("--run-dir", request->run_dir, "Look for recorders here too [TUTTI_RUN_DIR]");
  command->callback([request, &exit_code] { exit_code = make_report(*request); });
}

}  // namespace tutti::core
