// SPDX-License-Identifier: Apache-2.0
#include "src/plan/serialize.h"

#include "src/plan/violation.h"

namespace tutti::core {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

std::string field(std::string_view name, std::string_view value) { return quoted(name) + ": " + quoted(value); }
std::string field(std::string_view name, std::int64_t value) { return quoted(name) + ": " + std::to_string(value); }

std::string_view op_word(StepOp op) {
  switch (op) {
    case StepOp::send: return "send";
    case StepOp::recv: return "recv";
    case StepOp::copy: return "copy";
    case StepOp::reduce: return "reduce";
    case StepOp::wait: return "wait";
  }
  return "unknown";
}

std::string_view kind_word(ActionKind kind) {
  switch (kind) {
    case ActionKind::send: return "send";
    case ActionKind::receive: return "receive";
    case ActionKind::reduce: return "reduce";
    case ActionKind::copy: return "copy";
    case ActionKind::wait: return "wait";
  }
  return "unknown";
}

std::string peer_of(const std::vector<Edge>& edges, std::int32_t edge) {
  const bool known = edge >= 0 && static_cast<std::size_t>(edge) < edges.size();
  return "rank " + (known ? std::to_string(edges[static_cast<std::size_t>(edge)].peer) : std::string("?"));
}

std::vector<std::string> operand_words(const LoweredPlan& plan, const Action& action) {
  std::vector<std::string> words;
  for (std::uint32_t k = 0; k < action.operand_count && action.first_operand + k < plan.operands.size(); ++k) {
    const Operand& operand = plan.operands[action.first_operand + k];
    words.push_back(operand.edge >= 0 ? "message of " + peer_of(plan.rx, operand.edge) : describe(operand.slot));
  }
  return words;
}

std::string title_json(const PlanTitle& title) {
  return "{" + field("collective", title.collective) + ", " + field("algorithm", title.algorithm) + ", " +
         field("root", title.root);
}

std::string step_json(const Step& step) {
  std::string out = "{" + field("lane", step.lane) + ", " + field("op", op_word(step.op));
  if (step.op == StepOp::wait) {
    out += ", " + field("awaited_lane", step.src.chunk) + ", " + field("awaited_step", step.dst.chunk);
  } else {
    if (step.op == StepOp::send || step.op == StepOp::recv) out += ", " + field("peer", step.peer);
    out += ", " + field("src", describe(step.src)) + ", " + field("dst", describe(step.dst));
  }
  return out + ", " + field("line", step.site) + "}";
}

std::string action_json(const LoweredPlan& plan, const Action& action) {
  const auto flag = [](std::string_view name, bool value) { return quoted(name) + (value ? ": true" : ": false"); };
  std::string out = "{" + field("kind", kind_word(action.kind));
  switch (action.kind) {
    case ActionKind::send:
      out += ", " + field("from", describe(action.src)) + ", " + field("to", peer_of(plan.tx, action.edge));
      break;
    case ActionKind::receive: out += ", " + field("from", peer_of(plan.rx, action.edge)); break;
    case ActionKind::copy: out += ", " + field("from", describe(action.src)); break;
    case ActionKind::wait:
      out += ", " + field("awaited_lane", action.src.chunk) + ", " + field("awaited_action", action.dst.chunk);
      break;
    case ActionKind::reduce: {
      out += ", " + quoted("operands") + ": [";
      std::string separator;
      for (const std::string& word : operand_words(plan, action)) {
        out += separator + quoted(word);
        separator = ", ";
      }
      out += "]";
    }
  }
  const bool fuses = action.kind == ActionKind::receive || action.kind == ActionKind::reduce;
  if (action.kind == ActionKind::copy || (fuses && action.keep)) out += ", " + field("to", describe(action.dst));
  if (fuses && action.forward >= 0) out += ", " + field("forward", peer_of(plan.tx, action.forward));
  return out + ", " + flag("scale", action.scale) + ", " + flag("final", action.final) + ", " +
         field("line", action.site) + "}";
}

template <class Plan>
std::string shape_json(const Plan& plan) {
  return field("rank", plan.rank) + ", " + field("ranks", plan.ranks) + ", " + field("chunks", plan.chunks) + ", " +
         field("scratch_chunks", plan.scratch_chunks);
}

}  // namespace

