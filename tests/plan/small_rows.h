// SPDX-License-Identifier: Apache-2.0
// Small correct rows of reduce, gather, scatter and all_to_all for tests: direct ones, where everybody talks to the
// root or to all, and relays, which pass what they carry from hand to hand through scratch.
#pragma once

#include <span>
#include <string_view>

#include "src/plan/algorithm.h"

namespace tutti::core {

struct SmallRow {
  const char* name;
  tutti_collective what;
  int credits;
  bool forwards;
  Result<Schedule> (*build)(const BuildRequest&);
};
std::span<const SmallRow> small_rows();
Algorithm row_of(const SmallRow& row);
const SmallRow& small_row(tutti_collective what, std::string_view name);

}  // namespace tutti::core
