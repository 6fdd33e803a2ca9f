// SPDX-License-Identifier: Apache-2.0
// The reader of serialize.h's text. Words are separated by blanks; every number has an upper bound, so that nothing
// read here can overflow later.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "src/plan/serialize.h"
#include "src/plan/validate.h"

namespace tutti::core {

namespace {

constexpr std::uint32_t kMostRanks = 1u << 20;
constexpr std::uint32_t kMostChunks = (1u << 30) - 1;  // Slot::chunk has 30 bits
constexpr std::uint32_t kLastLane = std::numeric_limits<std::uint8_t>::max();
constexpr std::uint32_t kLastLine = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t kMostQuoted = 40;  // bytes of a wrong word that an error repeats

std::string printable(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, kMostQuoted)) out += c >= ' ' && c <= '~' ? c : '?';
  return word.size() > kMostQuoted ? out + "..." : out;
}

/// The words of one line, with one error: the first.
class LineReader {
 public:
  LineReader(std::string_view line, std::size_t number) : rest_(line.substr(0, line.find('#'))), number_(number) {}

  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

  std::string_view word() {
    skip_blanks();
    const std::string_view found = rest_.substr(0, rest_.find_first_of(" \t\r"));
    rest_.remove_prefix(found.size());
    return found;
  }

  void expect(std::string_view wanted) {
    const std::string_view found = word();
    if (found != wanted) fail("expected '" + std::string(wanted) + "', found '" + printable(found) + "'");
  }

  std::uint32_t number(std::string_view what, std::uint32_t most) {
    const std::string_view found = word();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (found.empty() || error != std::errc{} || end != found.data() + found.size() || value > most) {
      fail(std::string(what) + " must be a number 0.." + std::to_string(most) + ", found '" + printable(found) + "'");
      return 0;
    }
    return static_cast<std::uint32_t>(value);
  }

  Slot slot() {
    const std::string_view found = word();
    Space space = Space::input;
    if (found == "output") {
      space = Space::output;
    } else if (found == "scratch") {
      space = Space::scratch;
    } else if (found != "input") {
      fail("expected input, output or scratch, found '" + printable(found) + "'");
    }
    return Slot::of(space, number("a chunk", kMostChunks));
  }

  void expect_end() {
    if (!at_end()) fail("expected the end of the line, found '" + printable(word()) + "'");
  }

  void fail(const std::string& text) {
    if (error_.is_ok()) error_ = Status::error(TUTTI_INVALID_ARGUMENT, "line " + std::to_string(number_) + ": " + text);
  }
  const Status& error() const { return error_; }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  std::string_view rest_;
  std::size_t number_;
  Status error_;
};

Schedule read_header(LineReader& line) {
  Schedule schedule;
  line.expect("rank");
  schedule.rank = static_cast<int>(line.number("rank", kMostRanks));
  line.expect("ranks");
  schedule.ranks = static_cast<int>(line.number("ranks", kMostRanks));
  line.expect("chunks");
  schedule.chunks = line.number("chunks", kMostChunks);
  line.expect("scratch");
  schedule.scratch_chunks = line.number("scratch", kMostChunks);
  if (!line.at_end()) {
    line.expect("holding");
    schedule.scratch_holds = line.number("a chunk", kMostChunks);
  }
  line.expect_end();
  return schedule;
}

int read_peer(LineReader& line, std::string_view preposition) {
  line.expect(preposition);
  line.expect("rank");
  return static_cast<int>(line.number("a peer", kMostRanks));
}

void read_operation(LineReader& line, Step& step) {
  const std::string_view op = line.word();
  if (op == "send") {
    step.op = StepOp::send;
    step.src = line.slot();
    step.peer = read_peer(line, "to");
    line.expect("as");
    step.dst = line.slot();
  } else if (op == "recv") {
    step.op = StepOp::recv;
    step.src = line.slot();
    step.peer = read_peer(line, "of");
    line.expect("into");
    step.dst = line.slot();
  } else if (op == "copy" || op == "reduce") {
    step.op = op == "copy" ? StepOp::copy : StepOp::reduce;
    step.src = line.slot();
    line.expect(op == "copy" ? "to" : "into");
    step.dst = line.slot();
  } else if (op == "wait") {
    step.op = StepOp::wait;
    line.expect("for");
    line.expect("lane");
    step.src = Slot::of(Space::input, line.number("a lane", kLastLane));
    line.expect("step");
    step.dst = Slot::of(Space::input, line.number("a step", kMostChunks));
  } else {
    line.fail("expected send, recv, copy, reduce or wait, found '" + printable(op) + "'");
  }
}

Step read_step(LineReader& line) {
  Step step{StepOp::wait, 0, 0, -1, {}, {}};
  step.lane = static_cast<std::uint8_t>(line.number("a lane", kLastLane));
  read_operation(line, step);
  line.expect("line");
  step.site = static_cast<std::uint16_t>(line.number("a source line", kLastLine));
  line.expect_end();
  return step;
}

Status read_line(LineReader& line, std::vector<Schedule>& schedules) {
  const std::string_view first = line.word();
  if (first == "schedule") {
    schedules.push_back(read_header(line));
  } else if (first != "lane") {
    line.fail("expected 'schedule' or 'lane', found '" + printable(first) + "'");
  } else if (schedules.empty()) {
    line.fail("a step stands before the first 'schedule' line");
  } else {
    schedules.back().steps.push_back(read_step(line));
  }
  return line.error();
}

}  // namespace

Result<std::vector<Schedule>> parse_schedules(std::string_view text) {
  std::vector<Schedule> schedules;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    LineReader line(text.substr(0, end), number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.at_end()) TUTTI_TRY(read_line(line, schedules));
  }
  for (const Schedule& schedule : schedules)
    if (auto violation = find_malformed(schedule)) return to_status(*violation, "");
  return schedules;
}

}  // namespace tutti::core
