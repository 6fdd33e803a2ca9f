// SPDX-License-Identifier: Apache-2.0
#include "src/plan/violation.h"

namespace tutti::core {

std::string_view rule_name(Rule rule) {
  switch (rule) {
    case Rule::malformed: return "malformed";
    case Rule::slot_range: return "slot out of range";
    case Rule::input_written: return "write to input";
    case Rule::slot_mismatch: return "slot mismatch";
    case Rule::unmatched: return "unmatched message";
    case Rule::deadlock: return "deadlock";
    case Rule::unwritten: return "read before write";
    case Rule::chunk_mixup: return "chunk mix-up";
    case Rule::race: return "slot hazard";
    case Rule::in_place: return "in-place hazard";
    case Rule::contribution: return "wrong contribution";
    case Rule::association: return "wrong association";
    case Rule::barrier: return "barrier";
    case Rule::scale: return "scaling";
    case Rule::final_touch: return "final touch";
  }
  return "unknown";
}

std::string Violation::to_string(std::string_view file) const {
  std::string out;
  if (rank >= 0) out += "rank " + std::to_string(rank) + " ";
  if (lane >= 0) out += "lane " + std::to_string(lane) + " ";
  if (step >= 0) out += "step " + std::to_string(step) + " ";
  if (site > 0)
    out += file.empty() ? "(line " + std::to_string(site) + ")"
                        : "(" + std::string(file) + ":" + std::to_string(site) + ")";
  while (!out.empty() && out.back() == ' ') out.pop_back();
  if (!out.empty()) out += ": ";
  return out + std::string(rule_name(rule)) + ": " + text;
}

Status to_status(const Violation& violation, std::string_view file) {
  return Status::error(TUTTI_INVALID_ARGUMENT, violation.to_string(file), violation.rank);
}

std::string describe(Slot slot) {
  switch (slot.where()) {
    case Space::input: return "input " + std::to_string(slot.chunk);
    case Space::output: return "output " + std::to_string(slot.chunk);
    case Space::scratch: return "scratch " + std::to_string(slot.chunk);
  }
  return "space " + std::to_string(slot.space) + " chunk " + std::to_string(slot.chunk);
}

std::string describe(const Step& step) {
  const std::string peer = "rank " + std::to_string(step.peer);
  switch (step.op) {
    case StepOp::send: return "send " + describe(step.src) + " to " + peer + " as " + describe(step.dst);
    case StepOp::recv: return "recv " + describe(step.src) + " of " + peer + " into " + describe(step.dst);
    case StepOp::copy: return "copy " + describe(step.src) + " to " + describe(step.dst);
    case StepOp::reduce: return "reduce " + describe(step.src) + " into " + describe(step.dst);
    case StepOp::wait:
      return "wait for lane " + std::to_string(step.src.chunk) + " step " + std::to_string(step.dst.chunk);
  }
  return "op " + std::to_string(static_cast<int>(step.op));
}

}  // namespace tutti::core
