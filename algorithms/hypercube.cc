// SPDX-License-Identifier: Apache-2.0
#include "algorithms/hypercube.h"

namespace tutti::core {

namespace {

/// The lane on which `member` sends over `distance`; its peer, whose bit differs, sends on the other.
std::uint8_t sending_lane(int member, int distance) { return (member & distance) != 0 ? 1 : 0; }

FlowRound exchange(int member, int distance, const std::vector<std::uint32_t>& sends,
                   const std::vector<std::uint32_t>& receives) {
  const int peer = member ^ distance;
  FlowRound round;
  for (const std::uint32_t block : sends) round.sends.push_back({peer, block, sending_lane(member, distance)});
  for (const std::uint32_t block : receives) round.receives.push_back({peer, block, sending_lane(peer, distance)});
  return round;
}

}  // namespace

Flow doubling_flow(int member, int members) {
  Flow flow;
  for (int distance = 1; distance < members; distance *= 2) {
    const auto run_of = [distance](int which) {
      std::vector<std::uint32_t> blocks;
      const int first = which / distance * distance;
      for (int block = first; block < first + distance; ++block) blocks.push_back(static_cast<std::uint32_t>(block));
      return blocks;
    };
    flow.push_back(exchange(member, distance, run_of(member), run_of(member ^ distance)));
  }
  return flow;
}

Flow far_first_flow(int member, int members) {
  Flow flow;
  for (int distance = members / 2; distance >= 1; distance /= 2) {
    const auto class_of = [distance, members](int which) {
      std::vector<std::uint32_t> blocks;
      for (int block = which % (2 * distance); block < members; block += 2 * distance)
        blocks.push_back(static_cast<std::uint32_t>(block));
      return blocks;
    };
    flow.push_back(exchange(member, distance, class_of(member), class_of(member ^ distance)));
  }
  return flow;
}

}  // namespace tutti::core
