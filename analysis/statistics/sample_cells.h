// The cells of one metric, sample by sample, out of results files: what every aggregate starts from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/results/results_file.h"

namespace attest {

/// Several results files read as one study: their dumps are numbered on, file after file.
using ResultsFiles = std::span<const ResultsFile* const>;

/// One metric of one sample at one setting: [Y, N, Hq] row-major over the layers that were chosen.
struct SampleCells {
  int dump = 0;  ///< over all files
  std::string sample;
  std::string task;
  std::vector<int> layers;       ///< [Y]
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

}  // namespace attest
