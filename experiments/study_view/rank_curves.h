// Rank correlation of estimates with exact scores, by layer.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/statistics/aggregate.h"
#include "experiments/study_view/model_study.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {

struct RankMetric {
  const char* name;
  const char* title;  ///< of its panel
};
inline constexpr std::array kRankMetrics = {RankMetric{"spearman", "(a) tokens"},
                                            RankMetric{"spearman_block16", "(b) maxima of 16 tokens"},
                                            RankMetric{"spearman_block128", "(c) maxima of 128 tokens"}};

struct RankCorrelation {
  Interval mean;
  double min = kNaN;
  std::int64_t cells = 0;
};

/// A layer, or several pooled.
struct RankPoint {
  const char* layers;  ///< "one", "compared", "all"
  double layer = kNaN;
  std::array<RankCorrelation, kRankMetrics.size()> metrics = {};

  double mean(std::size_t metric) const { return metrics[metric].mean.mean; }
  bool has_cells() const {
    return std::ranges::any_of(metrics, [](const RankCorrelation& c) { return c.cells > 0; });
  }
};

struct RankCurve {
  const PooledSelector* selector = nullptr;
  std::string sample = {};  ///< its title; empty: all samples
  std::vector<RankPoint> layers = {};
  RankPoint compared{"compared"}, all{"all"};
  std::string same_as = {};  ///< name of the equal curve that is drawn instead; empty: none

  std::string name() const {
    return curve_name(selector->group.label) + (sample.empty() ? "" : " of sample " + curve_name(sample));
  }
};

/// `dense`: the layers that are left out of `compared`. Layers without an estimate are left out. Only `sample`,
/// where one is given.
RankCurve rank_curve(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& dense,
                     const std::optional<SampleKey>& sample = {});

/// Sets `same_as` of the curves that are part of another: selectors that differ in rule, GQA policy or dense layers
/// have the same estimate.
void find_equal_curves(std::vector<RankCurve>& curves);

/// How often `a` is above `b` in the layers where both have an estimate.
struct RankComparison {
  int above = 0, layers = 0;
  double a_mean = 0, b_mean = 0;  ///< means over these layers, each layer counting the same; NaN without layers

  RankComparison(const RankCurve& a, const RankCurve& b, std::size_t metric);
};

}  // namespace attest
