// SPDX-License-Identifier: Apache-2.0
#include "src/base/config.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "src/base/text.h"
#include "src/base/types.h"

namespace tutti::core {

namespace {

constexpr std::array<KnobRow, kKnobCount> kTable = {{
#define KNOB(name, kind, variable, default_text, limits, alias, scope, meaning) \
  {Knob::name, KnobKind::kind, KnobScope::scope, #name, variable, default_text, limits, alias, meaning},
#include "src/base/knobs.def"
#undef KNOB
}};
static_assert(kKnobCount <= 40, "at most about 40 knobs: drop one before adding one");

// Prefixes that belong to others: the trainer, tests and the faulty transport.
constexpr std::string_view kReservedPrefixes[] = {"TUTTI_TRAIN_", "TUTTI_TEST_", "TUTTI_FAULT"};

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

std::optional<std::int64_t> parse_number(KnobKind kind, std::string_view text) {
  switch (kind) {
    case KnobKind::integer: return parse_int(text);
    case KnobKind::bytes: return parse_bytes(text);
    case KnobKind::duration: return parse_duration_ns(text);
    default: return std::nullopt;
  }
}

std::string number_text(KnobKind kind, std::int64_t number) {
  if (kind == KnobKind::bytes) return bytes_text(number);
  if (kind == KnobKind::duration) return duration_text(number);
  return std::to_string(number);
}

// "what is allowed" of an error text, by kind.
std::string allowed_text(const KnobRow& row) {
  const std::string limits(row.limits);
  switch (row.kind) {
    case KnobKind::boolean: return "0 or 1";
    case KnobKind::integer: return "a whole number in " + limits;
    case KnobKind::bytes: return "bytes in " + limits + ", such as 64K or 1M";
    case KnobKind::duration: return "a time in " + limits + ", such as 500ms, 30s or 5m";
    case KnobKind::choice: return "one of " + limits;
    default: return "any text";
  }
}

Status bad_value(const KnobRow& row, std::string_view value, std::string_view shown_name) {
  return Status::error(TUTTI_INVALID_ARGUMENT,
                       std::string(shown_name) + " is \"" + std::string(value) + "\"; allowed: " + allowed_text(row))
      .with_remedy(std::string(row.meaning));
}

std::optional<std::int64_t> choice_index(std::string_view limits, std::string_view value) {
  const std::string wanted = lower_case(value);
  const std::vector<std::string_view> choices = split(limits, '|');
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices[i] == wanted) return static_cast<std::int64_t>(i);
  return std::nullopt;
}

bool within(const KnobRow& row, std::int64_t number) {
  const std::size_t dots = row.limits.find("..");
  if (dots == std::string_view::npos) return true;
  const auto low = parse_number(row.kind, row.limits.substr(0, dots));
  const auto high = parse_number(row.kind, row.limits.substr(dots + 2));
  return low && high && *low <= number && number <= *high;
}

// NCCL's level names onto ours; other aliases share our grammar.
std::string translate_alias(const KnobRow& row, std::string_view value) {
  if (row.knob != Knob::log_level) return std::string(value);
  std::string level = lower_case(value);
  if (level == "version") return "error";
  if (level == "abort") return "info";
  return level;
}

// A plain row name, or "collective:row" pairs.
Status check_algorithm(const KnobRow& row, std::string_view value, std::string_view shown_name) {
  const std::vector<std::string_view> pieces = split(value, ',');
  for (const std::string_view piece : pieces) {
    const std::size_t colon = piece.find(':');
    if (colon == std::string_view::npos && pieces.size() == 1) continue;
    if (colon != std::string_view::npos && find_collective(piece.substr(0, colon)) && colon + 1 < piece.size())
      continue;
    std::string known;
    for (const std::string_view name : kCollectiveNames) known += (known.empty() ? "" : ", ") + std::string(name);
    return Status::error(TUTTI_INVALID_ARGUMENT, std::string(shown_name) + " is \"" + std::string(value) + "\": \"" +
                                                     std::string(piece) +
                                                     "\" is not COLLECTIVE:ALGORITHM; collectives: " + known)
        .with_remedy(std::string(row.meaning));
  }
  return Status::ok();
}

const KnobRow* find_by_name(std::string_view name) {
  for (const KnobRow& row : kTable)
    if (row.name == name) return &row;
  return nullptr;
}

const std::string* find_variable(const Config::Environment& environment, std::string_view name) {
  if (name.empty()) return nullptr;
  for (const auto& [key, value] : environment)
    if (key == name) return &value;
  return nullptr;
}

std::string did_you_mean(std::string_view name, bool variables) {
  std::vector<std::string_view> candidates;
  for (const KnobRow& row : kTable) candidates.push_back(variables ? row.variable : row.name);
  const std::optional<std::string_view> nearest = nearest_name(name, candidates);
  return nearest ? "did you mean " + std::string(*nearest) + "?" : "`tutti config` lists all";
}

bool is_unknown_variable(std::string_view name) {
  if (!starts_with(name, "TUTTI_")) return false;
  for (const std::string_view prefix : kReservedPrefixes)
    if (starts_with(name, prefix)) return false;
  return std::none_of(kTable.begin(), kTable.end(), [&](const KnobRow& row) { return row.variable == name; });
}

bool is_ignored_variable(std::string_view name) {
  return starts_with(name, "NCCL_") &&
         std::none_of(kTable.begin(), kTable.end(), [&](const KnobRow& row) { return row.alias == name; });
}

std::vector<std::pair<std::string_view, std::string_view>> key_value_pairs(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const std::string_view piece : split(text, ';')) {
    const std::size_t equals = std::min(piece.find('='), piece.size());
    pairs.emplace_back(trim(piece.substr(0, equals)), trim(piece.substr(std::min(equals + 1, piece.size()))));
  }
  return pairs;
}

}  // namespace

