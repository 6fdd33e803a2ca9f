// SPDX-License-Identifier: Apache-2.0
// From schedules and plans to boxes and arrows.
#include <algorithm>
#include <map>
#include <tuple>

#include "src/base/types.h"
#include "src/plan/render.h"
#include "src/plan/violation.h"

namespace tutti::core {

namespace {

/// Operands that a label lists before it only counts them.
constexpr std::size_t kMostListed = 3;

std::string short_name(Slot slot) {
  constexpr const char* kLetters[] = {"i", "o", "s", "?"};
  return kLetters[slot.space] + std::to_string(slot.chunk);
}
std::string rank_name(int rank) { return "r" + std::to_string(rank); }
std::string to_rank(int rank) { return "\u2192" + rank_name(rank); }    // an arrow to the right
std::string from_rank(int rank) { return "\u2190" + rank_name(rank); }  // to the left

/// Collects boxes lane by lane, and pairs the k-th send of an edge with its k-th receive.
class Drawer {
 public:
  Drawer(const PlanTitle& title, int ranks) : with_lines_(title.with_lines) {
    drawing_.title =
        title.collective + " / " + title.algorithm + ", " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
    const auto what = find_collective(title.collective);
    if (what && is_rooted(*what)) drawing_.title += ", root " + std::to_string(title.root);
  }

  void begin_lane(int rank, int lane) {
    rank_ = rank;
    lane_ = lane;
    step_ = 0;
    first_of_lane_[{rank, lane}] = drawing_.boxes.size();
  }

  void box(Drawing::Colour colour, std::string label, std::string tooltip, std::uint16_t site) {
    if (with_lines_) tooltip += " (line " + std::to_string(site) + ")";
    if (step_ > 0) after_.push_back({drawing_.boxes.size() - 1, drawing_.boxes.size()});
    drawing_.boxes.push_back({rank_, lane_, step_++, 0, colour, std::move(label), std::move(tooltip)});
  }
  // The following belong to the last box.
  void sends_to(int peer) { edges_[{rank_, peer, lane_}].first.push_back(drawing_.boxes.size() - 1); }
  void receives_from(int peer) { edges_[{peer, rank_, lane_}].second.push_back(drawing_.boxes.size() - 1); }
  void waits_for(int lane, std::size_t step) { waits_.push_back({rank_, lane, step, drawing_.boxes.size() - 1}); }

  Drawing finish() {
    for (const auto& [key, ends] : edges_)
      for (std::size_t k = 0; k < std::min(ends.first.size(), ends.second.size()); ++k)
        drawing_.arrows.push_back({ends.first[k], ends.second[k], true});
    for (const Wait& wait : waits_) {
      const auto lane = first_of_lane_.find({wait.rank, wait.lane});
      if (lane != first_of_lane_.end() && lane->second + wait.step < drawing_.boxes.size())
        drawing_.arrows.push_back({lane->second + wait.step, wait.box, false});
    }
    place_in_time();
    return std::move(drawing_);
  }

 private:
  struct Wait {
    int rank, lane;
    std::size_t step, box;
  };
  struct After {
    std::size_t from, to;
  };

  /// Longest paths, by repeatedly taking boxes whose predecessors are placed. Boxes in a cycle (a schedule that cannot
  /// run) stay in column 0.
  void place_in_time() {
    for (const auto& arrow : drawing_.arrows) after_.push_back({arrow.from, arrow.to});
    std::vector<std::vector<std::size_t>> next(drawing_.boxes.size());
    std::vector<int> open(drawing_.boxes.size(), 0);
    for (const After& after : after_) {
      next[after.from].push_back(after.to);
      ++open[after.to];
    }
    std::vector<std::size_t> ready;
    for (std::size_t box = 0; box < open.size(); ++box)
      if (open[box] == 0) ready.push_back(box);
    while (!ready.empty()) {
      const std::size_t box = ready.back();
      ready.pop_back();
      for (const std::size_t later : next[box]) {
        drawing_.boxes[later].time = std::max(drawing_.boxes[later].time, drawing_.boxes[box].time + 1);
        if (--open[later] == 0) ready.push_back(later);
      }
    }
  }

