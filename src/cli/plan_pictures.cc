// SPDX-License-Identifier: Apache-2.0
#include "src/cli/plan_pictures.h"

#include <fstream>

#include "src/base/types.h"
#include "src/plan/check.h"
#include "src/plan/render.h"
#include "src/plan/serialize.h"

namespace tutti::core {

namespace {

constexpr int kRanks = 8;

}  // namespace

std::string picture_name(const Algorithm& row) {
  return std::string(collective_name(row.what)) + "_" + std::string(row.name) + "_" + std::to_string(kRanks) + ".svg";
}

Result<std::string> picture_of(const Algorithm& row) {
  TUTTI_TRY(schedules, build_all(row, kRanks, 0));
  const PlanTitle title{std::string(collective_name(row.what)), std::string(row.name), 0, false};
  return to_svg(draw(schedules, title));
}

Status write_pictures(const std::string& folder) {
  for (const Algorithm& row : algorithms()) {
    TUTTI_TRY(picture, picture_of(row));
    const std::string path = folder + "/" + picture_name(row);
    std::ofstream file(path, std::ios::binary);
    file << picture;
    file.close();
    if (!file) return Status::error(TUTTI_UNAVAILABLE, "cannot write " + path).with_remedy("does the folder exist?");
  }
  return {};
}

}  // namespace tutti::core
