// What a study finds, as plain data: the layer of meaning between analysis/, which computes it, and the results file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// The axes of a metric within one layer: N queries, Hq query heads, S settings, M lambdas (results-format: README.md).
enum class MetricAxes : std::uint8_t {
  query_head,          ///< [N, Hq]
  query_head_setting,  ///< [N, Hq, S]
  query_head_lambda,   ///< [N, Hq, M]
  query_setting,       ///< [N, S]
};

/// One metric of one layer, row-major float32; NaN means not defined or not computed.
struct MetricValues {
  std::string name;
  MetricAxes axes = MetricAxes::query_head;
  std::vector<float> values;
};

/// One selector of a study as its results group describes it.
struct SelectorGroup {
  std::string label;
  std::string selector;                     ///< registered name: "ffd"
  std::string setting;                      ///< "delta", "budget", "p", "none"
  std::string options_json;                 ///< every option with its value
  std::vector<double> settings;             ///< [S] in the order given; [1] holding 0 for "none"
  std::vector<std::string> setting_labels;  ///< [S] as typed
};

/// What one selector gave on one layer.
struct SelectorLayerResults {
  bool dense = false;  ///< dense_layers made it exact here
  std::vector<MetricValues> metrics;
};

/// The result of one unit of work: (dump, sample, layer).
struct LayerResults {
  int dump = 0;
  std::string sample;
  int layer = 0;
  bool done = true;                             ///< false: left out by --skip-bad-layers
  std::vector<MetricValues> scores;             ///< metrics of the exact scores alone
  std::vector<SelectorLayerResults> selectors;  ///< in the order of StudyDescription::selectors
};

/// One sample of a study: its axes.
struct StudySample {
  std::string name;
  std::string task;
  std::int64_t num_tokens = 0;
  std::vector<int> layers;                    ///< ascending
  std::vector<std::int64_t> query_positions;  ///< [N] of those studied
  bool has_spans = false;
};

/// One dump of a study.
struct StudyDump {
  std::string path;
  std::string model;
  int num_layers = 0;
  AttentionShape shape;
  std::vector<StudySample> samples;
};

/// Everything about a study that is known before it runs. The manifest is JSON text.
struct StudyDescription {
  std::string manifest_json;
  std::vector<StudyDump> dumps;
  std::vector<SelectorGroup> selectors;
  std::vector<double> lambdas;
};

}  // namespace attest
