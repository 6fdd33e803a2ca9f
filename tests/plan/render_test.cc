// SPDX-License-Identifier: Apache-2.0
#include "src/plan/render.h"

#include <gtest/gtest.h>

#include "src/plan/check.h"

namespace tutti::core {
namespace {

std::vector<Schedule> ring_of(int ranks) {
  return std::move(*build_all(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), ranks, 0));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

TEST(Render, draws_every_step_and_every_message) {
  const auto schedules = ring_of(4);
  const Drawing drawing = draw(schedules, {"all_reduce", "ring", 0});
  std::size_t steps = 0;
  for (const Schedule& schedule : schedules) steps += schedule.steps.size();
  EXPECT_EQ(drawing.boxes.size(), steps);
  EXPECT_EQ(drawing.arrows.size(), 4u * 6u);  // 2(p-1) messages per rank
  for (const Drawing::Arrow& arrow : drawing.arrows) {
    EXPECT_LT(drawing.boxes[arrow.from].time, drawing.boxes[arrow.to].time) << "arrows point to the right";
    EXPECT_EQ((drawing.boxes[arrow.from].rank + 1) % 4, drawing.boxes[arrow.to].rank);
  }
  const std::string svg = to_svg(drawing);
  EXPECT_EQ(count(svg, "<g>"), steps);
  EXPECT_EQ(count(svg, "<path class=\"m\""), 24u);
  EXPECT_EQ(svg.find("<svg "), 0u);
  const std::string dot = to_dot(drawing);
  EXPECT_EQ(count(dot, "fillcolor"), steps);
  EXPECT_EQ(count(dot, "constraint"), 24u);
  EXPECT_EQ(count(dot, "subgraph"), 4u);
}

TEST(Render, lowered_plans_have_fewer_boxes_and_as_many_messages) {
  const auto schedules = ring_of(4);
  auto plans = lower_all(schedules, {.reducing = true, .fuse = true, .credits = 1});
  ASSERT_TRUE(plans.is_ok());
  const Drawing drawing = draw(*plans, {"all_reduce", "ring", 0});
  EXPECT_EQ(drawing.boxes.size(), 4u * 7u);
  EXPECT_EQ(drawing.arrows.size(), 24u);
}

TEST(Render, one_rank_alone_and_cyclic_schedules_are_drawn_too) {
  auto schedules = ring_of(3);
  const Drawing alone = draw({&schedules[1], 1}, {"all_reduce", "ring", 0});
  EXPECT_EQ(alone.boxes.size(), schedules[1].steps.size());
  EXPECT_TRUE(alone.arrows.empty());
  // Everybody receives before it sends: no order in time exists, but there is a picture to debug by.
  for (Schedule& schedule : schedules) std::swap(schedule.steps[0], schedule.steps[1]);
  EXPECT_NE(to_svg(draw(schedules, {"all_reduce", "ring", 0})).find("</svg>"), std::string::npos);
}

TEST(Render, names_are_escaped) {
  const auto schedules = ring_of(1);
  const std::string svg = to_svg(draw(schedules, {"all_reduce", "a<b>&\"c\"", 0}));
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;c&quot;"), std::string::npos);
}

}  // namespace
}  // namespace tutti::core
