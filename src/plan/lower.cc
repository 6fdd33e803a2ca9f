// SPDX-License-Identifier: Apache-2.0
#include "src/plan/lower.h"

#include <algorithm>
#include <string>

namespace tutti::core {

namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

bool writes_dst(StepOp op) { return op == StepOp::recv || op == StepOp::copy || op == StepOp::reduce; }
bool reads_src(StepOp op) { return op == StepOp::send || op == StepOp::copy || op == StepOp::reduce; }

/// Lowers one schedule. Works lane by lane on the lane's own step list; everything it needs to know about the future of
/// a slot is prepared by `index_lane`, so the whole is linear in the number of steps.
class Lowering {
 public:
  Lowering(const Schedule& schedule, const LowerOptions& options) : schedule_(schedule), options_(options) {}

  Result<LoweredPlan> run() {
    TUTTI_TRY(validate());
    plan_.rank = schedule_.rank;
    plan_.ranks = schedule_.ranks;
    plan_.chunks = schedule_.chunks;
    plan_.scratch_chunks = schedule_.scratch_chunks;
    TUTTI_TRY(infer_sizes());
    split_lanes();
    index_slots();
    plan_.lanes.resize(lanes_.size());
    action_of_.resize(lanes_.size());
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      index_lane(lane);
      TUTTI_TRY(lower_lane(lane));
    }
    TUTTI_TRY(resolve_waits());
    return std::move(plan_);
  }

 private:
  struct LaneStep {
    Step step;
    std::uint32_t index;             // in the schedule
    std::uint32_t next_dst = kNone;  // next step of this lane touching dst
    std::uint32_t next_src = kNone;
    std::uint32_t next_recv = kNone;  // next recv of this lane from the same peer
  };

  // ---- preparation ---------------------------------------------------------------------------------------------

  Status malformed(std::size_t index, const std::string& why) const {
    const Step& step = schedule_.steps[index];
    return Status::error(TUTTI_INVALID_ARGUMENT, "rank " + std::to_string(schedule_.rank) + " lane " +
                                                     std::to_string(step.lane) + " step " + std::to_string(index) +
                                                     " (line " + std::to_string(step.site) + "): " + why);
  }

  bool in_range(Slot slot) const {
    switch (slot.where()) {
      case Space::input:
      case Space::output: return slot.chunk < schedule_.chunks;
      case Space::scratch: return slot.chunk < schedule_.scratch_chunks;
    }
    return false;
  }

