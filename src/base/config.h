// SPDX-License-Identifier: Apache-2.0
// The typed configuration of one communicator. Every knob is one row of knobs.def; config.cc holds the project's only
// access to the environment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/base/status.h"

namespace tutti::core {

enum class Knob : std::uint8_t {
#define KNOB(name, kind, variable, default_text, limits, alias, scope, meaning) name,
#include "src/base/knobs.def"
#undef KNOB
};

#define KNOB(name, kind, variable, default_text, limits, alias, scope, meaning) +1
inline constexpr std::size_t kKnobCount = 0
#include "src/base/knobs.def"
    ;
#undef KNOB

enum class KnobKind : std::uint8_t { boolean, integer, bytes, duration, string, secret, choice };
enum class KnobScope : std::uint8_t { agreed, local };

/// One row of the table, as written there.
struct KnobRow {
  Knob knob;
  KnobKind kind;
  KnobScope scope;
  std::string_view name, variable, default_text, limits, alias, meaning;
};
const std::array<KnobRow, kKnobCount>& knob_table();
const KnobRow& knob_row(Knob knob);
std::string_view knob_kind_name(KnobKind kind);

/// Who set a value. A later one wins: the program has the last word, as it may be told by its own options.
enum class Origin : std::uint8_t { standard, alias, environment, api };

/// The launcher's variables, checked against each other. Some launchers leave the local ones out: -1.
struct LaunchInfo {
  int rank = 0, world_size = 1;
  int local_rank = -1, local_world_size = -1;
};

class Config {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// The defaults of the table.
  Config();

  /// Defaults with the environment (of this process, or the given one) laid over.
  static Result<Config> from_environment();
  static Result<Config> from_environment(const Environment& environment);
  /// As above with "key=value;key=value", the configuration text of the C ABI, laid over both.
  static Result<Config> from_text_and_environment(std::string_view text, const Environment& environment);

  /// Sets knobs by name from "key=value;key=value" (origin api). All or nothing.
  Status overlay_text(std::string_view text);
  Status overlay_environment(const Environment& environment);

// config.lanes(), config.timeout_ns(), config.run_dir() ...
#define TUTTI_GETTER_boolean(name) \
  bool name() const { return number(Knob::name) != 0; }
#define TUTTI_GETTER_integer(name) \
  int name() const { return static_cast<int>(number(Knob::name)); }
#define TUTTI_GETTER_bytes(name) \
  std::size_t name() const { return static_cast<std::size_t>(number(Knob::name)); }
#define TUTTI_GETTER_duration(name) \
  std::int64_t name##_ns() const { return number(Knob::name); }
#define TUTTI_GETTER_string(name) \
  const std::string& name() const { return string(Knob::name); }
#define TUTTI_GETTER_secret(name) TUTTI_GETTER_string(name)
#define TUTTI_GETTER_choice(name) \
  int name##_index() const { return static_cast<int>(number(Knob::name)); }
#define KNOB(name, kind, variable, default_text, limits, alias, scope, meaning) TUTTI_GETTER_##kind(name)
#include "src/base/knobs.def"
#undef KNOB

  LogLevel log_level() const { return static_cast<LogLevel>(log_level_index()); }

  /// The value as text ("128K", "300s", "warn"); secrets come out as "(set)" or "".
  std::string text(Knob knob) const;
  Origin origin(Knob knob) const { return entry(knob).origin; }
  /// "default", "alias NCCL_DEBUG", "environment TUTTI_LANES", "api".
  std::string origin_text(Knob knob) const;

  /// The row forced for a collective by the algorithm knob; empty: the selector chooses.
  std::string_view forced_algorithm(tutti_collective what) const;

  /// nullopt when no launcher set RANK and WORLD_SIZE; an error when they contradict each other.
  Result<std::optional<LaunchInfo>> launch_info() const;

  /// The agreed knobs as "key=value;key=value", to be sent to other ranks.
  std::string agreed_text() const;
  /// An error naming both values and both ranks where `other_text`, the agreed_text() of `other_rank`, differs.
  Status compare_agreed(int own_rank, std::string_view other_text, int other_rank) const;

  /// What was strange about the environment (unknown TUTTI_* names and the like), for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// NCCL_* variables that are set and mean nothing here.
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// Configures the log from this configuration and, the first time in the process, logs warnings() and ignored().
  Status apply_to_process() const;

 private:
  struct Entry {
    std::int64_t number = 0;
    std::string string;
    Origin origin = Origin::standard;
  };
  const Entry& entry(Knob knob) const { return entries_[static_cast<std::size_t>(knob)]; }
  std::int64_t number(Knob knob) const { return entry(knob).number; }
  const std::string& string(Knob knob) const { return entry(knob).string; }
  Status set(const KnobRow& row, std::string_view value, Origin origin, std::string_view shown_name);
  static Result<Entry> parse(const KnobRow& row, std::string_view value, std::string_view shown_name);

  std::array<Entry, kKnobCount> entries_;
  std::vector<std::string> warnings_, ignored_;
};

/// This process's environment. For what is not a knob: XDG_RUNTIME_DIR, variables passed on by the launcher,
/// TUTTI_TEST_* and TUTTI_FAULT.
Config::Environment process_environment();
std::optional<std::string> environment_value(std::string_view name);

/// docs/knobs.md.
std::string knobs_markdown();

}  // namespace tutti::core
