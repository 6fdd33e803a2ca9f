// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti::perf {

/// Exit statuses of nccl-tests (2, CUDA, cannot happen here). 255, bad arguments, is options.cc's.
enum class ExitCode : int {
  ok = 0,
  internal = 1,
  library = 3,
  timeout = 4,
  not_available = 5,
  invalid_usage = 6,
  wrong_data = 7,
};

/// Whether the table is in the middle of a line, which a failure then ends first.
void set_line_open(bool open);

/// Name of this machine up to the first dot.
std::string host_name();

/// Turns a result of Tutti into an exit code. On failure prints, as nccl-tests does, one line on stdout:
/// `HOST: Test Tutti failure FILE:LINE 'WHAT: peer_lost / TEXT OF tutti_last_error'`. WHAT names rank and operation.
ExitCode checked(tutti_code code, const std::string& what, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());
/// The same for an operation with the deadline of -T: `HOST: Test timeout (5s) FILE:LINE ...`, ExitCode::timeout.
ExitCode checked_within(tutti_code code, int timeout_s, const std::string& what, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());
/// A failure outside Tutti.
ExitCode failed(ExitCode code, const std::string& what, const char* file = __builtin_FILE(),
                int line = __builtin_LINE());
/// ` .. HOST pid N: Test failure FILE:LINE`: one line for each level that passes a failure on.
ExitCode passed_on(ExitCode code, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace tutti::perf
