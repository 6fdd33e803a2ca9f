// SPDX-License-Identifier: Apache-2.0
#include "src/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace tutti::core {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t scale;
};

// Longest first within one family, so that "exact multiple" finds the shortest text.
constexpr Unit kByteUnits[] = {{"T", std::int64_t{1} << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}};
constexpr Unit kDurationUnits[] = {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// A non-negative decimal number at the front of `text`; what follows it becomes `rest`.
std::optional<double> leading_number(std::string_view text, std::string_view& rest) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<std::int64_t> scaled(double value, std::int64_t scale) {
  const double product = value * static_cast<double>(scale);
  if (!(product < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(product));
}

}  // namespace

std::string text_format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  char buffer[256];
  const int length = std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  std::string text;
  if (length > 0 && static_cast<std::size_t>(length) < sizeof buffer) {
    text.assign(buffer, static_cast<std::size_t>(length));
  } else if (length > 0) {
    text.resize(static_cast<std::size_t>(length));
    std::vsnprintf(text.data(), text.size() + 1, format, again);
  }
  va_end(again);
  return text;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  std::string_view rest;
  const std::optional<double> number = leading_number(text, rest);
  if (!number) return std::nullopt;
  const std::string unit = lower_case(rest);
  if (unit.empty() || unit == "b") return parse_int(text.substr(0, text.size() - rest.size()));
  for (const Unit& candidate : kByteUnits) {
    const std::string short_name = lower_case(candidate.name);
    if (unit == short_name || unit == short_name + "b" || unit == short_name + "ib")
      return scaled(*number, candidate.scale);
  }
  return std::nullopt;
}

std::optional<std::int64_t> parse_duration_ns(std::string_view text) {
  std::string_view rest;
  const std::optional<double> number = leading_number(text, rest);
  if (!number) return std::nullopt;
  const std::string unit = lower_case(rest);
  if (unit.empty()) return scaled(*number, 1'000'000'000);
  if (unit == "m" || unit == "min") return scaled(*number, 60'000'000'000);
  if (unit == "h") return scaled(*number, 3'600'000'000'000);
  if (unit == "d") return scaled(*number, 86'400'000'000'000);
  for (const Unit& candidate : kDurationUnits)
    if (unit == candidate.name) return scaled(*number, candidate.scale);
  return std::nullopt;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string value = lower_case(text);
  if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
  if (value == "0" || value == "false" || value == "no" || value == "off") return false;
  return std::nullopt;
}

std::string bytes_text(std::int64_t bytes) {
  for (const Unit& unit : kByteUnits)
    if (bytes != 0 && bytes % unit.scale == 0) return std::to_string(bytes / unit.scale) + std::string(unit.name);
  return std::to_string(bytes);
}

std::string duration_text(std::int64_t ns) {
  for (const Unit& unit : kDurationUnits)
    if (ns % unit.scale == 0) return std::to_string(ns / unit.scale) + std::string(unit.name);
  return std::to_string(ns) + "ns";
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view piece = trim(text.substr(0, end));
    if (!piece.empty()) pieces.push_back(piece);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

// Optimal string alignment: rows i-2, i-1 and i of the usual table.
int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> before(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string_view> nearest_name(std::string_view name, const std::vector<std::string_view>& candidates) {
  std::optional<std::string_view> nearest;
  int best = std::max(2, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace tutti::core
