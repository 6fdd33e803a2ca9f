// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti::perf {

/// A number in `width` columns: "%.2f", if that is too long "%.1f", then "%.0f", then "%.1e" (width 7) or "%.0e" (6).
std::string number_in_width(double value, int width);

/// "1.50 MB": binary units, 2, 1 or 0 decimals below 10, below 100 and above.
std::string memory_text(double bytes);

/// Local time, "2026-11-30 16:00:00".
std::string time_of_day();

}  // namespace tutti::perf