  Status validate() const {
    if (schedule_.ranks < 1 || schedule_.rank < 0 || schedule_.rank >= schedule_.ranks || schedule_.chunks < 1)
      return Status::error(TUTTI_INVALID_ARGUMENT, "schedule of rank " + std::to_string(schedule_.rank) + " of " +
                                                       std::to_string(schedule_.ranks) + " with " +
                                                       std::to_string(schedule_.chunks) + " chunks is malformed");
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (step.op == StepOp::send || step.op == StepOp::recv) {
        if (step.peer < 0 || step.peer >= schedule_.ranks || step.peer == schedule_.rank)
          return malformed(i, "peer " + std::to_string(step.peer) + " is not another rank");
      } else if (step.op > StepOp::wait) {
        return malformed(i, "unknown operation");
      }
      if (reads_src(step.op) && !in_range(step.src)) return malformed(i, "source chunk out of range");
      if (writes_dst(step.op) && !in_range(step.dst)) return malformed(i, "destination chunk out of range");
      if (writes_dst(step.op) && step.dst.where() == Space::input) return malformed(i, "writes the input");
    }
    return {};
  }

  /// The chunk whose size a piece has.
  struct Size {
    std::uint32_t chunk = kNone;
    Space space = Space::input;
    bool is_known() const { return chunk != kNone; }
  };

  /// What a slot of this rank says about the size of a piece in it. Scratch says nothing unless the schedule does.
  Size size_in(Slot slot) const {
    if (slot.where() != Space::scratch) return {slot.chunk, slot.where()};
    if (schedule_.scratch_holds == kFollowsData) return {};
    return {(schedule_.scratch_holds + slot.chunk) % schedule_.chunks, Space::input};
  }
  /// The same of a slot that a message names on its other rank.
  Size size_at_peer(Slot slot) const {
    if (slot.where() == Space::scratch || options_.relative_blocks) return {};
    return {slot.chunk, slot.where()};
  }
  Size size_by_slots(const Step& step) const {
    const bool is_send = step.op == StepOp::send;
    const Size near = size_in(is_send ? step.src : step.dst);
    if (near.is_known()) return near;
    if (is_send) return size_at_peer(step.dst);
    return step.op == StepOp::recv ? size_at_peer(step.src) : size_in(step.src);
  }

  /// Follows the pieces through scratch. Pieces of one size form a group, whose size is unknown at first if it came
  /// from a peer's scratch, and known for all of its steps once it meets a chunk of input or output.
  Status infer_sizes() {
    std::vector<Size> size_of_group;
    std::vector<std::uint32_t> group_of(schedule_.scratch_chunks, kNone);
    std::vector<std::uint32_t> group_of_step(schedule_.steps.size(), kNone);
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (step.op == StepOp::wait) continue;
      const Size seen = size_by_slots(step);
      const bool src_here = reads_src(step.op) && step.src.where() == Space::scratch;
      const bool dst_here = writes_dst(step.op) && step.dst.where() == Space::scratch;
      std::uint32_t group = kNone;
      if (src_here) group = group_of[step.src.chunk];
      if (group == kNone && dst_here && step.op == StepOp::reduce) group = group_of[step.dst.chunk];
      if (group == kNone) {
        group = static_cast<std::uint32_t>(size_of_group.size());
        size_of_group.emplace_back();
      }
      if (!size_of_group[group].is_known()) size_of_group[group] = seen;
      // Both operands of a reduction have one size.
      if (step.op == StepOp::reduce && dst_here && group_of[step.dst.chunk] != kNone) {
        Size& other = size_of_group[group_of[step.dst.chunk]];
        if (!size_of_group[group].is_known()) size_of_group[group] = other;
        if (!other.is_known()) other = size_of_group[group];
      }
      if (dst_here) group_of[step.dst.chunk] = group;
      group_of_step[i] = group;
    }
    return settle_sizes(size_of_group, group_of_step);
  }

  Status settle_sizes(const std::vector<Size>& size_of_group, const std::vector<std::uint32_t>& group_of_step) {
    size_of_step_.assign(schedule_.steps.size(), {});
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      if (group_of_step[i] == kNone) continue;
      Size& size = size_of_step_[i] = size_of_group[group_of_step[i]];
      if (size.is_known()) continue;
      if (schedule_.chunks == 1) {
        size = {0, Space::input};
      } else if (options_.relative_blocks) {
        plan_.equal_chunks = true;
      } else {
        return malformed(i,
                         "the size of the piece is unknown: it never meets a chunk of input or output, and the "
                         "schedule does not say what its scratch holds (Shape::scratch_holds)");
      }
    }
    return {};
  }

  void split_lanes() {
    std::size_t count = 1;
    for (const Step& step : schedule_.steps) count = std::max<std::size_t>(count, step.lane + std::size_t{1});
    lanes_.resize(count);
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i)
      lanes_[schedule_.steps[i].lane].push_back(
          {schedule_.steps[i], static_cast<std::uint32_t>(i), kNone, kNone, kNone});
  }

  std::size_t slot_index(Slot slot) const {
    return static_cast<std::size_t>(slot.space) * schedule_.chunks + slot.chunk;  // scratch comes last
  }
  std::size_t slot_count() const { return std::size_t{2} * schedule_.chunks + schedule_.scratch_chunks; }

  // Which lanes touch a slot, and the schedule index of its last write: over all lanes.
  void index_slots() {
    lane_of_slot_.assign(slot_count(), kNone);
    shared_slot_.assign(slot_count(), false);
    last_write_.assign(slot_count(), kNone);
    for (std::uint32_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& step = schedule_.steps[i];
      if (reads_src(step.op)) touch(slot_index(step.src), step.lane);
      if (writes_dst(step.op)) {
        touch(slot_index(step.dst), step.lane);
        last_write_[slot_index(step.dst)] = i;
      }
    }
  }
  void touch(std::size_t slot, std::uint32_t lane) {
    if (lane_of_slot_[slot] == kNone) lane_of_slot_[slot] = lane;
    if (lane_of_slot_[slot] != lane) shared_slot_[slot] = true;
  }

  void index_lane(std::size_t lane) {
    std::vector<std::uint32_t> next(slot_count(), kNone);
    std::vector<std::uint32_t> next_from(static_cast<std::size_t>(schedule_.ranks), kNone);
    auto& steps = lanes_[lane];
    for (std::size_t i = steps.size(); i-- > 0;) {
      LaneStep& entry = steps[i];
      const auto here = static_cast<std::uint32_t>(i);
      if (writes_dst(entry.step.op)) entry.next_dst = next[slot_index(entry.step.dst)];
      if (reads_src(entry.step.op)) entry.next_src = next[slot_index(entry.step.src)];
      if (writes_dst(entry.step.op)) next[slot_index(entry.step.dst)] = here;
      if (reads_src(entry.step.op)) next[slot_index(entry.step.src)] = here;
      if (entry.step.op == StepOp::recv) {
        entry.next_recv = next_from[static_cast<std::size_t>(entry.step.peer)];
        next_from[static_cast<std::size_t>(entry.step.peer)] = here;
      }
    }
    borrowed_.assign(slot_count(), -1);
    finished_.assign(slot_count(), false);
  }

  // ---- one lane ------------------------------------------------------------------------------------------------

  std::int32_t edge(std::vector<Edge>& edges, std::int32_t peer, std::uint8_t lane) {
    auto& known = &edges == &plan_.tx ? tx_index_ : rx_index_;
    const std::size_t key =
        static_cast<std::size_t>(lane) * static_cast<std::size_t>(schedule_.ranks) + static_cast<std::size_t>(peer);
    if (known.size() <= key) known.resize(key + 1, -1);
    if (known[key] < 0) {
      known[key] = static_cast<std::int32_t>(edges.size());
      edges.push_back({peer, lane});
    }
    return known[key];
  }

  /// True if the slot's value is dead after step `at` of the lane: the next toucher (`next`) overwrites it without
  /// reading.
  bool dead_after(const std::vector<LaneStep>& steps, std::uint32_t next, Slot slot) const {
    if (slot.where() != Space::scratch || shared_slot_[slot_index(slot)]) return false;
    if (next == kNone) return true;
    const Step& step = steps[next].step;
    return (step.op == StepOp::recv || step.op == StepOp::copy) && step.dst == slot &&
           !(reads_src(step.op) && step.src == slot);
  }

  /// A received message may stay where it lies until its one reader runs if that reader is a reduction's operand, the
  /// slot is dead afterwards, and no later message of the edge is taken before.
  bool can_borrow(const std::vector<LaneStep>& steps, std::size_t i) const {
    if (!options_.fuse) return false;
    const LaneStep& entry = steps[i];
    if (entry.step.dst.where() != Space::scratch || shared_slot_[slot_index(entry.step.dst)]) return false;
    const std::uint32_t reader = entry.next_dst;
    if (reader == kNone || entry.next_recv < reader) return false;
    const Step& step = steps[reader].step;
    if (step.op == StepOp::copy && step.src == entry.step.dst) {
      // The copy must start a reduction, else a plain receive is as good.
      if (!starts_reduction(steps, reader)) return false;
    } else if (step.op != StepOp::reduce || !(step.src == entry.step.dst) || step.dst == entry.step.dst) {
      return false;
    }
    return dead_after(steps, steps[reader].next_src, entry.step.dst);
  }

  /// Steps between that do not break "consecutive": receives into other slots.
  static std::size_t next_other(const std::vector<LaneStep>& steps, std::size_t i, Slot slot) {
    for (++i; i < steps.size(); ++i)
      if (steps[i].step.op != StepOp::recv || steps[i].step.dst == slot) break;
    return i;
  }

  static bool starts_reduction(const std::vector<LaneStep>& steps, std::size_t i) {
    const std::size_t next = next_other(steps, i, steps[i].step.dst);
    return next < steps.size() && steps[next].step.op == StepOp::reduce && steps[next].step.dst == steps[i].step.dst;
  }

  Operand operand_of(Slot slot) {
    const std::int32_t borrowed = borrowed_[slot_index(slot)];
    if (borrowed >= 0) borrowed_[slot_index(slot)] = -1;
    return {borrowed, slot};
  }

  Action make_action(ActionKind kind, const LaneStep& entry) const {
    Action action{};
    action.kind = kind;
    action.lane = entry.step.lane;
    action.site = entry.step.site;
    action.edge = action.forward = -1;
    action.src = entry.step.src;
    action.dst = entry.step.dst;
    action.keep = true;
    action.first_step = entry.index;
    const Size size = size_of_step_[entry.index];
    action.any_chunk = !size.is_known();
    action.chunk = size.is_known() ? size.chunk : 0;
    action.chunk_space = size.space;
    return action;
  }

  Status lower_lane(std::size_t lane) {
    auto& steps = lanes_[lane];
    std::vector<bool> done(steps.size(), false);
    action_of_[lane].assign(steps.size(), kNone);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (done[i]) continue;
      const LaneStep& entry = steps[i];
      switch (entry.step.op) {
        case StepOp::recv:
          // The steps stay in place: a borrowed receive takes effect with its reader.
          if (can_borrow(steps, i)) {
            borrowed_[slot_index(entry.step.dst)] = edge(plan_.rx, entry.step.peer, entry.step.lane);
            pending_.push_back({slot_index(entry.step.dst), static_cast<std::uint32_t>(i)});
            continue;
          }
          if (options_.fuse && starts_reduction(steps, i)) {
            TUTTI_TRY(lower_reduction(lane, i, done));
          } else {
            lower_receive(lane, i, done);
          }
          break;
        case StepOp::copy:
          if (options_.fuse && starts_reduction(steps, i)) {
            TUTTI_TRY(lower_reduction(lane, i, done));
          } else {
            lower_copy(lane, i);
          }
          break;
        case StepOp::reduce: TUTTI_TRY(lower_reduction(lane, i, done)); break;
        case StepOp::send: lower_send(lane, i); break;
        case StepOp::wait: emit(lane, i, make_action(ActionKind::wait, entry)); break;
      }
    }
    return {};
  }

  void emit(std::size_t lane, std::size_t step, const Action& action) {
    action_of_[lane][step] = static_cast<std::uint32_t>(plan_.lanes[lane].size());
    plan_.lanes[lane].push_back(action);
  }

  void lower_send(std::size_t lane, std::size_t i) {
    const LaneStep& entry = lanes_[lane][i];
    Action action = make_action(ActionKind::send, entry);
    action.edge = edge(plan_.tx, entry.step.peer, entry.step.lane);
    action.scale = options_.reducing && entry.step.src.where() == Space::input;
    emit(lane, i, action);
  }

  void lower_copy(std::size_t lane, std::size_t i) {
    const LaneStep& entry = lanes_[lane][i];
    Action action = make_action(ActionKind::copy, entry);
    action.scale = options_.reducing && entry.step.src.where() == Space::input;
    const bool was_finished = finished_[slot_index(entry.step.src)];
    action.final = is_final(entry) && !was_finished;
    finished_[slot_index(entry.step.dst)] = was_finished || action.final;
    emit(lane, i, action);
  }

  void lower_receive(std::size_t lane, std::size_t i, std::vector<bool>& done) {
    const LaneStep& entry = lanes_[lane][i];
    // Results are finished where they enter an output: what comes from a peer's output is, what comes from its scratch
    // is not, and is finished here, by a reduction of one operand.
    const bool arrives_finished = entry.step.src.where() == Space::output;
    const bool finishes = is_final(entry) && !arrives_finished;
    Action action = make_action(finishes ? ActionKind::reduce : ActionKind::receive, entry);
    const std::int32_t from = edge(plan_.rx, entry.step.peer, entry.step.lane);
    if (finishes) {
      action.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
      action.operand_count = 1;
      action.final = true;
      plan_.operands.push_back({from, entry.step.dst});
    } else {
      action.edge = from;
    }
    finished_[slot_index(entry.step.dst)] = arrives_finished || finishes;
    fuse_send(lane, i, entry.next_dst, action, done);
    emit(lane, i, action);
  }

  /// A result is complete when it lies in the output and nothing writes the slot again.
  bool is_final(const LaneStep& entry) const {
    return options_.reducing && entry.step.dst.where() == Space::output &&
           last_write_[slot_index(entry.step.dst)] == entry.index;
  }

  Status lower_reduction(std::size_t lane, std::size_t i, std::vector<bool>& done) {
    auto& steps = lanes_[lane];
    const Slot dst = steps[i].step.dst;
    Action action = make_action(ActionKind::reduce, steps[i]);
    action.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
    std::vector<std::size_t> covered{i};
    if (steps[i].step.op == StepOp::recv) {
      plan_.operands.push_back({edge(plan_.rx, steps[i].step.peer, steps[i].step.lane), dst});
    } else if (steps[i].step.op == StepOp::copy) {
      plan_.operands.push_back(operand_of(steps[i].step.src));
    } else {
      plan_.operands.push_back({-1, dst});
      plan_.operands.push_back(operand_of(steps[i].step.src));
    }
    std::size_t last = i;
    while (options_.fuse) {
      const std::size_t next = next_other(steps, last, dst);
      if (next >= steps.size() || steps[next].step.op != StepOp::reduce || !(steps[next].step.dst == dst)) break;
      // Receives in between: borrowed ones may be operands of this very reduction; others must wait for their turn.
      bool all_borrowed = true;
      for (std::size_t k = last + 1; k < next; ++k)
        all_borrowed = all_borrowed && (done[k] || (can_borrow(steps, k) && !reads_edge(action, steps[k].step)));
      if (!all_borrowed) break;
      for (std::size_t k = last + 1; k < next; ++k) {
        if (done[k]) continue;
        borrowed_[slot_index(steps[k].step.dst)] = edge(plan_.rx, steps[k].step.peer, steps[k].step.lane);
        pending_.push_back({slot_index(steps[k].step.dst), static_cast<std::uint32_t>(k)});
        done[k] = true;
      }
      plan_.operands.push_back(operand_of(steps[next].step.src));
      done[next] = true;
      covered.push_back(next);
      last = next;
    }
    action.operand_count = static_cast<std::uint32_t>(plan_.operands.size()) - action.first_operand;
    TUTTI_TRY(mark_touches(action, steps[last]));
    finished_[slot_index(dst)] = action.final;
    fuse_send(lane, last, steps[last].next_dst, action, done);
    emit(lane, i, action);
    for (std::size_t step : covered) action_of_[lane][step] = action_of_[lane][i];
    settle_pending(lane, action);
    return {};
  }

  /// An executor sees the oldest message of an edge only: one reduction takes one message of each.
  bool reads_edge(const Action& action, const Step& receive) const {
    return std::any_of(
        plan_.operands.begin() + action.first_operand, plan_.operands.end(), [&](const Operand& operand) {
          return operand.edge >= 0 && plan_.rx[static_cast<std::size_t>(operand.edge)].peer == receive.peer;
        });
  }

  Status mark_touches(Action& action, const LaneStep& last) const {
    int raw = 0;
    for (std::uint32_t k = 0; k < action.operand_count; ++k) {
      const Operand& operand = plan_.operands[action.first_operand + k];
      if (operand.edge < 0 && operand.slot.where() == Space::input) ++raw;
    }
    if (raw > 1)
      return malformed(action.first_step, "one reduction reads two input chunks: a contribution counts twice");
    action.scale = options_.reducing && raw == 1;
    action.final = is_final(last);
    return {};
  }

  /// `receive`/`reduce` directly followed by a send of the same slot becomes one pass over the bytes.
  void fuse_send(std::size_t lane, std::size_t last, std::uint32_t next_touch, Action& action,
                 std::vector<bool>& done) {
    if (!options_.fuse) return;
    auto& steps = lanes_[lane];
    const std::size_t next = last + 1;
    if (next >= steps.size() || done[next] || next != next_touch) return;
    const LaneStep& send = steps[next];
    if (send.step.op != StepOp::send || !(send.step.src == action.dst)) return;
    action.forward = edge(plan_.tx, send.step.peer, send.step.lane);
    action.keep = !dead_after(steps, send.next_src, action.dst);
    done[next] = true;
    // Set by emit for `last`'s first step; the send finishes with the same action.
    fused_.push_back({lane, next, plan_.lanes[lane].size()});
  }

  /// Borrowed receives finish with the reduction that reads them.
  void settle_pending(std::size_t lane, const Action& action) {
    for (auto it = pending_.begin(); it != pending_.end();) {
      bool read = false;
      for (std::uint32_t k = 0; k < action.operand_count && !read; ++k) {
        const Operand& operand = plan_.operands[action.first_operand + k];
        read = operand.edge >= 0 && slot_index(operand.slot) == it->slot;
      }
      if (read) {
        action_of_[lane][it->step] = static_cast<std::uint32_t>(plan_.lanes[lane].size() - 1);
        it = pending_.erase(it);
      } else {
        ++it;
      }
    }
  }

  Status resolve_waits() {
    for (const Fused& fused : fused_) action_of_[fused.lane][fused.step] = static_cast<std::uint32_t>(fused.action);
    for (auto& lane : plan_.lanes) {
      for (Action& action : lane) {
        if (action.kind != ActionKind::wait) continue;
        const std::uint32_t other = action.src.chunk, step = action.dst.chunk;
        if (other >= lanes_.size() || other == action.lane || step >= lanes_[other].size())
          return malformed(action.first_step, "waits for a step that does not exist");
        action.dst.chunk = action_of_[other][step] & 0x3fffffffu;
      }
    }
    return {};
  }

  struct Pending {
    std::size_t slot;
    std::uint32_t step;
  };
  struct Fused {
    std::size_t lane, step, action;
  };

  const Schedule& schedule_;
  const LowerOptions options_;
  LoweredPlan plan_;
  std::vector<std::vector<LaneStep>> lanes_;
  std::vector<std::vector<std::uint32_t>> action_of_;  // [lane][step in lane] -> action in lane
  std::vector<Size> size_of_step_;
  std::vector<std::uint32_t> lane_of_slot_, last_write_;
  std::vector<bool> shared_slot_;
  std::vector<bool> finished_;          // the slot holds a result that had its final touch
  std::vector<std::int32_t> borrowed_;  // slot -> rx edge whose message stands for it; -1: in memory
  std::vector<std::int32_t> tx_index_, rx_index_;
  std::vector<Pending> pending_;
  std::vector<Fused> fused_;
};

}  // namespace

LowerOptions lower_options(tutti_collective what, int credits) {
  return {.reducing = is_reduction(what),
          .fuse = true,
          .credits = std::max(credits, 1),
          .relative_blocks = equal_form(what) == TUTTI_ALL_TO_ALL};
}

Result<LoweredPlan> lower(const Schedule& schedule, const LowerOptions& options) {
  return Lowering(schedule, options).run();
}

}  // namespace tutti::core
