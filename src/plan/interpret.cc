// SPDX-License-Identifier: Apache-2.0
#include "src/plan/interpret.h"

#include <algorithm>

namespace tutti::core {

namespace {

/// xorshift64 (Marsaglia, JSS 8(14), 2003): hundreds of millions of draws per test, quality beside the point.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x2545f4914f6cdd1du + 0x9e3779b97f4a7c15u) {}
  std::uint64_t operator()() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  /// 0 .. bound-1; multiplies instead of dividing.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(((*this)() >> 32) * bound >> 32); }

 private:
  std::uint64_t state_;
};

/// Of Element::ordered: any odd factor makes the sum depend on the association.
constexpr std::uint64_t kSpread = 0xd1342543de82ef95u;

/// Same for every run: what the user put in.
Element input_element(int rank, std::uint32_t chunk) {
  Random random(static_cast<std::uint64_t>(rank) * 1000003u + chunk);
  random();
  const std::uint64_t word = random();
  return {word, random()};
}

struct LaneState {
  std::size_t next = 0;  // index into the program
  std::size_t begin = 0, end = 0;
  int move = 0;  // 0: about to read, 1: about to write, 2: a rendezvous send whose message is not taken yet
  Element held;
  bool runnable = false;
};

/// A bounded first-in-first-out queue in the run's flat array of elements.
struct EdgeState {
  std::uint32_t head = 0, count = 0;
};

class Run {
 public:
  Run(std::span<const Schedule> schedules, const InterpretOptions& options)
      : schedules_(schedules), options_(options), ranks_(static_cast<int>(schedules.size())) {
    for (const Schedule& schedule : schedules)
      for (const Step& step : schedule.steps) lanes_per_rank_ = std::max(lanes_per_rank_, step.lane + 1);
    lanes_.resize(at(ranks_ * lanes_per_rank_));
    capacity_ = static_cast<std::size_t>(std::max(options.credits, 1));
    edges_.resize(at(ranks_ * ranks_ * lanes_per_rank_));
    queued_.resize(edges_.size() * capacity_);
    for (int rank = 0; rank < ranks_; ++rank) {
      first_.push_back(memory_.size());
      memory_.resize(memory_.size() + std::size_t{2} * chunks(rank) + schedules[at(rank)].scratch_chunks);
      for (int lane = 0; lane < lanes_per_rank_; ++lane) {
        LaneState& state = lanes_[at(rank * lanes_per_rank_ + lane)];
        state.begin = program_.size();
        for (const Step& step : schedules[at(rank)].steps)
          if (step.lane == lane) program_.push_back(step);
        state.end = program_.size();
      }
    }
  }

