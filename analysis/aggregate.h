// From cells to the numbers of a table or figure: pairs, quantiles, span recall, head-wise variation, failure cases.
// Definitions: README.md, "Aggregates". NaN cells are left out everywhere; where nothing is left the answer is NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/bootstrap.h"
#include "dumps/results_file.h"

namespace attest {

/// Several results files read as one study: their dumps are numbered on, file after file.
using ResultsFiles = std::span<const ResultsFile* const>;

/// One metric of one sample at one setting: [Y, N, Hq] row-major over the layers that were chosen.
struct SampleCells {
  int dump = 0;  ///< over all files
  std::string sample;
  std::string task;
  std::vector<int> layers;     ///< [Y]
  std::int64_t num_queries = 0;  ///< N
  std::int64_t num_heads = 0;    ///< Hq; 1 for recall_layer
  std::vector<float> values;

  std::span<const float> layer(std::size_t y) const {
    const auto cells = static_cast<std::size_t>(num_queries * num_heads);
    return {values.data() + y * cells, cells};
  }
};

/// Which layers of a sample an average takes.
struct LayerChoice {
  /// Labels compared: a layer that is dense in one of them is left out of all. Empty: every selector of the file.
  std::vector<std::string> compared;
  bool with_dense_layers = false;  ///< keep dense layers
};

/// The cells of `metric` of selector `label` at the setting typed as `setting_label` (ignored by metrics without that
/// axis), for every sample that has them. Layers that were left out (done = 0) never appear.
std::vector<SampleCells> gather(ResultsFiles files, std::string_view label, std::string_view metric,
                                std::string_view setting_label, const LayerChoice& choice = {});

/// The same for every setting at once, reading each array once: [S] in the order of the first file that has `label`;
/// [1] for metrics without that axis. A file without one of these settings adds nothing to it.
std::vector<std::vector<SampleCells>> gather_settings(ResultsFiles files, std::string_view label,
                                                      std::string_view metric, const LayerChoice& choice = {});

/// The same of a metric of the exact scores; `label` decides which layers were done.
std::vector<SampleCells> gather_scores(ResultsFiles files, std::string_view label, std::string_view metric,
                                       const LayerChoice& choice = {});

/// Of the values that are not NaN; std is of the population.
struct Moments {
  std::int64_t count = 0;
  double mean = 0, std = 0, min = 0, max = 0;
};
Moments describe(std::span<const double> values);
Moments describe(std::span<const SampleCells> samples);

/// Linear interpolation between order statistics (Hyndman and Fan's type 7, NumPy's default); `p` in [0, 1].
double quantile(std::vector<double> values, double p);
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

/// `recall` and `span_mass` from gather and gather_scores with the same label and choice; matched by dump, sample, layer.
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
