// SPDX-License-Identifier: Apache-2.0
// Every algorithm there is. A new one is a file beside this one, a row here (its builder and cost are declared first),
// and a test in tests/algorithms: docs/adding-an-algorithm.md.
#include <string>

#include "src/base/types.h"
#include "src/plan/algorithm.h"

namespace tutti::core {

// Defined in the algorithms' files.
#define TUTTI_DECLARE_ROW(row)                               \
  Result<Schedule> build_##row(const BuildRequest& request); \
  RowCost cost_##row(int ranks)
TUTTI_DECLARE_ROW(ring_all_reduce);
TUTTI_DECLARE_ROW(ring_all_gather);
TUTTI_DECLARE_ROW(ring_reduce_scatter);
TUTTI_DECLARE_ROW(chain_broadcast);
TUTTI_DECLARE_ROW(recursive_doubling_all_reduce);
TUTTI_DECLARE_ROW(recursive_doubling_all_gather);
TUTTI_DECLARE_ROW(recursive_halving_reduce_scatter);
TUTTI_DECLARE_ROW(halving_doubling_all_reduce);
TUTTI_DECLARE_ROW(circulant_all_reduce);
TUTTI_DECLARE_ROW(circulant_all_gather);
TUTTI_DECLARE_ROW(circulant_reduce_scatter);
TUTTI_DECLARE_ROW(bruck_all_gather);
TUTTI_DECLARE_ROW(bruck_k_all_gather);
TUTTI_DECLARE_ROW(pat_all_gather);
TUTTI_DECLARE_ROW(pat_reduce_scatter);
TUTTI_DECLARE_ROW(balanced_tree_all_reduce);
TUTTI_DECLARE_ROW(balanced_tree_reduce_scatter);
TUTTI_DECLARE_ROW(balanced_tree_reduce);
TUTTI_DECLARE_ROW(double_binary_tree_all_reduce);
TUTTI_DECLARE_ROW(double_binary_tree_broadcast);
TUTTI_DECLARE_ROW(double_binary_tree_reduce);
TUTTI_DECLARE_ROW(one_shot_all_reduce);
TUTTI_DECLARE_ROW(one_shot_all_gather);
TUTTI_DECLARE_ROW(one_shot_reduce_scatter);
TUTTI_DECLARE_ROW(one_shot_broadcast);
TUTTI_DECLARE_ROW(binomial_broadcast);
TUTTI_DECLARE_ROW(binomial_reduce);
TUTTI_DECLARE_ROW(k_nomial_broadcast);
TUTTI_DECLARE_ROW(k_nomial_reduce);
TUTTI_DECLARE_ROW(binomial_gather);
TUTTI_DECLARE_ROW(binomial_scatter);
TUTTI_DECLARE_ROW(k_nomial_gather);
TUTTI_DECLARE_ROW(k_nomial_scatter);
TUTTI_DECLARE_ROW(scatter_allgather_broadcast);
TUTTI_DECLARE_ROW(pairwise_all_to_all);
TUTTI_DECLARE_ROW(bruck_all_to_all);
TUTTI_DECLARE_ROW(one_shot_all_to_all);
TUTTI_DECLARE_ROW(chain_reduce);
TUTTI_DECLARE_ROW(one_shot_reduce);
TUTTI_DECLARE_ROW(two_shot_reduce);
TUTTI_DECLARE_ROW(one_shot_gather);
TUTTI_DECLARE_ROW(one_shot_scatter);
TUTTI_DECLARE_ROW(two_shot_all_reduce);
TUTTI_DECLARE_ROW(dissemination_barrier);
#undef TUTTI_DECLARE_ROW

namespace {

constexpr std::string_view kRingSource = "Patarasuk & Yuan, JPDC 69(2), 2009";
constexpr std::string_view kChainSource = "Pjesivac-Grbovic et al., Cluster Computing 10(2), 2007";
constexpr std::string_view kTreeSource = "Chan et al., CCPE 19(13), 2007: minimum spanning trees";
constexpr std::string_view kRadixSource = "Wilkins et al., CLUSTER 2023: generalized k-nomial";
constexpr std::string_view kThakurSource = "Thakur et al., IJHPCA 19(1), 2005";
constexpr std::string_view kCirculantSource = "Traeff, arXiv 2410.14234, 2024";
constexpr std::string_view kBruckSource = "Bruck et al., IEEE TPDS 8(11), 1997";
constexpr std::string_view kPatSource = "Jeaugey, arXiv 2506.20252, 2025";
constexpr std::string_view kPairwiseSource = "Thakur et al., IJHPCA 19(1), 2005; Higham, SISC 14(4), 1993: the tree";
constexpr std::string_view kTwoTreeSource = "Sanders, Speck & Traeff, Parallel Computing 35(12), 2009";
constexpr std::string_view kDirectSource = "Chan et al., CCPE 19(13), 2007: direct exchange";

// Send before recv on both sides of a pair: with rendezvous (credits 0) such rows would stand still.
constexpr Needs kExchange{.credits = 1, .power_of_two = false, .max_ranks = 0, .forwards = false};
constexpr Needs kExchangeForwarding{.credits = 1, .power_of_two = false, .max_ranks = 0, .forwards = true};
// Sends and receives on different lanes, so that a rendezvous suffices.
constexpr Needs kTwoLanes{.credits = 0, .power_of_two = false, .max_ranks = 0, .forwards = true, .lanes = 2};
constexpr Needs kTwoLanesPowerOfTwo{.credits = 0, .power_of_two = true, .max_ranks = 0, .forwards = true, .lanes = 2};
constexpr Needs kThreeLanes{.credits = 0, .power_of_two = false, .max_ranks = 0, .forwards = true, .lanes = 3};
constexpr Needs kNineLanes{.credits = 0, .power_of_two = false, .max_ranks = 0, .forwards = true, .lanes = 9};
// Four sends of a batch before its receives.
constexpr Needs kBatches{.credits = 4, .power_of_two = false, .max_ranks = 0, .forwards = true};
constexpr Needs kOneWay{.credits = 0, .power_of_two = false, .max_ranks = 0, .forwards = false};
constexpr Needs kOneWayForwarding{.credits = 0, .power_of_two = false, .max_ranks = 0, .forwards = true};

// Formulas: p ranks, n bytes. "+0..2": README.md says when.
// clang-format off
constexpr Algorithm kRows[] = {
    {"ring", TUTTI_ALL_REDUCE, kExchangeForwarding, build_ring_all_reduce, cost_ring_all_reduce,
     "2(p-1)", "2(p-1)/p n", kRingSource},
    {"recursive_doubling", TUTTI_ALL_REDUCE, kExchangeForwarding, build_recursive_doubling_all_reduce, cost_recursive_doubling_all_reduce,
     "floor(log2 p) +0..2", "(floor(log2 p) +0..1) n", kThakurSource, Tree::balanced},
    {"halving_doubling", TUTTI_ALL_REDUCE, kTwoLanes, build_halving_doubling_all_reduce, cost_halving_doubling_all_reduce,
     "2 floor(log2 p) +0..2", "2(q-1)/q n +0..n, q = 2^floor(log2 p)", "Rabenseifner, ICCS 2004", Tree::balanced, "block_flow"},
    {"circulant", TUTTI_ALL_REDUCE, kThreeLanes, build_circulant_all_reduce, cost_circulant_all_reduce,
     "2 ceil(log2 p)", "2(p-1)/p n", kCirculantSource, Tree::any, "block_flow"},
    {"balanced_tree", TUTTI_ALL_REDUCE, kTwoLanes, build_balanced_tree_all_reduce, cost_balanced_tree_all_reduce,
     "2 floor(log2 p) +0..2", "2(p-1)/p n, more unless p = 2^k", kPairwiseSource, Tree::balanced, "block_flow"},
    {"double_binary_tree", TUTTI_ALL_REDUCE, kTwoLanes, build_double_binary_tree_all_reduce, cost_double_binary_tree_all_reduce,
     "2 floor(log2 p)", "2 n", kTwoTreeSource},
    {"one_shot", TUTTI_ALL_REDUCE, kExchange, build_one_shot_all_reduce, cost_one_shot_all_reduce,
     "1", "(p-1) n", kDirectSource, Tree::rank_order},
    {"two_shot", TUTTI_ALL_REDUCE, kExchange, build_two_shot_all_reduce, cost_two_shot_all_reduce,
     "2", "2(p-1)/p n", kDirectSource, Tree::rank_order},
    {"ring", TUTTI_ALL_GATHER, kExchangeForwarding, build_ring_all_gather, cost_ring_all_gather,
     "p-1", "(p-1)/p n", kRingSource},
    {"recursive_doubling", TUTTI_ALL_GATHER, kTwoLanesPowerOfTwo, build_recursive_doubling_all_gather, cost_recursive_doubling_all_gather,
     "log2 p", "(p-1)/p n", kThakurSource, Tree::any, "block_flow"},
    {"circulant", TUTTI_ALL_GATHER, kThreeLanes, build_circulant_all_gather, cost_circulant_all_gather,
     "ceil(log2 p)", "(p-1)/p n", kCirculantSource, Tree::any, "block_flow"},
    {"bruck", TUTTI_ALL_GATHER, kThreeLanes, build_bruck_all_gather, cost_bruck_all_gather,
     "ceil(log2 p)", "(p-1)/p n", kBruckSource, Tree::any, "block_flow"},
    {"bruck_k", TUTTI_ALL_GATHER, kNineLanes, build_bruck_k_all_gather, cost_bruck_k_all_gather,
     "ceil(log4 p)", "(p-1)/p n", kBruckSource, Tree::any, "block_flow"},
    {"pat", TUTTI_ALL_GATHER, kThreeLanes, build_pat_all_gather, cost_pat_all_gather,
     "ceil(log2 p)", "(p-1)/p n", kPatSource, Tree::any, "block_flow"},
    {"one_shot", TUTTI_ALL_GATHER, kExchange, build_one_shot_all_gather, cost_one_shot_all_gather,
     "1", "(p-1)/p n", kDirectSource},
    {"ring", TUTTI_REDUCE_SCATTER, kExchangeForwarding, build_ring_reduce_scatter, cost_ring_reduce_scatter,
     "p-1", "(p-1)/p n", kRingSource},
    {"recursive_halving", TUTTI_REDUCE_SCATTER, kTwoLanesPowerOfTwo, build_recursive_halving_reduce_scatter, cost_recursive_halving_reduce_scatter,
     "log2 p", "(p-1)/p n", kThakurSource, Tree::balanced, "block_flow"},
    {"circulant", TUTTI_REDUCE_SCATTER, kThreeLanes, build_circulant_reduce_scatter, cost_circulant_reduce_scatter,
     "ceil(log2 p)", "(p-1)/p n", kCirculantSource, Tree::any, "block_flow"},
    {"balanced_tree", TUTTI_REDUCE_SCATTER, kTwoLanes, build_balanced_tree_reduce_scatter, cost_balanced_tree_reduce_scatter,
     "floor(log2 p) +0..1", "(p-1)/p n", kPairwiseSource, Tree::balanced, "block_flow"},
    {"pat", TUTTI_REDUCE_SCATTER, kThreeLanes, build_pat_reduce_scatter, cost_pat_reduce_scatter,
     "ceil(log2 p)", "(p-1)/p n", kPatSource, Tree::any, "block_flow"},
    {"one_shot", TUTTI_REDUCE_SCATTER, kExchange, build_one_shot_reduce_scatter, cost_one_shot_reduce_scatter,
     "1", "(p-1)/p n", kDirectSource, Tree::rank_order},
    {"chain", TUTTI_BROADCAST, kOneWayForwarding, build_chain_broadcast, cost_chain_broadcast,
     "p-1", "n", kChainSource},
    {"double_binary_tree", TUTTI_BROADCAST, kTwoLanes, build_double_binary_tree_broadcast, cost_double_binary_tree_broadcast,
     "1 + floor(log2(p-1))", "n", kTwoTreeSource},
    {"one_shot", TUTTI_BROADCAST, kOneWay, build_one_shot_broadcast, cost_one_shot_broadcast,
     "1", "(p-1) n", kDirectSource},
    {"dissemination", TUTTI_BARRIER, kExchangeForwarding, build_dissemination_barrier, cost_dissemination_barrier,
     "ceil(log2 p)", "0", "Hensgen, Finkel & Manber, IJPP 17(1), 1988"},
    {"binomial", TUTTI_BROADCAST, kOneWayForwarding, build_binomial_broadcast, cost_binomial_broadcast,
     "floor(log2 p)", "ceil(log2 p) n", kTreeSource, Tree::any, "k_nomial"},
    {"k_nomial", TUTTI_BROADCAST, kOneWayForwarding, build_k_nomial_broadcast, cost_k_nomial_broadcast,
     "floor(log4(3p-2))", "up to 3 ceil(log4 p) n", kRadixSource},
    {"scatter_allgather", TUTTI_BROADCAST, kOneWayForwarding, build_scatter_allgather_broadcast, cost_scatter_allgather_broadcast,
     "p-1", "2(p-1)/p n", "Barnett et al., Supercomputing 1994: scatter, then collect"},
    {"chain", TUTTI_REDUCE, kOneWayForwarding, build_chain_reduce, cost_chain_reduce,
     "p-1", "n", kChainSource},
    {"binomial", TUTTI_REDUCE, kOneWayForwarding, build_binomial_reduce, cost_binomial_reduce,
     "floor(log2 p)", "n", kTreeSource, Tree::any, "k_nomial"},
    {"k_nomial", TUTTI_REDUCE, kOneWayForwarding, build_k_nomial_reduce, cost_k_nomial_reduce,
     "floor(log4(3p-2))", "n", kRadixSource},
    {"balanced_tree", TUTTI_REDUCE, kOneWayForwarding, build_balanced_tree_reduce, cost_balanced_tree_reduce,
     "floor(log2 p)", "n", kPairwiseSource, Tree::balanced},
    {"double_binary_tree", TUTTI_REDUCE, kTwoLanes, build_double_binary_tree_reduce, cost_double_binary_tree_reduce,
     "1 + floor(log2(p-1))", "n", kTwoTreeSource},
    {"one_shot", TUTTI_REDUCE, kOneWay, build_one_shot_reduce, cost_one_shot_reduce,
     "1", "n", kDirectSource, Tree::rank_order},
    {"two_shot", TUTTI_REDUCE, kExchange, build_two_shot_reduce, cost_two_shot_reduce,
     "2", "n", kDirectSource, Tree::rank_order},
    {"one_shot", TUTTI_GATHER, kOneWay, build_one_shot_gather, cost_one_shot_gather,
     "1", "1/p n", kDirectSource},
    {"binomial", TUTTI_GATHER, kOneWayForwarding, build_binomial_gather, cost_binomial_gather,
     "floor(log2 p)", "floor(p/2)/p n", kTreeSource, Tree::any, "k_nomial"},
    {"k_nomial", TUTTI_GATHER, kOneWayForwarding, build_k_nomial_gather, cost_k_nomial_gather,
     "floor(log4(3p-2))", "floor((p+2)/4)/p n", kRadixSource},
    {"one_shot", TUTTI_SCATTER, kOneWay, build_one_shot_scatter, cost_one_shot_scatter,
     "1", "(p-1)/p n", kDirectSource},
    {"binomial", TUTTI_SCATTER, kOneWayForwarding, build_binomial_scatter, cost_binomial_scatter,
     "floor(log2 p)", "(p-1)/p n", kTreeSource, Tree::any, "k_nomial"},
    {"k_nomial", TUTTI_SCATTER, kOneWayForwarding, build_k_nomial_scatter, cost_k_nomial_scatter,
     "floor(log4(3p-2))", "(p-1)/p n", kRadixSource},
    {"one_shot", TUTTI_ALL_TO_ALL, kExchange, build_one_shot_all_to_all, cost_one_shot_all_to_all,
     "1", "(p-1)/p n", kDirectSource},
    {"pairwise", TUTTI_ALL_TO_ALL, kExchange, build_pairwise_all_to_all, cost_pairwise_all_to_all,
     "p-1", "(p-1)/p n", "Thakur et al., IJHPCA 19(1), 2005"},
    {"bruck", TUTTI_ALL_TO_ALL, kBatches, build_bruck_all_to_all, cost_bruck_all_to_all,
     "sum ceil(m_k/4)", "(sum m_k)/p n", "Bruck et al., IEEE TPDS 8(11), 1997"},
};
// clang-format on

}  // namespace

std::span<const Algorithm> algorithms() { return kRows; }

const Algorithm* find_algorithm(tutti_collective what, std::string_view name) {
  for (const Algorithm& row : kRows)
    if (row.what == what && row.name == name) return &row;
  return nullptr;
}

Status unknown_algorithm(tutti_collective what, std::string_view name) {
  std::string names;
  for (const Algorithm& row : kRows)
    if (row.what == what) names += (names.empty() ? "" : ", ") + std::string(row.name);
  const std::string collective(collective_name(what));
  if (names.empty()) return Status::error(TUTTI_INVALID_ARGUMENT, "collective '" + collective + "' has no algorithms");
  return Status::error(TUTTI_INVALID_ARGUMENT,
                       "collective '" + collective + "' has no algorithm '" + std::string(name) + "'")
      .with_remedy("there are: " + names);
}

}  // namespace tutti::core
