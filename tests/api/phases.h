// SPDX-License-Identifier: Apache-2.0
// What a rank is doing when it is killed or stopped: loops over one path of the library, every result checked.
#pragma once

#include <limits>
#include <string>

#include "tests/api/harness.h"
#include "tests/api/pattern.h"

namespace api_test {

enum class Phase { init, line, slots, fifo, registered, point_to_point, split, destroy };
constexpr Phase kAllPhases[] = {Phase::init,       Phase::line,           Phase::slots, Phase::fifo,
                                Phase::registered, Phase::point_to_point, Phase::split, Phase::destroy};
const char* name_of(Phase phase);
/// The word that an error in this phase must hold.
std::string operation_of(Phase phase);

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

/// Runs the phase's operations `rounds` times or until one fails, and counts them in board.counter[rank]. Wrong data
/// after a call that said ok is a test failure. Init is the caller's.
tutti::Status run_phase(tutti::Communicator& comm, Phase phase, Board& board, std::uint64_t rounds);

}  // namespace api_test
