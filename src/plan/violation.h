// SPDX-License-Identifier: Apache-2.0
// What is wrong with a schedule, and where: the common result of validation and of the checker.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/plan/schedule.h"

namespace tutti::core {

/// The rule that a schedule breaks.
enum class Rule : std::uint8_t {
  malformed,      ///< ranks, chunk counts, peers, lanes or waits that cannot be
  slot_range,     ///< a slot outside the buffers that the collective gives this rank
  input_written,  ///< the input is the user's: nobody writes to it
  slot_mismatch,  ///< sender and receiver disagree on the slots of a message
  unmatched,      ///< a send nobody receives or a receive nobody sends
  deadlock,       ///< the ranks wait for each other with the stated credits
  unwritten,      ///< a slot is read before anything was written to it
  chunk_mixup,    ///< pieces of different chunks, which may have different sizes, meet
  race,           ///< lanes of one rank touch a slot, one of them writes, and neither wait nor message orders them
  in_place,       ///< right out of place, wrong when input and output share memory
  contribution,   ///< an output misses, repeats or mixes up contributions
  association,    ///< ranks hold results of different expression trees, so their bits may differ
  barrier,        ///< a rank leaves without having heard of every rank's arrival
  scale,          ///< lowered: a contribution is scaled never or twice
  final_touch,    ///< lowered: an output is finished never, twice, or reduced after it was finished
};
std::string_view rule_name(Rule rule);

struct Violation {
  Rule rule = Rule::malformed;
  int rank = -1;
  int lane = -1;
  int step = -1;  ///< index among the lane's steps (of a lowered plan: actions); -1: no single step is to blame
  int site = 0;   ///< source line in the algorithm's file; 0: unknown
  std::string text;

  /// "rank 3 lane 0 step 7 (ring.cc:31): reads scratch 2, which nothing has written". `file` may be empty.
  std::string to_string(std::string_view file) const;
};

/// invalid_argument with the violation's text; its failing rank is the violation's.
Status to_status(const Violation& violation, std::string_view file);

/// "input 3", "scratch 0".
std::string describe(Slot slot);
/// "send input 3 to rank 1 as scratch 0".
std::string describe(const Step& step);

}  // namespace tutti::core
