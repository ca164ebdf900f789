// Which heads matter to the answer, and which of their errors do: head weights, and each head's part of the weighted
// error of a selector.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "experiments/study_view/head_means.h"

namespace attest {

struct WeighedHead {
  HeadPlace place;
  double weight = 0;     ///< mean over the samples that have weights of the layer
  double of_all = 0;     ///< its share of the sum of all heads' weights
  double so_far = 0;     ///< that of this head and all that are ranked before it
  double span_mass = 0;  ///< exact mass on the spans, mean over samples and queries; NaN without spans
};

struct HeadRanking {
  std::vector<WeighedHead> heads;  ///< descending by weight
  int prompts = 0;                 ///< samples with weights

  /// The number of first heads that have half of the sum.
  std::size_t half() const;
};

/// The sum of the squares of its query heads' weights, by KV head: the weight of a KV head is its root. `group`: query
/// heads of a KV head.
std::map<HeadPlace, double> squared_kv_weights(const std::map<HeadPlace, double>& weights, int group);

/// Places in the order of falling values, of which none is below 0; those without a value come last.
std::vector<HeadPlace> in_falling_order(const std::set<HeadPlace>& places, const std::map<HeadPlace, double>& values);
/// All that have a value.
std::vector<HeadPlace> in_falling_order(const std::map<HeadPlace, double>& values);

/// Ranks heads by their weight over all samples and layers that have weights.
HeadRanking rank_by_weight(const ModelStudy& study);

/// The share of each head in the sum of a selector's weighted errors at one setting, over samples and queries. The part
/// of a head in its layer's root of the sum of squares is the square of its own over that root. Empty if there is no
/// error.
struct HeadShares {
  std::map<HeadPlace, double> shares;
  double mean_error = 0;  ///< of the queries' weighted errors

  /// Descending by share.
  std::vector<std::pair<HeadPlace, double>> ranked() const;
  double of(const HeadPlace& place) const;  ///< 0 for a head without a share
};

/// [setting of the selector's grid]; empty if the results lack weighted_error_head.
std::vector<HeadShares> head_shares(const ModelStudy& study, const PooledSelector& selector);

}  // namespace attest
