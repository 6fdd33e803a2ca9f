// SPDX-License-Identifier: Apache-2.0
// A benchmark program of perf/programs (linked in under another name) whose operation also writes into the receive
// buffer of ranks that are not the root. It proves that the program notices. Tests only.
#include <algorithm>

#include "perf/common/program.h"

namespace tutti::perf {

const Program& program_under_test();

namespace {

tutti_code launch(const Call& call) {
  const tutti_code code = program_under_test().launch(call);
  if (code == TUTTI_OK && call.rank != call.row.root && call.row.operands.recv > 0) {
    char& last = static_cast<char*>(call.recv)[call.row.operands.recv * call.row.element_bytes - 1];
    last = static_cast<char>(last ^ 1);
  }
  return code;
}

Program make_program() {
  Program program = program_under_test();
  program.launch = launch;
  return program;
}

}  // namespace

const Program& this_program() {
  static const Program program = make_program();
  return program;
}

}  // namespace tutti::perf
