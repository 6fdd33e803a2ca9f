// SPDX-License-Identifier: Apache-2.0
// Drawings of schedules and lowered plans: Graphviz text, and an SVG with one row per lane and time from left to right.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/plan/lower.h"
#include "src/plan/schedule.h"
#include "src/plan/serialize.h"

namespace tutti::core {

/// Boxes (steps or actions) and arrows (messages and waits).
struct Drawing {
  enum class Colour : std::uint8_t { send, receive, copy, reduce, wait };
  struct Box {
    int rank = 0;
    int lane = 0;
    int step = 0;  ///< in the lane
    int time = 0;  ///< column: one more than the latest box it depends on
    Colour colour = Colour::copy;
    std::string label;    ///< "i2", an arrow to the right, "r1"
    std::string tooltip;  ///< the whole description, with its source line if PlanTitle asks for it
  };
  struct Arrow {
    std::size_t from = 0, to = 0;  ///< boxes
    bool is_message = true;        ///< else a wait
  };
  std::string title;
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;
};

/// Draws whatever ranks are given: all of them, or one, whose messages then end in its boxes' labels.
Drawing draw(std::span<const Schedule> schedules, const PlanTitle& title);
Drawing draw(std::span<const LoweredPlan> plans, const PlanTitle& title);

std::string to_dot(const Drawing& drawing);
std::string to_svg(const Drawing& drawing);

}  // namespace tutti::core
