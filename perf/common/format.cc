// SPDX-License-Identifier: Apache-2.0
#include "perf/common/format.h"

#include <cmath>
#include <cstdio>
#include <ctime>

namespace tutti::perf {

std::string number_in_width(double value, int width) {
  char text[512];  // %.2f of the largest double has 312 characters
  for (const char* format : {"%*.2f", "%*.1f", "%*.0f"}) {
    const int length = std::snprintf(text, sizeof text, format, width, value);
    if (length <= width) return text;
  }
  std::snprintf(text, sizeof text, width >= 7 ? "%*.1e" : "%*.0e", width, value);
  return text;
}

std::string memory_text(double bytes) {
  const char* unit = " B";
  for (const char* larger : {" KB", " MB", " GB"}) {
    if (std::fabs(bytes) < 1024) break;
    bytes /= 1024;
    unit = larger;
  }
  const double size = std::fabs(bytes);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f%s", size < 10 ? 2 : (size < 100 ? 1 : 0), bytes, unit);
  return text;
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

}  // namespace tutti::perf