  RunResult run(std::uint64_t seed, bool in_place) {
    random_ = Random(seed);
    options_.in_place = in_place;
    result_ = {};
    reset();
    for (int lane = 0; lane < ranks_ * lanes_per_rank_; ++lane) make_runnable(lane);
    while (result_.end == RunEnd::finished) {
      const int lane = pick();
      if (lane < 0) break;
      move(lane);
    }
    if (result_.end == RunEnd::finished) finish();
    return std::move(result_);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void reset() {
    withheld_ = random_.below(2) == 0 ? -1 : static_cast<int>(random_.below(at(ranks_)));
    runnable_.clear();
    entered_.assign(at(ranks_), false);
    for (LaneState& lane : lanes_) lane = {lane.begin, lane.begin, lane.end, 0, {}, false};
    std::fill(edges_.begin(), edges_.end(), EdgeState{});
    for (Element& element : memory_) element = {random_(), random_()};
    for (int rank = 0; rank < ranks_; ++rank)
      for (std::uint32_t chunk = 0; chunk < chunks(rank); ++chunk)
        if (has_input(rank, chunk)) memory_[place(rank, Slot::of(Space::input, chunk))] = input_element(rank, chunk);
  }

  // ---- memory: [input][output][scratch] of a rank
  // --------------------------------------------------------------------

  std::uint32_t chunks(int rank) const { return schedules_[at(rank)].chunks; }

  bool has_input(int rank, std::uint32_t chunk) const {
    if (options_.what == TUTTI_ALL_GATHER || options_.what == TUTTI_GATHER)
      return chunk == static_cast<std::uint32_t>(rank);
    return (options_.what != TUTTI_BROADCAST && options_.what != TUTTI_SCATTER) || rank == options_.root;
  }
  bool has_output(int rank, std::uint32_t chunk) const {
    if (options_.what == TUTTI_REDUCE_SCATTER || options_.what == TUTTI_SCATTER)
      return chunk == static_cast<std::uint32_t>(rank);
    return (options_.what != TUTTI_REDUCE && options_.what != TUTTI_GATHER) || rank == options_.root;
  }

  std::size_t place(int rank, Slot slot) const {
    const std::size_t size = chunks(rank), base = first_[at(rank)];
    if (slot.where() == Space::scratch) return base + 2 * size + slot.chunk;
    const bool is_shared = options_.in_place && options_.what != TUTTI_ALL_TO_ALL && has_input(rank, slot.chunk) &&
                           has_output(rank, slot.chunk);
    return base + (slot.where() == Space::output || is_shared ? size : 0) + slot.chunk;
  }

  /// Null, and the run ends, if the rank has no such memory or may not write there.
  Element* find(int rank, Slot slot, bool write) {
    bool exists = false;
    switch (slot.where()) {
      case Space::input: exists = slot.chunk < chunks(rank) && has_input(rank, slot.chunk) && !write; break;
      case Space::output: exists = slot.chunk < chunks(rank) && has_output(rank, slot.chunk); break;
      case Space::scratch: exists = slot.chunk < schedules_[at(rank)].scratch_chunks; break;
    }
    if (exists) return &memory_[place(rank, slot)];
    result_.end = RunEnd::invalid;
    return nullptr;
  }

  // ---- who moves
  // -----------------------------------------------------------------------------------------------------

  void make_runnable(int lane) {
    LaneState& state = lanes_[at(lane)];
    if (state.runnable || (state.next == state.end && entered_[at(lane / lanes_per_rank_)])) return;
    state.runnable = true;
    runnable_.push_back(lane);
  }

  int pick() {
    if (runnable_.empty()) return -1;
    std::size_t chosen = random_.below(runnable_.size());
    // The withheld rank moves only when all runnable lanes are its own.
    for (std::size_t tries = 0; tries < runnable_.size() && runnable_[chosen] / lanes_per_rank_ == withheld_; ++tries)
      chosen = chosen + 1 == runnable_.size() ? 0 : chosen + 1;
    const int lane = runnable_[chosen];
    runnable_[chosen] = runnable_.back();
    runnable_.pop_back();
    lanes_[at(lane)].runnable = false;
    return lane;
  }

  std::size_t edge(int sender, int receiver, int lane) const {
    return at((sender * ranks_ + receiver) * lanes_per_rank_ + lane);
  }

  /// One move of a lane. A lane that cannot move stays out of the list until somebody gives it a reason.
  void move(int lane) {
    const int rank = lane / lanes_per_rank_;
    entered_[at(rank)] = true;
    LaneState& state = lanes_[at(lane)];
    if (state.next == state.end) return check_early_exit(rank);
    const Step& step = program_[state.next];
    bool moved = false;
    if (step.op == StepOp::send || step.op == StepOp::recv) {
      if (step.peer < 0 || step.peer >= ranks_ || step.peer == rank) {
        result_.end = RunEnd::invalid;
        return;
      }
      moved = step.op == StepOp::send ? move_send(rank, state, step) : move_recv(rank, state, step);
    } else if (step.op == StepOp::wait) {
      const int other = rank * lanes_per_rank_ + static_cast<int>(step.src.chunk);
      moved = static_cast<int>(step.src.chunk) < lanes_per_rank_ &&
              lanes_[at(other)].next - lanes_[at(other)].begin > step.dst.chunk;
      if (moved) ++state.next;
    } else {
      moved = move_local(rank, state, step);
    }
    if (!moved || result_.end != RunEnd::finished) return;
    make_runnable(lane);
    for (int other = rank * lanes_per_rank_; other < (rank + 1) * lanes_per_rank_; ++other) make_runnable(other);
    if (state.next == state.end) check_early_exit(rank);
  }

  bool move_send(int rank, LaneState& state, const Step& step) {
    const std::size_t to = edge(rank, step.peer, step.lane);
    EdgeState& messages = edges_[to];
    if (state.move == 0) {
      const Element* source = find(rank, step.src, false);
      if (source == nullptr) return false;
      state.held = *source;
      state.move = 1;
      return true;
    }
    if (state.move == 1) {
      if (messages.count == capacity_) return false;
      queued_[to * capacity_ + (messages.head + messages.count++) % capacity_] = state.held;
      make_runnable(step.peer * lanes_per_rank_ + step.lane);
      if (options_.credits == 0) {
        state.move = 2;
        return true;
      }
    } else if (messages.count > 0) {
      return false;
    }
    state.move = 0;
    ++state.next;
    return true;
  }

  bool move_recv(int rank, LaneState& state, const Step& step) {
    const std::size_t from = edge(step.peer, rank, step.lane);
    EdgeState& messages = edges_[from];
    if (state.move == 0) {
      if (messages.count == 0) return false;
      state.held = queued_[from * capacity_ + messages.head];
      messages.head = static_cast<std::uint32_t>((messages.head + 1) % capacity_);
      --messages.count;
      make_runnable(step.peer * lanes_per_rank_ + step.lane);
      state.move = 1;
      return true;
    }
    return write(rank, state, step);
  }

  bool move_local(int rank, LaneState& state, const Step& step) {
    if (state.move == 1) return write(rank, state, step);
    const Element* source = find(rank, step.src, false);
    const Element* destination = find(rank, step.dst, true);
    if (source == nullptr || destination == nullptr) return false;
    state.held = *source;
    if (step.op == StepOp::reduce) {
      state.held.word += destination->word;
      state.held.ordered = (state.held.ordered + destination->ordered) * kSpread;
    }
    state.move = 1;
    return true;
  }

  bool write(int rank, LaneState& state, const Step& step) {
    Element* destination = find(rank, step.dst, true);
    if (destination == nullptr) return false;
    *destination = state.held;
    state.move = 0;
    ++state.next;
    return true;
  }

  // ---- the end
  // -------------------------------------------------------------------------------------------------------

  bool has_left(int rank) const {
    for (int lane = rank * lanes_per_rank_; lane < (rank + 1) * lanes_per_rank_; ++lane)
      if (lanes_[at(lane)].next != lanes_[at(lane)].end) return false;
    return entered_[at(rank)];
  }

  void check_early_exit(int rank) {
    if (options_.what != TUTTI_BARRIER || !has_left(rank)) return;
    if (std::find(entered_.begin(), entered_.end(), false) != entered_.end()) result_.end = RunEnd::too_early;
  }

  void finish() {
    for (int rank = 0; rank < ranks_; ++rank)
      if (!has_left(rank)) result_.end = RunEnd::deadlock;
    if (result_.end == RunEnd::deadlock) return;
    for (const EdgeState& messages : edges_)
      if (messages.count > 0) result_.end = RunEnd::left_over;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(first_[at(rank)] + chunks(rank));
      result_.outputs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(chunks(rank)));
      for (std::uint32_t chunk = 0; chunk < chunks(rank); ++chunk)
        if (!has_output(rank, chunk)) result_.outputs.back()[chunk] = {};
    }
  }