  Drawing drawing_;
  const bool with_lines_;
  int rank_ = 0, lane_ = 0, step_ = 0;
  std::map<std::tuple<int, int, int>, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> edges_;
  std::map<std::pair<int, int>, std::size_t> first_of_lane_;
  std::vector<Wait> waits_;
  std::vector<After> after_;
};

void draw_step(Drawer& drawer, const Step& step) {
  const std::string tooltip = describe(step);
  switch (step.op) {
    case StepOp::send:
      drawer.box(Drawing::Colour::send, short_name(step.src) + to_rank(step.peer), tooltip, step.site);
      drawer.sends_to(step.peer);
      break;
    case StepOp::recv:
      drawer.box(Drawing::Colour::receive, short_name(step.dst) + from_rank(step.peer), tooltip, step.site);
      drawer.receives_from(step.peer);
      break;
    case StepOp::copy:
      drawer.box(Drawing::Colour::copy, short_name(step.dst) + "=" + short_name(step.src), tooltip, step.site);
      break;
    case StepOp::reduce:
      drawer.box(Drawing::Colour::reduce, short_name(step.dst) + "+=" + short_name(step.src), tooltip, step.site);
      break;
    case StepOp::wait:
      drawer.box(Drawing::Colour::wait,
                 "wait l" + std::to_string(step.src.chunk) + "." + std::to_string(step.dst.chunk), tooltip, step.site);
      drawer.waits_for(static_cast<int>(step.src.chunk), step.dst.chunk);
      break;
  }
}

int peer_of(const std::vector<Edge>& edges, std::int32_t edge) { return edges.at(static_cast<std::size_t>(edge)).peer; }

std::string sum_label(const LoweredPlan& plan, const Action& action) {
  if (action.operand_count > kMostListed) return "sum of " + std::to_string(action.operand_count);
  std::string label;
  for (std::uint32_t k = 0; k < action.operand_count; ++k) {
    const Operand& operand = plan.operands.at(action.first_operand + k);
    label += (k == 0 ? "" : "+") +
             (operand.edge >= 0 ? rank_name(peer_of(plan.rx, operand.edge)) : short_name(operand.slot));
  }
  return label;
}

void draw_action(Drawer& drawer, const LoweredPlan& plan, const Action& action) {
  const std::string tooltip = describe(plan, action);
  const std::string kept = action.keep ? short_name(action.dst) + "=" : "";
  const std::string forward = action.forward >= 0 ? to_rank(peer_of(plan.tx, action.forward)) : "";
  switch (action.kind) {
    case ActionKind::send:
      drawer.box(Drawing::Colour::send, short_name(action.src) + to_rank(peer_of(plan.tx, action.edge)), tooltip,
                 action.site);
      drawer.sends_to(peer_of(plan.tx, action.edge));
      return;
    case ActionKind::receive:
      drawer.box(Drawing::Colour::receive, kept + rank_name(peer_of(plan.rx, action.edge)) + forward, tooltip,
                 action.site);
      drawer.receives_from(peer_of(plan.rx, action.edge));
      break;
    case ActionKind::copy:
      drawer.box(Drawing::Colour::copy, short_name(action.dst) + "=" + short_name(action.src), tooltip, action.site);
      return;
    case ActionKind::reduce:
      drawer.box(Drawing::Colour::reduce, kept + sum_label(plan, action) + forward, tooltip, action.site);
      for (std::uint32_t k = 0; k < action.operand_count; ++k) {
        const Operand& operand = plan.operands.at(action.first_operand + k);
        if (operand.edge >= 0) drawer.receives_from(peer_of(plan.rx, operand.edge));
      }
      break;
    case ActionKind::wait:
      drawer.box(Drawing::Colour::wait,
                 "wait l" + std::to_string(action.src.chunk) + "." + std::to_string(action.dst.chunk), tooltip,
                 action.site);
      drawer.waits_for(static_cast<int>(action.src.chunk), action.dst.chunk);
      return;
  }
  if (action.forward >= 0) drawer.sends_to(peer_of(plan.tx, action.forward));
}

}  // namespace

Drawing draw(std::span<const Schedule> schedules, const PlanTitle& title) {
  Drawer drawer(title, schedules.empty() ? 0 : schedules.front().ranks);
  for (const Schedule& schedule : schedules) {
    int lanes = 1;
    for (const Step& step : schedule.steps) lanes = std::max(lanes, step.lane + 1);
    for (int lane = 0; lane < lanes; ++lane) {
      drawer.begin_lane(schedule.rank, lane);
      for (const Step& step : schedule.steps)
        if (step.lane == lane) draw_step(drawer, step);
    }
  }
  return drawer.finish();
}

Drawing draw(std::span<const LoweredPlan> plans, const PlanTitle& title) {
  Drawer drawer(title, plans.empty() ? 0 : plans.front().ranks);
  for (const LoweredPlan& plan : plans)
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      drawer.begin_lane(plan.rank, static_cast<int>(lane));
      for (const Action& action : plan.lanes[lane]) draw_action(drawer, plan, action);
    }
  Drawing drawing = drawer.finish();
  drawing.title += ", lowered";
  return drawing;
}

}  // namespace tutti::core
