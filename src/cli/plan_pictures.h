// SPDX-License-Identifier: Apache-2.0
// `tutti plan --pictures FOLDER`: the drawings of docs/pictures, one a row.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

/// "all_reduce_ring_8.svg".
std::string picture_name(const Algorithm& row);
/// The row's schedules over 8 ranks, root 0, as SVG. The same bytes everywhere; no source lines, so that a picture
/// changes only with its algorithm.
Result<std::string> picture_of(const Algorithm& row);
/// Writes the pictures of all rows into `folder`, which must exist. Errors name the file.
Status write_pictures(const std::string& folder);

}  // namespace tutti::core
