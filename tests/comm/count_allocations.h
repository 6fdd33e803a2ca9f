// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti::core::testing {

/// Allocations of all threads so far, in a program that links count_allocations.cc.
std::uint64_t allocations();

}  // namespace tutti::core::testing
