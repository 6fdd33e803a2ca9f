// SPDX-License-Identifier: Apache-2.0
// Reading and writing the small texts of options, knobs and messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::core {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text_format(const char* format, ...);

/// Whole-text parsers: nullopt for anything left over, out of range or empty.
std::optional<std::int64_t> parse_int(std::string_view text);
/// "4", "128K", "1M", "2G": powers of 1024, also "KB", "KiB", any case.
std::optional<std::int64_t> parse_bytes(std::string_view text);
/// "300s", "50ms", "5m", "20us", "1h", "2d", "1.5s"; a bare number is seconds. Nanoseconds.
std::optional<std::int64_t> parse_duration_ns(std::string_view text);
/// 1 0 true false yes no on off, any case.
std::optional<bool> parse_bool(std::string_view text);

/// Shortest exact form: 131072 -> "128K", 1000 -> "1000".
std::string bytes_text(std::int64_t bytes);
/// Shortest exact form: 300'000'000'000 -> "300s", 1'500'000 -> "1500us".
std::string duration_text(std::int64_t ns);

std::string lower_case(std::string_view text);
std::string_view trim(std::string_view text);
/// Pieces between separators, trimmed; empty pieces are left out.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Insertions, deletions, replacements and swaps of neighbours between two texts.
int edit_distance(std::string_view a, std::string_view b);
/// The candidate to offer in "did you mean"; nullopt when none is within a third of the name's length (at least 2).
std::optional<std::string_view> nearest_name(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace tutti::core
