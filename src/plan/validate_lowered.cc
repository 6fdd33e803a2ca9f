// SPDX-License-Identifier: Apache-2.0
#include "src/plan/validate.h"

namespace tutti::core {

namespace {

class ActionValidator {
 public:
  ActionValidator(const LoweredPlan& plan, const Contract& contract)
      : plan_(plan), contract_(contract), reader_of_(plan.rx.size(), nullptr) {}

  std::optional<Violation> find() {
    for (const auto* edges : {&plan_.tx, &plan_.rx})
      for (const Edge& edge : *edges)
        if (edge.peer < 0 || edge.peer >= plan_.ranks || edge.peer == plan_.rank || edge.lane >= plan_.lanes.size())
          return Violation{Rule::malformed,
                           plan_.rank,
                           edge.lane,
                           -1,
                           0,
                           "has an edge to rank " + std::to_string(edge.peer) +
                               ", which is not another rank, or to a lane it has not"};
    for (lane_ = 0; lane_ < plan_.lanes.size(); ++lane_) {
      for (index_ = 0; index_ < plan_.lanes[lane_].size(); ++index_) {
        action_ = &plan_.lanes[lane_][index_];
        if (auto violation = find_in_action()) return violation;
      }
    }
    return std::nullopt;
  }

 private:
  Violation complain(Rule rule, const std::string& text) const {
    return {rule, plan_.rank, static_cast<int>(lane_), static_cast<int>(index_), action_->site, "lowered: " + text};
  }

  std::optional<Violation> find_in_action() {
    const Action& action = *action_;
    const bool fuses = action.kind == ActionKind::receive || action.kind == ActionKind::reduce;
    if (fuses && action.forward >= 0)
      if (auto violation = find_in_edge(plan_.tx, action.forward)) return violation;
    switch (action.kind) {
      case ActionKind::send:
        if (auto violation = find_in_edge(plan_.tx, action.edge)) return violation;
        return find_in_slot(action.src, false);
      case ActionKind::receive:
        if (auto violation = find_in_edge(plan_.rx, action.edge)) return violation;
        return find_in_destination();
      case ActionKind::copy:
        if (auto violation = find_in_slot(action.src, false)) return violation;
        return find_in_destination();
      case ActionKind::reduce:
        if (auto violation = find_in_operands()) return violation;
        return find_in_destination();
      case ActionKind::wait:
        if (action.src.chunk >= plan_.lanes.size() || action.src.chunk == lane_ ||
            action.dst.chunk >= plan_.lanes[action.src.chunk].size())
          return complain(Rule::malformed, "waits for an action that does not exist");
        return std::nullopt;
    }
    return complain(Rule::malformed, "unknown kind of action");
  }

  std::optional<Violation> find_in_operands() {
    const std::uint64_t end = std::uint64_t{action_->first_operand} + action_->operand_count;
    if (action_->operand_count == 0 || end > plan_.operands.size())
      return complain(Rule::malformed, "a reduction without operands, or with operands outside the plan's list");
    for (std::uint32_t k = 0; k < action_->operand_count; ++k) {
      const Operand& operand = plan_.operands[action_->first_operand + k];
      auto violation = operand.edge >= 0 ? find_in_edge(plan_.rx, operand.edge) : find_in_slot(operand.slot, false);
      if (violation) return violation;
      if (operand.edge < 0) continue;
      const Action*& reader = reader_of_[static_cast<std::size_t>(operand.edge)];
      if (reader == action_)
        return complain(Rule::malformed,
                        "one reduction takes two messages of one edge, but executors see the oldest only");
      reader = action_;
    }
    return std::nullopt;
  }

  std::optional<Violation> find_in_edge(const std::vector<Edge>& edges, std::int32_t edge) const {
    if (edge < 0 || static_cast<std::size_t>(edge) >= edges.size())
      return complain(Rule::malformed, "edge " + std::to_string(edge) + " is outside the plan's list");
    if (edges[static_cast<std::size_t>(edge)].lane != lane_)
      return complain(Rule::malformed,
                      "uses an edge of lane " + std::to_string(edges[static_cast<std::size_t>(edge)].lane));
    return std::nullopt;
  }

  std::optional<Violation> find_in_destination() const {
    const bool written = action_->kind == ActionKind::copy || action_->keep;
    return written ? find_in_slot(action_->dst, true) : std::nullopt;
  }

  std::optional<Violation> find_in_slot(Slot slot, bool written) const {
    if (written && slot.where() == Space::input) return complain(Rule::input_written, "writes to the user's input");
    const bool given = slot.where() == Space::input ? contract_.has_input(plan_.rank, slot.chunk)
                       : slot.where() == Space::output
                           ? contract_.has_output(plan_.rank, slot.chunk)
                           : slot.where() == Space::scratch && slot.chunk < plan_.scratch_chunks;
    if (given) return std::nullopt;
    return complain(Rule::slot_range, "uses " + describe(slot) + ", which this rank has not");
  }

  const LoweredPlan& plan_;
  const Contract& contract_;
  std::vector<const Action*> reader_of_;  // rx edge -> the last reduction that takes a message of it
  const Action* action_ = nullptr;
  std::size_t lane_ = 0;
  std::size_t index_ = 0;
};

}  // namespace

std::optional<Violation> find_malformed(const LoweredPlan& plan, const Contract& contract) {
  return ActionValidator(plan, contract).find();
}

}  // namespace tutti::core