const std::array<KnobRow, kKnobCount>& knob_table() { return kTable; }
const KnobRow& knob_row(Knob knob) { return kTable[static_cast<std::size_t>(knob)]; }

std::string_view knob_kind_name(KnobKind kind) {
  constexpr std::string_view kNames[] = {"boolean", "integer", "bytes", "duration", "string", "secret", "choice"};
  return kNames[static_cast<std::size_t>(kind)];
}

Config::Config() {
  for (const KnobRow& row : kTable) {
    const Status status = set(row, row.default_text, Origin::standard, row.name);
    TUTTI_CHECK(status.is_ok());
  }
}

Result<Config::Entry> Config::parse(const KnobRow& row, std::string_view value, std::string_view shown_name) {
  Entry entry;
  std::optional<std::int64_t> number;
  switch (row.kind) {
    case KnobKind::string:
    case KnobKind::secret:
      if (row.knob == Knob::algorithm) TUTTI_TRY(check_algorithm(row, value, shown_name));
      entry.string = std::string(value);
      return entry;
    case KnobKind::boolean:
      if (const std::optional<bool> on = parse_bool(value)) number = *on ? 1 : 0;
      break;
    case KnobKind::choice: number = choice_index(row.limits, value); break;
    default: number = parse_number(row.kind, value);
  }
  if (!number || !within(row, *number)) return bad_value(row, value, shown_name);
  entry.number = *number;
  return entry;
}

Status Config::set(const KnobRow& row, std::string_view value, Origin origin, std::string_view shown_name) {
  TUTTI_TRY(parsed, parse(row, trim(value), shown_name));
  parsed.origin = origin;
  entries_[static_cast<std::size_t>(row.knob)] = std::move(parsed);
  return Status::ok();
}

Result<Config> Config::from_environment() { return from_environment(process_environment()); }

Result<Config> Config::from_environment(const Environment& environment) {
  return from_text_and_environment("", environment);
}

Result<Config> Config::from_text_and_environment(std::string_view text, const Environment& environment) {
  Config config;
  TUTTI_TRY(config.overlay_environment(environment));
  TUTTI_TRY(config.overlay_text(text));
  return config;
}

Status Config::overlay_text(std::string_view text) {
  Config changed = *this;
  for (const auto& [key, value] : key_value_pairs(text)) {
    const KnobRow* row = find_by_name(key);
    if (row == nullptr)
      return Status::error(TUTTI_INVALID_ARGUMENT, "unknown configuration key \"" + std::string(key) + "\"")
          .with_remedy(did_you_mean(key, false));
    // An operator who set the variable should learn that it does nothing.
    if (changed.origin(row->knob) == Origin::environment)
      changed.warnings_.push_back(std::string(row->variable) + " has no effect: the program sets " + std::string(key));
    TUTTI_TRY(changed.set(*row, value, Origin::api, "configuration key " + std::string(key)));
  }
  *this = std::move(changed);
  return Status::ok();
}

Status Config::overlay_environment(const Environment& environment) {
  for (const KnobRow& row : kTable) {
    const std::string shown(row.variable);
    if (origin(row.knob) == Origin::api) continue;
    if (const std::string* value = find_variable(environment, row.variable)) {
      TUTTI_TRY(set(row, *value, Origin::environment, shown));
      continue;
    }
    const std::string* value = find_variable(environment, row.alias);
    if (value == nullptr || origin(row.knob) == Origin::environment) continue;
    const Status status = set(row, translate_alias(row, *value), Origin::alias, row.alias);
    // NCCL shrugs off a bad value of its own variables; a launcher's wrong number must not pass.
    if (!status.is_ok() && starts_with(row.alias, "NCCL_"))
      warnings_.push_back(status.message() + "; ignored");
    else
      TUTTI_TRY(status);
  }
  for (const auto& [name, value] : environment) {
    if (is_unknown_variable(name)) warnings_.push_back("unknown variable " + name + "; " + did_you_mean(name, true));
    if (is_ignored_variable(name)) ignored_.push_back(name);
  }
  return Status::ok();
}