  std::span<const Schedule> schedules_;
  InterpretOptions options_;
  const int ranks_;
  int lanes_per_rank_ = 1;
  Random random_{0};
  std::vector<Step> program_;
  int withheld_ = -1;
  std::vector<LaneState> lanes_;
  std::vector<int> runnable_;
  std::vector<bool> entered_;
  std::vector<EdgeState> edges_;
  std::size_t capacity_ = 1;
  std::vector<Element> queued_;  // [edge][capacity]
  std::vector<Element> memory_;  // of all ranks; rank r's begins at first_[r]
  std::vector<std::size_t> first_;
  RunResult result_;
};

bool is_shared_by_all(tutti_collective what) {
  return what == TUTTI_ALL_REDUCE || what == TUTTI_ALL_GATHER || what == TUTTI_BROADCAST;
}

}  // namespace

RunResult interpret(std::span<const Schedule> schedules, const InterpretOptions& options, std::uint64_t seed) {
  return Run(schedules, options).run(seed, options.in_place);
}

Judge::Judge(std::span<const Schedule> original, const InterpretOptions& options) : options_(options) {
  expected_ = interpret(original, options, 0).outputs;
}

bool Judge::is_wrong(const RunResult& result) const {
  if (result.end != RunEnd::finished) return true;
  if (options_.what == TUTTI_BARRIER) return false;
  for (std::size_t rank = 0; rank < expected_.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < expected_[rank].size(); ++chunk) {
      const Element& element = result.outputs[rank][chunk];
      if (element.word != expected_[rank][chunk].word) return true;
      if (options_.fixed_tree && element.ordered != expected_[rank][chunk].ordered) return true;
      // Where all ranks get a chunk they must hold the bits of the first.
      if (is_shared_by_all(options_.what) && element.ordered != result.outputs[0][chunk].ordered) return true;
    }
  }
  return false;
}

bool Judge::is_harmful(std::span<const Schedule> mutant, int interleavings) const {
  Run run(mutant, options_);
  for (int seed = 1; seed <= interleavings; ++seed)
    if (is_wrong(run.run(static_cast<std::uint64_t>(seed), seed % 2 == 0))) return true;
  return false;
}

}  // namespace tutti::core
