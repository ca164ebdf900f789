// Aggregates of cells for tables and figures: moments, pairs, span recall, head-wise variation, failure cases.
// Definitions: analysis/README.md, "Aggregates". NaN cells are left out everywhere; if no cell is left, the result is
// NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/statistics/bootstrap.h"
#include "analysis/statistics/quantile.h"
#include "analysis/statistics/sample_cells.h"

namespace attest {

/// Moments of the values that are not NaN. std is the population standard deviation.
struct Moments {
  std::int64_t count = 0;
  double mean = 0, std = 0, min = 0, max = 0;
};
Moments describe(std::span<const double> values);
Moments describe(std::span<const float> values);
Moments describe(std::span<const SampleCells> samples);

/// Quantile over all cells, interpolated linearly (quantile.h). `p` in [0, 1].
double quantile(std::span<const SampleCells> samples, double p);

/// (dump, layer, head): the unit of the paper's head-wise tables.
struct Pair {
  int dump = 0;
  int layer = 0;
  int head = 0;
  double value = 0;
};
enum class PairValue : std::uint8_t { mean, max };

/// Each pair's mean (max for lse_error) over its samples and queries, ascending by (dump, layer, head).
std::vector<Pair> pair_values(std::span<const SampleCells> samples, PairValue reduce = PairValue::mean);

/// Mean over all cells with its bootstrap interval. The bootstrap draws samples, or (dump, layer, head) pairs if there
/// is only one sample. It stays within the metric's range.
Interval mean_interval(std::span<const SampleCells> samples, BootstrapOptions options = {});

/// Recall over the retrieval cells. A cell is a retrieval cell if its exact mass on the span is at least `threshold`.
struct SpanRecall {
  std::int64_t cells = 0;
  double min = 0;
  double mean = 0;
};
inline constexpr double kRetrievalMass = 0.3;

/// `recall` comes from gather(), `span_mass` from gather_scores(), with the same label and choice. They are matched by
/// dump, sample and layer.
SpanRecall span_recall(std::span<const SampleCells> recall, std::span<const SampleCells> span_mass,
                       double threshold = kRetrievalMass);

/// The paper's head-wise table over all pairs.
struct HeadwiseVariation {
  Moments keep_ratio;
  double mean_hit_rate = 0;
};
HeadwiseVariation headwise_variation(std::span<const SampleCells> keep_ratio, std::span<const SampleCells> hit_rate);

/// The paper's failure-case proxies. Limits are the quantiles (default 10 %) of top1_top2_gap and of score_std over all
/// pairs. proxy_error: at or below at least one of the two limits; high_error: at or below both, a subset of
/// proxy_error; regular: above both.
struct FailureCases {
  std::vector<Pair> proxy_error = {}, high_error = {}, regular = {};  ///< Pair::value is NaN
  double gap_limit = 0, std_limit = 0;                                ///< NaN without pairs
  std::size_t total() const { return proxy_error.size() + regular.size(); }
};
FailureCases failure_cases(std::span<const SampleCells> top1_top2_gap, std::span<const SampleCells> score_std,
                           double quantile_level = 0.1);

/// Mean over `members` of the values that `pairs` gives them.
double mean_over(std::span<const Pair> members, std::span<const Pair> pairs);

}  // namespace attest
