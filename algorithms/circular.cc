// SPDX-License-Identifier: Apache-2.0
#include "algorithms/circular.h"

namespace tutti::core {

namespace {

/// The lane of the messages between members `from` and `from` + `distance`, counted around. Members and these pairs
/// form cycles; neighbouring pairs of a cycle must have different lanes, since what a member sends on one it must not
/// receive on. So lanes 0 and 1 take turns, and lane 2 closes the cycle where its length may be odd. Five members,
/// distance 2:   0 -0- 2 -1- 4 -2- 1 -0- 3 -2- 0
std::uint8_t lane_between(int from, int distance, int members) {
  if (2 * distance > members) return lane_between((from + distance) % members, members - distance, members);
  const bool even = members % (2 * distance) == 0;
  if (!even && from + distance >= members) return 2;
  return static_cast<std::uint8_t>(from / distance % 2);
}

}  // namespace

Flow circular_flow(int member, int members, const std::vector<ShiftRound>& rounds) {
  Flow flow;
  for (const ShiftRound& shifts : rounds) {
    FlowRound round;
    std::uint8_t first_lane = 0;  // of this shift
    for (const Shift& shift : shifts) {
      const int left = (member - shift.distance + members) % members, right = (member + shift.distance) % members;
      const auto sending = static_cast<std::uint8_t>(first_lane + lane_between(left, shift.distance, members));
      const auto receiving = static_cast<std::uint8_t>(first_lane + lane_between(member, shift.distance, members));
      for (const int offset : shift.offsets) {
        round.sends.push_back({left, static_cast<std::uint32_t>((member + offset) % members), sending});
        round.receives.push_back({right, static_cast<std::uint32_t>((right + offset) % members), receiving});
      }
      first_lane = static_cast<std::uint8_t>(first_lane + 3);
    }
    flow.push_back(std::move(round));
  }
  return flow;
}

std::vector<int> offsets_below(int count) {
  std::vector<int> offsets;
  for (int offset = 0; offset < count; ++offset) offsets.push_back(offset);
  return offsets;
}

}  // namespace tutti::core
