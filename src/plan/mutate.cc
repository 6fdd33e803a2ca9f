// SPDX-License-Identifier: Apache-2.0
#include "src/plan/mutate.h"

#include "src/plan/violation.h"

namespace tutti::core {

namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

bool is_message(const Step& step) { return step.op == StepOp::send || step.op == StepOp::recv; }

std::uint32_t space_chunks(const Schedule& schedule, Slot slot) {
  return slot.where() == Space::scratch ? schedule.scratch_chunks : schedule.chunks;
}

Slot moved(const Schedule& schedule, Slot slot, bool forward) {
  const std::uint32_t chunks = space_chunks(schedule, slot);
  if (chunks == 0) return slot;
  return Slot::of(slot.where(), (slot.chunk + (forward ? 1 : chunks - 1)) % chunks);
}

/// Another rank than this one and the present peer, to the right or left of the peer; -1: there is none.
int other_peer(const Schedule& schedule, int peer, bool forward) {
  for (int hop = 1; hop < schedule.ranks; ++hop) {
    const int found = (peer + (forward ? hop : schedule.ranks - hop)) % schedule.ranks;
    if (found != schedule.rank && found != peer) return found;
  }
  return -1;
}

std::uint32_t next_in_lane(const Schedule& schedule, std::uint32_t step) {
  for (auto next = step + 1; next < schedule.steps.size(); ++next)
    if (schedule.steps[next].lane == schedule.steps[step].lane) return next;
  return kNone;
}

/// What a step reads and writes of its own rank's slots.
struct Touched {
  bool reads_source, reads_target, writes_target;
};
Touched touched(const Step& step) {
  switch (step.op) {
    case StepOp::send: return {true, false, false};
    case StepOp::recv: return {false, false, true};
    case StepOp::copy: return {true, false, true};
    case StepOp::reduce: return {true, true, true};
    case StepOp::wait: break;
  }
  return {false, false, false};
}

bool reads(const Step& step, Slot slot) {
  const Touched t = touched(step);
  return (t.reads_source && step.src == slot) || (t.reads_target && step.dst == slot);
}

/// In place, input and output chunks may be the same memory, so they count as the same slot here.
Slot merged(Slot slot) { return slot.where() == Space::input ? Slot::of(Space::output, slot.chunk) : slot; }

Step merged(Step step) {
  step.src = merged(step.src);
  step.dst = merged(step.dst);
  return step;
}

bool conflict(const Step& left, const Step& right) {
  if (left.op == StepOp::wait || right.op == StepOp::wait) return true;
  if (is_message(left) && is_message(right)) {
    if (left.op != right.op) return true;  // a receive before a send may deadlock
    if (left.peer == right.peer) return true;
  }
  const Step a = merged(left), b = merged(right);
  const bool a_writes = touched(a).writes_target, b_writes = touched(b).writes_target;
  return (a_writes && (reads(b, a.dst) || (b_writes && b.dst == a.dst))) || (b_writes && reads(a, b.dst));
}

bool applies(const Schedule& schedule, std::uint32_t at, MutationKind kind) {
  const Step& step = schedule.steps[at];
  const bool is_wait = step.op == StepOp::wait;
  switch (kind) {
    case MutationKind::drop: return true;
    case MutationKind::duplicate: return !is_wait;
    case MutationKind::next_peer: return is_message(step) && other_peer(schedule, step.peer, true) >= 0;
    case MutationKind::previous_peer:
      return is_message(step) && other_peer(schedule, step.peer, false) != other_peer(schedule, step.peer, true);
    case MutationKind::next_source: return !is_wait && space_chunks(schedule, step.src) > 1;
    case MutationKind::previous_source: return !is_wait && space_chunks(schedule, step.src) > 2;
    case MutationKind::next_target: return !is_wait && space_chunks(schedule, step.dst) > 1;
    case MutationKind::previous_target: return !is_wait && space_chunks(schedule, step.dst) > 2;
    case MutationKind::other_op: return !is_wait;
    case MutationKind::swap: {
      const std::uint32_t next = next_in_lane(schedule, at);
      return next != kNone && conflict(step, schedule.steps[next]);
    }
  }
  return false;
}

StepOp exchanged(StepOp op) {
  switch (op) {
    case StepOp::send: return StepOp::recv;
    case StepOp::recv: return StepOp::send;
    case StepOp::copy: return StepOp::reduce;
    case StepOp::reduce: return StepOp::copy;
    case StepOp::wait: break;
  }
  return op;
}

constexpr MutationKind kKinds[] = {MutationKind::drop,        MutationKind::duplicate,
                                   MutationKind::next_peer,   MutationKind::previous_peer,
                                   MutationKind::next_source, MutationKind::previous_source,
                                   MutationKind::next_target, MutationKind::previous_target,
                                   MutationKind::other_op,    MutationKind::swap};

}  // namespace

std::string_view mutation_name(MutationKind kind) {
  switch (kind) {
    case MutationKind::drop: return "drop";
    case MutationKind::duplicate: return "duplicate";
    case MutationKind::next_peer: return "next peer";
    case MutationKind::previous_peer: return "previous peer";
    case MutationKind::next_source: return "next source chunk";
    case MutationKind::previous_source: return "previous source chunk";
    case MutationKind::next_target: return "next target chunk";
    case MutationKind::previous_target: return "previous target chunk";
    case MutationKind::other_op: return "other operation";
    case MutationKind::swap: return "swap";
  }
  return "unknown";
}

std::vector<Mutation> list_mutations(std::span<const Schedule> schedules) {
  std::vector<Mutation> mutations;
  for (const Schedule& schedule : schedules)
    for (std::uint32_t step = 0; step < schedule.steps.size(); ++step)
      for (const MutationKind kind : kKinds)
        if (applies(schedule, step, kind)) mutations.push_back({kind, schedule.rank, step});
  return mutations;
}

Schedule mutate(std::span<const Schedule> schedules, const Mutation& mutation) {
  Schedule schedule = schedules[static_cast<std::size_t>(mutation.rank)];
  Step& step = schedule.steps[mutation.step];
  const auto place = schedule.steps.begin() + static_cast<std::ptrdiff_t>(mutation.step);
  switch (mutation.kind) {
    case MutationKind::drop: schedule.steps.erase(place); break;
    case MutationKind::duplicate: {
      const Step again = step;
      schedule.steps.insert(place, again);
      break;
    }
    case MutationKind::next_peer: step.peer = other_peer(schedule, step.peer, true); break;
    case MutationKind::previous_peer: step.peer = other_peer(schedule, step.peer, false); break;
    case MutationKind::next_source: step.src = moved(schedule, step.src, true); break;
    case MutationKind::previous_source: step.src = moved(schedule, step.src, false); break;
    case MutationKind::next_target: step.dst = moved(schedule, step.dst, true); break;
    case MutationKind::previous_target: step.dst = moved(schedule, step.dst, false); break;
    case MutationKind::other_op: step.op = exchanged(step.op); break;
    case MutationKind::swap: std::swap(step, schedule.steps[next_in_lane(schedule, mutation.step)]); break;
  }
  return schedule;
}

std::string describe(std::span<const Schedule> schedules, const Mutation& mutation) {
  const Step& step = schedules[static_cast<std::size_t>(mutation.rank)].steps[mutation.step];
  return "rank " + std::to_string(mutation.rank) + " step " + std::to_string(mutation.step) + " " +
         std::string(mutation_name(mutation.kind)) + ": " + describe(step);
}

}  // namespace tutti::core