std::string describe(const LoweredPlan& plan, const Action& action) {
  std::string out(kind_word(action.kind));
  switch (action.kind) {
    case ActionKind::send: out += " " + describe(action.src) + " to " + peer_of(plan.tx, action.edge); break;
    case ActionKind::receive: out += " of " + peer_of(plan.rx, action.edge); break;
    case ActionKind::copy: out += " " + describe(action.src); break;
    case ActionKind::wait:
      return out + " for lane " + std::to_string(action.src.chunk) + " action " + std::to_string(action.dst.chunk);
    case ActionKind::reduce: {
      std::string separator = " ";
      for (const std::string& word : operand_words(plan, action)) {
        out += separator + word;
        separator = ", ";
      }
    }
  }
  const bool fuses = action.kind == ActionKind::receive || action.kind == ActionKind::reduce;
  if (action.kind == ActionKind::copy || (fuses && action.keep)) out += " into " + describe(action.dst);
  if (fuses && action.forward >= 0) out += ", forward to " + peer_of(plan.tx, action.forward);
  if (action.scale) out += ", scale";
  if (action.final) out += ", final";
  return out;
}

std::string to_text(std::span<const Schedule> schedules) {
  std::string out;
  for (const Schedule& schedule : schedules) {
    out += "schedule rank " + std::to_string(schedule.rank) + " ranks " + std::to_string(schedule.ranks) + " chunks " +
           std::to_string(schedule.chunks) + " scratch " + std::to_string(schedule.scratch_chunks);
    if (schedule.scratch_holds != kFollowsData) out += " holding " + std::to_string(schedule.scratch_holds);
    out += "\n";
    for (const Step& step : schedule.steps)
      out += "lane " + std::to_string(step.lane) + " " + describe(step) + " line " + std::to_string(step.site) + "\n";
  }
  return out;
}

std::string to_text(std::span<const LoweredPlan> plans) {
  std::string out;
  for (const LoweredPlan& plan : plans) {
    out += "plan rank " + std::to_string(plan.rank) + " ranks " + std::to_string(plan.ranks) + " chunks " +
           std::to_string(plan.chunks) + " scratch " + std::to_string(plan.scratch_chunks) + "\n";
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane)
      for (const Action& action : plan.lanes[lane])
        out += "lane " + std::to_string(lane) + " " + describe(plan, action) + " line " + std::to_string(action.site) +
               "\n";
  }
  return out;
}

std::string to_json(std::span<const Schedule> schedules, const PlanTitle& title) {
  std::string out = title_json(title) + ", " + quoted("schedules") + ": [";
  std::string separator = "\n";
  for (const Schedule& schedule : schedules) {
    out += separator + "  {" + shape_json(schedule);
    if (schedule.scratch_holds != kFollowsData) out += ", " + field("scratch_holds", schedule.scratch_holds);
    out += ", " + quoted("steps") + ": [";
    std::string inner = "\n";
    for (const Step& step : schedule.steps) {
      out += inner + "    " + step_json(step);
      inner = ",\n";
    }
    out += "]}";
    separator = ",\n";
  }
  return out + "]}\n";
}

std::string to_json(std::span<const LoweredPlan> plans, const PlanTitle& title) {
  std::string out = title_json(title) + ", " + quoted("plans") + ": [";
  std::string separator = "\n";
  for (const LoweredPlan& plan : plans) {
    out += separator + "  {" + shape_json(plan) + ", " + quoted("lanes") + ": [";
    std::string between = "";
    for (const auto& lane : plan.lanes) {
      out += between + "[";
      std::string inner = "\n";
      for (const Action& action : lane) {
        out += inner + "    " + action_json(plan, action);
        inner = ",\n";
      }
      out += "]";
      between = ", ";
    }
    out += "]}";
    separator = ",\n";
  }
  return out + "]}\n";
}

}  // namespace tutti::core
