// SPDX-License-Identifier: Apache-2.0
// T = rounds * alpha + messages * overhead + n * (sent * beta + reduced * gamma + copied * delta), Hockney's model with
// terms for what a receiver does with the bytes: reduce them where they lie, or copy them out (copied = sent - reduced
// in rows where every rank receives what it sends).
//
// The constants of a machine are measured once (cost_measure.h) and kept (cost_cache.h); rank 0's are the job's. What a
// link costs follows from them, the ranks and the cores alone, so that all ranks of a communicator agree.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/plan/algorithm.h"

namespace tutti::core {

/// What hand-over, bytes and turns cost between two cores of a machine; in nanoseconds, and nanoseconds per byte.
struct CostConstants {
  double alpha_ns;     ///< a line written by one core is seen by another that waits for it
  double turn_ns;      ///< the same between two threads that share a core: a turn of the scheduler
  double overhead_ns;  ///< processor time of one more message at either end
  double beta_ns;      ///< per byte: stores into lines that the peer has read
  double gamma_ns;     ///< per byte: reduction from lines that the peer has just written
  double delta_ns;     ///< per byte: copy of such lines
};

/// One constant: every table, file and message about them is a loop over these rows.
struct CostTerm {
  std::string_view name;
  double CostConstants::*value;
  double documented;  ///< value where nothing is measured; its origin is in cost_model.cc
};
inline constexpr std::size_t kCostTerms = 6;
const std::array<CostTerm, kCostTerms>& cost_terms();
CostConstants documented_constants();

/// A measurement further than this factor from the documented value says more about the moment than about the machine.
inline constexpr double kPlausibleFactor = 20.0;
/// Every constant moved into [documented / kPlausibleFactor, documented * kPlausibleFactor]; one that is not finite and
/// positive becomes the documented value. Returns the number of constants changed.
int make_plausible(CostConstants& constants);

/// The constants with where they are from: what rank 0 sends to all.
struct CostTable {
  CostConstants constants = documented_constants();
  std::int64_t measured_at_s = 0;                   ///< seconds of the epoch; 0: not measured
  std::string origin = "the documented constants";  ///< for people
  /// Of the constants alone, bit by bit.
  std::uint64_t hash() const;
};

/// What a link of a communicator costs.
struct LinkCost {
  std::string_view kind;  ///< "shm", "shm, more ranks than cores"
  double alpha_ns;        ///< latency of a message that its receiver waits for
  double overhead_ns;     ///< processor time of a message at either end
  double beta_ns;         ///< per byte sent: the copy into the peer's reach
  double gamma_ns;        ///< per byte reduced from where the sender put it
  double delta_ns;        ///< per byte copied out
  std::string origin;     ///< of the constants, for people
};

/// For `local_ranks` ranks on `cores` usable cores of one machine. Processes and threads of one process share memory of
/// the same kind through the same code, and cost the same.
LinkCost shared_memory_cost(const CostTable& table, int local_ranks, int cores);

/// Nanoseconds of a row, term by term.
struct Prediction {
  double rounds_ns = 0, messages_ns = 0, sent_ns = 0, reduced_ns = 0, copied_ns = 0;
  double total_ns() const { return rounds_ns + messages_ns + sent_ns + reduced_ns + copied_ns; }
};

/// `bytes`: the larger buffer of a rank.
Prediction predict(const RowCost& row, const LinkCost& link, std::uint64_t bytes);
inline double predict_ns(const RowCost& row, const LinkCost& link, std::uint64_t bytes) {
  return predict(row, link, bytes).total_ns();
}

/// "12.34 us": one unit for all, so that columns compare at a glance.
std::string microseconds_text(double ns);

}  // namespace tutti::core
