// SPDX-License-Identifier: Apache-2.0
#include "src/base/log.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <deque>
#include <iterator>
#include <mutex>

#include "src/base/clock.h"
#include "src/base/text.h"

namespace tutti::core {

namespace log_detail {
std::atomic<int> level{static_cast<int>(LogLevel::warn)};
}  // namespace log_detail

namespace {

constexpr std::string_view kLevelNames[] = {"none", "error", "warn", "info", "debug", "trace"};

// The logger is the library's only state outside objects. Writers never lock: they load the destination once and
// append with one write(2). A replaced file stays open and a replaced text stays allocated, as a writer may still hold
// them; reconfiguration is rare. Nothing here is destroyed at exit, when other threads may still log.
std::atomic<int> destination{STDERR_FILENO};
std::atomic<bool> json_lines{false};
std::atomic<const std::string*> job{nullptr};
std::atomic<const std::string*> open_file{nullptr};
std::mutex configure_mutex;

const std::string* keep_text(std::string text) {
  static auto* kept = new std::deque<std::string>;  // guarded by configure_mutex
  return &kept->emplace_back(std::move(text));
}

std::string read_host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown-host";
  return name;
}

const std::string& host_name() {
  static const std::string& name = *new std::string(read_host_name());
  return name;
}

std::string time_text(std::int64_t ns) {
  const time_t seconds = static_cast<time_t>(ns / 1'000'000'000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char date[32];
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  return text_format("%s.%06dZ", date, static_cast<int>(ns % 1'000'000'000 / 1'000));
}

void append_json_string(std::string& line, std::string_view text) {
  line += '"';
  for (const char c : text) {
    switch (c) {
      case '"': line += "\\\""; break;
      case '\\': line += "\\\\"; break;
      case '\n': line += "\\n"; break;
      case '\t': line += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          line += text_format("\\u%04x", static_cast<unsigned>(c));
        else
          line += c;
    }
  }
  line += '"';
}

// Quoted only where a reader could not tell where the value ends; always one line.
void append_plain(std::string& line, std::string_view text) {
  const bool plain = !text.empty() && text.find_first_of(" \t\r\n\"") == std::string_view::npos;
  if (plain)
    line += text;
  else
    append_json_string(line, text);
}

std::string text_line(LogLevel level, int rank, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "tutti " + time_text(wall_ns()) + ' ' + host_name() + ':' + std::to_string(getpid()) + ' ';
  line += log_level_name(level);
  if (rank >= 0) line += " rank " + std::to_string(rank);
  line += ' ';
  for (const char c : event) line += c == '\n' ? ' ' : c;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += ' ';
    field.value.append_text(line);
  }
  if (const std::string* name = job.load(std::memory_order_acquire); name != nullptr && !name->empty()) {
    line += " job ";
    append_plain(line, *name);
  }
  return line += '\n';
}

std::string json_line(LogLevel level, int rank, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "{\"time\":\"" + time_text(wall_ns()) + "\",\"host\":";
  append_json_string(line, host_name());
  line += ",\"pid\":" + std::to_string(getpid()) + ",\"level\":";
  append_json_string(line, log_level_name(level));
  if (rank >= 0) line += ",\"rank\":" + std::to_string(rank);
  line += ",\"event\":";
  append_json_string(line, event);
  for (const LogField& field : fields) {
    line += ',';
    append_json_string(line, field.key);
    line += ':';
    field.value.append_json(line);
  }
  if (const std::string* name = job.load(std::memory_order_acquire); name != nullptr && !name->empty()) {
    line += ",\"job\":";
    append_json_string(line, *name);
  }
  return line += "}\n";
}

// One write per line keeps lines of several threads and processes whole (O_APPEND, or a pipe up to PIPE_BUF).
void write_whole(std::string_view line) {
  const int fd = destination.load(std::memory_order_acquire);
  while (!line.empty()) {
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody to tell
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  const auto index = static_cast<std::size_t>(level);
  return index < std::size(kLevelNames) ? kLevelNames[index] : "unknown";
}

std::string expand_log_pattern(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      path += pattern[i];
      continue;
    }
    if (next == 'h') path += host_name();
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
    ++i;
  }
  return path;
}

Status configure_log(const LogOptions& options) {
  const std::lock_guard lock(configure_mutex);
  const std::string path = expand_log_pattern(options.file_pattern);
  const std::string* current = open_file.load(std::memory_order_relaxed);
  if (path.empty()) {
    destination.store(STDERR_FILENO, std::memory_order_release);
    open_file.store(nullptr, std::memory_order_relaxed);
  } else if (current == nullptr || *current != path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
      return Status::from_errno(errno, "log file " + path)
          .with_remedy("TUTTI_DEBUG_FILE names a file in an existing, writable folder; unset: standard error");
    // release: pairs with the acquire in write_whole, so the file is open before its number is used.
    destination.store(fd, std::memory_order_release);
    open_file.store(keep_text(path), std::memory_order_relaxed);
  }
  const std::string* name = job.load(std::memory_order_relaxed);
  if (name == nullptr || *name != options.job) job.store(keep_text(options.job), std::memory_order_release);
  json_lines.store(options.json, std::memory_order_relaxed);
  log_detail::level.store(static_cast<int>(options.level), std::memory_order_relaxed);
  return Status::ok();
}

void LogValue::append_text(std::string& line) const {
  switch (kind_) {
    case Kind::signed_integer: line += std::to_string(signed_); break;
    case Kind::unsigned_integer: line += std::to_string(unsigned_); break;
    case Kind::real: line += text_format("%.6g", real_); break;
    case Kind::boolean: line += unsigned_ != 0 ? "yes" : "no"; break;
    case Kind::text: append_plain(line, text_); break;
  }
}

void LogValue::append_json(std::string& line) const {
  switch (kind_) {
    case Kind::boolean: line += unsigned_ != 0 ? "true" : "false"; break;
    case Kind::text: append_json_string(line, text_); break;
    case Kind::real:
      // JSON has no NaN or infinity.
      if (std::isfinite(real_))
        line += text_format("%.9g", real_);
      else
        line += "null";
      break;
    default: append_text(line);
  }
}

void write_log_line(LogLevel level, int rank, std::string_view event, std::initializer_list<LogField> fields) {
  const bool json = json_lines.load(std::memory_order_relaxed);
  write_whole(json ? json_line(level, rank, event, fields) : text_line(level, rank, event, fields));
}

}  // namespace tutti::core
