// The cells of one metric by sample, read from results files. Input of all aggregates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/results/results_file.h"
#include "kernels/base/metric_info.h"

namespace attest {

/// Several results files read as one study. Dumps are numbered consecutively over the files.
using ResultsFiles = std::span<const ResultsFile* const>;

/// One metric of one sample at one setting: [Y, N, Hq], row-major, Y counts the chosen layers.
struct SampleCells {
  int dump = 0;  ///< number over all files
  std::string sample;
  std::string task;
  std::int64_t num_tokens = 0;
  std::vector<int> layers;       ///< [Y]
  std::int64_t num_queries = 0;  ///< N
  std::int64_t num_heads = 0;    ///< Hq; 1 for a metric of all heads together, such as recall_layer
  std::vector<float> values;
  MetricRange range = {};  ///< of the metric

  std::span<const float> layer(std::size_t y) const {
    const auto cells = static_cast<std::size_t>(num_queries * num_heads);
    return {values.data() + y * cells, cells};
  }
};

/// Which layers of a sample are averaged.
struct LayerChoice {
  /// Labels of the compared selectors. A layer that is dense in one of them is left out for all. Empty: every selector
  /// of the file.
  std::vector<std::string> compared;
  bool with_dense_layers = false;  ///< keep dense layers
};

/// The cells of `metric` of selector `label`, for every sample that has them, at the setting that was typed as
/// `setting_label` (ignored if the metric has no settings). None of a metric by lambda or token. Layers that were not
/// computed (done = 0) never appear.
std::vector<SampleCells> gather(ResultsFiles files, std::string_view label, std::string_view metric,
                                std::string_view setting_label, const LayerChoice& choice = {});

/// gather() for several settings; reads each array once. [S] in the order of `setting_labels`; [1] if the metric has no
/// settings. A file that lacks one of the settings adds no cells to it.
std::vector<std::vector<SampleCells>> gather_settings(ResultsFiles files, std::string_view label,
                                                      std::string_view metric,
                                                      std::span<const std::string> setting_labels,
                                                      const LayerChoice& choice = {});
/// The same for the settings of the first file that has `label`.
std::vector<std::vector<SampleCells>> gather_settings(ResultsFiles files, std::string_view label,
                                                      std::string_view metric, const LayerChoice& choice = {});

/// gather() for a metric of the exact scores. The layers are those computed for selector `label`.
std::vector<SampleCells> gather_scores(ResultsFiles files, std::string_view label, std::string_view metric,
                                       const LayerChoice& choice = {});

}  // namespace attest
