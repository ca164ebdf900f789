// From cells to the numbers of a table or figure: moments, pairs, span recall, head-wise variation, failure cases.
// Definitions: README.md, "Aggregates". NaN cells are left out everywhere; where nothing is left the answer is NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/statistics/bootstrap.h"
#include "analysis/statistics/quantile.h"
#include "analysis/statistics/sample_cells.h"

namespace attest {

/// Of the values that are not NaN; std is of the population.
struct Moments {
  std::int64_t count = 0;
  double mean = 0, std = 0, min = 0, max = 0;
};
Moments describe(std::span<const double> values);
Moments describe(std::span<const SampleCells> samples);

/// Over all cells; interpolated linearly (quantile.h). `p` in [0, 1].
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

/// Mean over all cells with its interval: samples are drawn, or (layer, head) pairs when there is one sample only.
Interval mean_interval(std::span<const SampleCells> samples, const BootstrapOptions& options = {});

/// Recall over the retrieval cells: those whose exact mass on the span is at least `threshold`.
struct SpanRecall {
  std::int64_t cells = 0;
  double min = 0;
  double mean = 0;
};
inline constexpr double kRetrievalMass = 0.3;

/// `recall` and `span_mass` from gather and gather_scores with the same label and choice; matched by dump, sample,
/// layer.
SpanRecall span_recall(std::span<const SampleCells> recall, std::span<const SampleCells> span_mass,
                       double threshold = kRetrievalMass);

/// The paper's head-wise table over all pairs.
struct HeadwiseVariation {
  Moments keep_ratio;
  double mean_hit_rate = 0;
};
HeadwiseVariation headwise_variation(std::span<const SampleCells> keep_ratio, std::span<const SampleCells> hit_rate);

/// The paper's failure-case proxies. proxy_error: at or below the 10 % quantile, over all pairs, of top1_top2_gap or of
/// score_std; high_error: of both (so also proxy_error); regular: of neither.
struct FailureCases {
  std::vector<Pair> proxy_error, high_error, regular;  ///< value: NaN; identity only
  std::size_t total() const { return proxy_error.size() + regular.size(); }
};
FailureCases failure_cases(std::span<const SampleCells> top1_top2_gap, std::span<const SampleCells> score_std,
                           double quantile_level = 0.1);

/// Mean over `members` of the values that `pairs` gives them.
double mean_over(std::span<const Pair> members, std::span<const Pair> pairs);

}  // namespace attest
