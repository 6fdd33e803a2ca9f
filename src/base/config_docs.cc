// SPDX-License-Identifier: Apache-2.0
// docs/knobs.md, from the table. tests/base/config_test.cc checks that the committed page is current.
#include "src/base/config.h"

namespace tutti::core {

namespace {

std::string code(std::string_view text) { return text.empty() ? "" : "`" + std::string(text) + "`"; }

// A bar would end the table cell, even inside code.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

void append_section(std::string& page, KnobScope scope) {
  page += "| variable | key | kind | default | allowed | alias | meaning |\n";
  page += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const KnobRow& row : knob_table()) {
    if (row.scope != scope) continue;
    for (const std::string& cell : {code(row.variable), code(row.name), std::string(knob_kind_name(row.kind)),
                                    code(row.default_text), escaped(row.limits), code(row.alias), escaped(row.meaning)})
      page += "| " + cell + " ";
    page += "|\n";
  }
}

}  // namespace

std::string knobs_markdown() {
  std::string page =
      "<!-- Generated from src/base/knobs.def: build/bin/tutti config --markdown > docs/knobs.md -->\n"
      "# Knobs\n\n"
      "Set a knob by its environment variable, or by its key in the configuration text of a communicator\n"
      "(`\"lanes=4;timeout=30s\"`). Of several settings the last of this list wins: default, alias, variable,\n"
      "program. `tutti config` prints what is in force and where it comes from. A name that starts with\n"
      "`TUTTI_` and is not listed is reported with the nearest name that exists; `TUTTI_TRAIN_*`, `TUTTI_TEST_*`\n"
      "and `TUTTI_FAULT*` belong to other programs.\n\n"
      "Kinds: *boolean* 0 or 1 (also true, yes, on); *bytes* with K, M, G (powers of 1024); *duration* with us, ms,\n"
      "s, m, h, d (a bare number is seconds).\n\n"
      "## Must be the same on all ranks\n\n"
      "Compared when a communicator is created; a difference is an error that names both values and ranks.\n\n";
  append_section(page, KnobScope::agreed);
  page += "\n## May differ between ranks\n\n";
  append_section(page, KnobScope::local);
  return page;
}

}  // namespace tutti::core