std::string Config::text(Knob knob) const {
  const KnobRow& row = knob_row(knob);
  switch (row.kind) {
    case KnobKind::string: return string(knob);
    case KnobKind::secret: return string(knob).empty() ? "" : "(set)";
    case KnobKind::choice: return std::string(split(row.limits, '|')[static_cast<std::size_t>(number(knob))]);
    default: return number_text(row.kind, number(knob));
  }
}

std::string Config::origin_text(Knob knob) const {
  const KnobRow& row = knob_row(knob);
  switch (origin(knob)) {
    case Origin::standard: return "default";
    case Origin::alias: return "alias " + std::string(row.alias);
    case Origin::environment: return "environment " + std::string(row.variable);
    case Origin::api: return "api";
  }
  return "unknown";
}

std::string_view Config::forced_algorithm(tutti_collective what) const {
  for (const std::string_view piece : split(algorithm(), ',')) {
    const std::size_t colon = piece.find(':');
    if (colon == std::string_view::npos) return piece;
    if (piece.substr(0, colon) == collective_name(what)) return piece.substr(colon + 1);
  }
  return {};
}

Result<std::optional<LaunchInfo>> Config::launch_info() const {
  const auto shown = [&](Knob knob) {
    const KnobRow& row = knob_row(knob);
    const std::string_view name = origin(knob) == Origin::alias ? row.alias : row.variable;
    return std::string(name) + "=" + text(knob);
  };
  const auto contradiction = [&](Knob a, Knob b) {
    return Status::error(TUTTI_INVALID_ARGUMENT, shown(a) + " and " + shown(b) + " contradict each other")
        .with_remedy(
            "a launcher sets RANK and WORLD_SIZE both, with 0 <= RANK < WORLD_SIZE, and likewise LOCAL_RANK "
            "and LOCAL_WORLD_SIZE");
  };
  if ((rank() < 0) != (world_size() < 1) || rank() >= std::max(world_size(), 1))
    return contradiction(Knob::rank, Knob::world_size);
  const bool has_local_size = local_world_size() >= 1;
  if (has_local_size && (local_rank() < 0 || local_rank() >= local_world_size()))
    return contradiction(Knob::local_rank, Knob::local_world_size);
  if (rank() < 0) return std::optional<LaunchInfo>();
  if (local_world_size() > world_size()) return contradiction(Knob::local_world_size, Knob::world_size);
  return std::optional<LaunchInfo>({rank(), world_size(), local_rank(), has_local_size ? local_world_size() : -1});
}

std::string Config::agreed_text() const {
  std::string result;
  for (const KnobRow& row : kTable)
    if (row.scope == KnobScope::agreed)
      result += (result.empty() ? "" : ";") + std::string(row.name) + "=" + text(row.knob);
  return result;
}

Status Config::compare_agreed(int own_rank, std::string_view other_text, int other_rank) const {
  const auto theirs = key_value_pairs(other_text);
  for (const KnobRow& row : kTable) {
    if (row.scope != KnobScope::agreed) continue;
    const auto found =
        std::find_if(theirs.begin(), theirs.end(), [&](const auto& pair) { return pair.first == row.name; });
    const std::string_view other_value = found == theirs.end() ? "missing (another version of Tutti?)" : found->second;
    const std::string own_value = text(row.knob);
    if (own_value == other_value) continue;
    return Status::error(TUTTI_MISMATCH,
                         std::string(row.name) + " differs: rank " + std::to_string(own_rank) + " has \"" + own_value +
                             "\" (" + origin_text(row.knob) + "), rank " + std::to_string(other_rank) + " has \"" +
                             std::string(other_value) + "\"",
                         other_rank)
        .with_remedy("set " + std::string(row.variable) + " alike on all ranks");
  }
  return Status::ok();
}

Status Config::apply_to_process() const {
  TUTTI_TRY(configure_log({log_level(), log_file(), log_json(), job_name()}));
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return Status::ok();
  for (const std::string& warning : warnings_) TUTTI_LOG(warn, rank(), warning);
  for (const std::string& name : ignored_) TUTTI_LOG(info, rank(), "variable without effect on tutti", {"name", name});
  return Status::ok();
}

Config::Environment process_environment() {
  Config::Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace_back(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return environment;
}

std::optional<std::string> environment_value(std::string_view name) {
  for (auto& [key, value] : process_environment())
    if (key == name) return value;
  return std::nullopt;
}

}  // namespace tutti::core
