// SPDX-License-Identifier: Apache-2.0
// One line per event on stderr or in a file; never on stdout. Lower case, `key value` pairs, rank first:
//
//   TUTTI_LOG(info, rank, "link up", {"transport", "shm"}, {"peer", 7}, {"lanes", 2});
//   -> tutti 2026-11-30T16:10:11.123456Z host:4711 info rank 3 link up transport shm peer 7 lanes 2
//
// error: a call fails. warn: slower or degraded, with the remedy. info: once per communicator. debug: once per object.
// trace: per step, compiled out unless the build is a debug build. Rank -1 means "not known" and is left out.
// Arguments are not evaluated when the level is off; the check is one relaxed load.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tutti::core {

enum class LogLevel : int { none, error, warn, info, debug, trace };

std::string_view log_level_name(LogLevel level);

struct LogOptions {
  LogLevel level = LogLevel::warn;
  std::string file_pattern;  // empty: stderr. %h is the host name, %p the process id, %% a percent sign.
  bool json = false;         // one JSON object a line instead of text
  std::string job;           // appended to every line when not empty
};

/// Applies to the whole process; may be called again. On error (a file that cannot be opened) nothing changes.
Status configure_log(const LogOptions& options);

/// `pattern` with %h and %p filled in.
std::string expand_log_pattern(std::string_view pattern);

/// One value of a log line. Converts from integers, floating point, bool and anything string_view takes.
class LogValue {
 public:
  enum class Kind : std::uint8_t { signed_integer, unsigned_integer, real, boolean, text };

  LogValue(bool value) : kind_(Kind::boolean), unsigned_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::signed_integral T>
  LogValue(T value) : kind_(Kind::signed_integer), signed_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::unsigned_integral T>
  LogValue(T value) : kind_(Kind::unsigned_integer), unsigned_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::floating_point T>
  LogValue(T value) : kind_(Kind::real), real_(static_cast<double>(value)) {}  // NOLINT(google-explicit-constructor)
  LogValue(const char* value) : kind_(Kind::text), text_(value) {}             // NOLINT(google-explicit-constructor)
  LogValue(std::string_view value) : kind_(Kind::text), text_(value) {}        // NOLINT(google-explicit-constructor)
  LogValue(const std::string& value) : kind_(Kind::text), text_(value) {}      // NOLINT(google-explicit-constructor)

  void append_text(std::string& line) const;
  void append_json(std::string& line) const;

 private:
  Kind kind_;
  union {
    std::int64_t signed_;
    std::uint64_t unsigned_;
    double real_;
  };
  std::string_view text_;
};

struct LogField {
  const char* key;
  LogValue value;
};

/// Writes the line whatever the level is: TUTTI_LOG has checked it.
void write_log_line(LogLevel level, int rank, std::string_view event, std::initializer_list<LogField> fields);

namespace log_detail {
extern std::atomic<int> level;
}  // namespace log_detail

inline bool log_enabled(LogLevel level) {
#if defined(NDEBUG)
  if (level == LogLevel::trace) return false;
#endif
  return static_cast<int>(level) <= log_detail::level.load(std::memory_order_relaxed);
}

#define TUTTI_LOG(level, rank, event, ...)                                                           \
  do {                                                                                               \
    if (::tutti::core::log_enabled(::tutti::core::LogLevel::level))                                  \
      ::tutti::core::write_log_line(::tutti::core::LogLevel::level, (rank), (event), {__VA_ARGS__}); \
  } while (false)

}  // namespace tutti::core
