// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_options.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/text.h"
#include "src/cli/run_environment.h"

namespace tutti::core {

namespace {

// A job's ranks share one reaper that holds two pipes a rank; far above what one machine runs, far below fd limits.
constexpr std::int64_t kMaxRanks = 4096;

// Far from where sums of times overflow, and longer than anybody waits.
constexpr std::int64_t kMaxGraceNs = std::int64_t{1000} * 3600 * 1'000'000'000;

Status invalid(std::string message, std::string remedy) {
  return Status::error(TUTTI_INVALID_ARGUMENT, std::move(message)).with_remedy(std::move(remedy));
}

Status set_ranks(RunOptions& options, std::string_view value) {
  const std::optional<std::int64_t> ranks = parse_int(value);
  if (!ranks || *ranks < 1 || *ranks > kMaxRanks)
    return invalid("-n '" + std::string(value) + "' is not a number of ranks",
                   "allowed: 1 to " + std::to_string(kMaxRanks));
  options.ranks = static_cast<int>(*ranks);
  return Status::ok();
}

Status set_bind(RunOptions& options, std::string_view value) {
  if (value != "core" && value != "none")
    return invalid("--bind '" + std::string(value) + "' is not known", "allowed: core, none");
  options.bind = value == "core" ? RunBind::core : RunBind::none;
  return Status::ok();
}

Status set_grace(RunOptions& options, std::string_view value) {
  const std::optional<std::int64_t> grace = parse_duration_ns(value);
  if (!grace || *grace < 0 || *grace > kMaxGraceNs)
    return invalid("--grace '" + std::string(value) + "' is not a duration", "like 3s, 500ms or 2m, up to 1000h");
  options.grace_ns = *grace;
  return Status::ok();
}

Status set_on_failure(RunOptions& options, std::string_view value) {
  if (value != "kill" && value != "continue")
    return invalid("--on-failure '" + std::string(value) + "' is not known", "allowed: kill, continue");
  options.on_failure = value == "kill" ? RunOnFailure::kill : RunOnFailure::carry_on;
  return Status::ok();
}

Status set_prefix(RunOptions& options, std::string_view value) {
  if (value == "rank") {
    options.prefix = RunPrefix::rank;
  } else if (value == "others") {
    options.prefix = RunPrefix::others;
  } else if (value == "none") {
    options.prefix = RunPrefix::none;
  } else {
    return invalid("--prefix '" + std::string(value) + "' is not known", "allowed: rank, others, none");
  }
  return Status::ok();
}

Status set_name(RunOptions& options, std::string_view value) {
  if (value.empty()) return invalid("--name is empty", "give the job a name, or leave the option out");
  options.job_name = value;
  return Status::ok();
}

Status add_environment(RunOptions& options, std::string_view value) {
  const std::size_t equals = value.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return invalid("--env '" + std::string(value) + "' is not KEY=VALUE", "like --env TUTTI_LOG=info");
  if (is_launcher_variable(value.substr(0, equals)))
    return invalid("--env cannot set " + std::string(value.substr(0, equals)) + ": `tutti run` sets it for every rank",
                   "drop it, or use -n and --name");
  options.environment.emplace_back(value);
  return Status::ok();
}

struct Option {
  std::string_view name;
  std::string_view short_name;
  Status (*set)(RunOptions&, std::string_view value);
  const char* value;
  const char* meaning;
};

constexpr Option kOptions[] = {
    {"--ranks", "-n", set_ranks, "N", "how many ranks to start (required)"},
    {"--bind", "", set_bind, "core|none",
     "rank r runs on the r-th CPU this process may use, modulo their number [none]"},
    {"--grace", "", set_grace, "TIME", "after a failure: time to report before TERM, and again before KILL [3s]"},
    {"--on-failure", "", set_on_failure, "kill|continue", "end the other ranks when one fails, or let them run [kill]"},
    {"--env", "", add_environment, "KEY=VALUE", "an environment variable for every rank; repeatable"},
    {"--name", "", set_name, "NAME", "name of the job (TUTTI_JOB_NAME)"},
    {"--prefix", "", set_prefix, "rank|others|none", "put \"[rank] \" before lines; others: all but rank 0's [rank]"},
};

const Option* find_option(std::string_view name) {
  for (const Option& option : kOptions)
    if (option.name == name || (!option.short_name.empty() && option.short_name == name)) return &option;
  return nullptr;
}

Status unknown_option(std::string_view name) {
  std::vector<std::string_view> names = {"--no-prefix", "--help"};
  for (const Option& option : kOptions) names.push_back(option.name);
  const std::optional<std::string_view> nearest = nearest_name(name, names);
  return invalid("unknown option '" + std::string(name) + "' before the program",
                 nearest ? "did you mean " + std::string(*nearest) + "?" : "see `tutti run --help`");
}

/// One option at `arguments[index]`; leaves `index` behind its value.
Status parse_option(const std::vector<std::string>& arguments, std::size_t& index, RunOptions& options) {
  std::string_view name = arguments[index++];
  if (name == "--no-prefix") {
    options.prefix = RunPrefix::none;
    return Status::ok();
  }
  if (name == "--help" || name == "-h") {
    options.help = true;
    return Status::ok();
  }
  std::optional<std::string_view> value;
  if (const std::size_t equals = name.find('='); name.starts_with("--") && equals != std::string_view::npos) {
    value = name.substr(equals + 1);
    name = name.substr(0, equals);
  } else if (name.size() > 2 && name.starts_with("-n")) {  // -n4
    value = name.substr(2);
    name = name.substr(0, 2);
  }
  const Option* option = find_option(name);
  if (option == nullptr) return unknown_option(name);
  if (!value) {
    if (index >= arguments.size()) return invalid(std::string(name) + " needs a value", "see `tutti run --help`");
    value = arguments[index++];
  }
  return option->set(options, *value);
}

}  // namespace

Result<RunOptions> parse_run_options(const std::vector<std::string>& arguments) {
  RunOptions options;
  std::size_t index = 0;
  while (index < arguments.size() && arguments[index].starts_with('-') && arguments[index].size() > 1) {
    if (arguments[index] == "--") {
      ++index;
      break;
    }
    TUTTI_TRY(parse_option(arguments, index, options));
    if (options.help) return options;
  }
  options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(index), arguments.end());
  if (options.ranks == 0) return invalid("the number of ranks is missing", "like `tutti run -n 2 PROGRAM`");
  if (options.command.empty() || options.command[0].empty())
    return invalid("the program to run is missing", "like `tutti run -n 2 PROGRAM ARGUMENTS`");
  return options;
}

std::string run_usage() {
  std::string text =
      "usage: tutti run -n N [options] [--] PROGRAM [ARGUMENTS...]\n"
      "Starts N ranks of PROGRAM on this machine, each with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and\n"
      "TUTTI_UNIQUE_ID set. Rank 0 reads the launcher's standard input. INT, TERM, HUP, QUIT, USR1 and USR2 go to all\n"
      "ranks; a third INT kills them. No process of the job is left behind. Exits with the first failing rank's code\n"
      "(128 + signal), 126 or 127 when PROGRAM cannot be started, 2 for a wrong command line.\n\n"
      "options:\n";
  for (const Option& option : kOptions) {
    const std::string spelling = (option.short_name.empty() ? "" : std::string(option.short_name) + ", ") +
                                 std::string(option.name) + " " + option.value;
    text += text_format("  %-30s %s\n", spelling.c_str(), option.meaning);
  }
  text += text_format("  %-30s %s\n", "--no-prefix", "the same as --prefix none, for output that a program reads");
  return text;
}

}  // namespace tutti::core
