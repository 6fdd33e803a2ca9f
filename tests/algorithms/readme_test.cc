// SPDX-License-Identifier: Apache-2.0
// algorithms/README.md says what the registry says: every row, in its collective's section, with its formulas and
// source, a paragraph and a picture.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/plan/algorithm.h"

namespace tutti::core {
namespace {

/// Text of each "## heading" section.
std::map<std::string, std::string> read_sections() {
  std::ifstream file(TUTTI_SOURCE_DIR "/algorithms/README.md");
  std::map<std::string, std::string> sections;
  std::string line, heading;
  while (std::getline(file, line)) {
    if (line.rfind("## ", 0) == 0) heading = line.substr(3);
    sections[heading] += line + "\n";
  }
  return sections;
}

/// Cells of the table row whose first cell is `name` in backticks; empty if there is none.
std::vector<std::string> cells_of(const std::string& section, std::string_view name) {
  const std::string begin = "| `" + std::string(name) + "` | ";
  std::istringstream lines(section);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind(begin, 0) != 0) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 2; at < line.size();) {
      const std::size_t end = std::min(line.find(" |", at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end + 3;
    }
    return cells;
  }
  return {};
}

TEST(Readme, has_every_row_with_the_registry_s_formulas) {
  const auto sections = read_sections();
  for (const Algorithm& row : algorithms()) {
    const std::string collective(collective_name(row.what)), name(row.name);
    const auto section = sections.find(collective);
    ASSERT_NE(section, sections.end()) << "no section \"## " << collective << "\"";
    const std::vector<std::string> cells = cells_of(section->second, name);
    const std::string label = collective + "/" + name;
    ASSERT_EQ(cells.size(), 7u) << label << " has no line \"| `" << name << "` | " << row.steps << " | " << row.bytes
                                << " | reduced | messages | credits | " << row.source << " |\"";
    EXPECT_EQ(cells[1], row.steps) << label << ": steps";
    EXPECT_EQ(cells[2], row.bytes) << label << ": bytes";
    EXPECT_EQ(cells[5], std::to_string(row.needs.credits)) << label << ": credits";
    EXPECT_EQ(cells[6], row.source) << label << ": source";
    const std::string paragraph =
        "\n**`" + name + "`** ([picture](../docs/pictures/" + collective + "_" + name + "_8.svg)): ";
    EXPECT_NE(section->second.find(paragraph), std::string::npos)
        << label << " has no paragraph that begins with \"" << paragraph.substr(1) << "\"";
  }
}

TEST(Readme, has_no_row_that_the_registry_lacks) {
  for (const auto& section : read_sections()) {
    const auto what = find_collective(section.first);
    if (!what) continue;
    std::istringstream lines(section.second);
    std::string line;
    while (std::getline(lines, line)) {
      if (line.rfind("| `", 0) != 0) continue;
      const std::string name = line.substr(3, line.find('`', 3) - 3);
      EXPECT_NE(find_algorithm(*what, name), nullptr) << section.first << " has no row " << name;
    }
  }
}

}  // namespace
}  // namespace tutti::core
