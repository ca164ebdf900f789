// A small study in which every value encodes its position: two dumps of different shape, samples with different layers
// and queries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"

namespace attest::test {

inline Study small_study() {
  Study study;
  study.lambdas = {0.5, 1};
  study.selectors = {{.label = "zeta",
                      .name = "ffd",
                      .options_json = R"({"bits":"2"})",
                      .kind = SettingKind::delta,
                      .grid = {{7}, {5}, {1.5}},
                      .setting_labels = {"7", "5", "1.50"}},
                     {.label = "alpha=1",
                      .name = "kivi",
                      .options_json = "{}",
                      .kind = SettingKind::none,
                      .grid = {Setting{}},
                      .setting_labels = {""}}};
  StudyDump first{"a.h5", "test/one", 6, {.num_query_heads = 4, .num_kv_heads = 2, .head_dim = 8, .value_dim = 5}, {}};
  first.samples = {{"s", "ruler/niah", 40, {0, 2, 5}, {17, 39}, true, {3, 4, 18}},
                   {"t", "longbench", 23, {3}, {22}, false}};
  StudyDump second{"b.h5", "test/two", 2, {.num_query_heads = 3, .num_kv_heads = 1, .head_dim = 4, .value_dim = 4}, {}};
  second.samples = {{"s", "ruler/niah", 9, {1}, {2, 5, 8}, false}};
  study.dumps = {first, second};
  return study;
}

/// The value of a cell, between 0 and 1, which all metrics here accept. It encodes the cell's position and is exact in
/// float32.
inline float value_at(int dump, int sample, int layer, std::int64_t query, std::int64_t head, std::int64_t last,
                      int metric) {
  constexpr float kLargest = 1 << 18;
  return (static_cast<float>(dump * 100000 + sample * 50000 + layer * 1000 + query * 100 + head * 10 + last) +
          static_cast<float>(metric) / 16) /
         kLargest;
}

inline MetricValues small_metric(const std::string& name, MetricAxes axes, const Study& study, int dump, int sample,
                                 int layer, std::size_t last_axis, int number) {
  const StudyDump& d = study.dumps[static_cast<std::size_t>(dump)];
  const auto queries = static_cast<std::int64_t>(d.samples[static_cast<std::size_t>(sample)].query_positions.size());
  const bool of_all_heads = axes == MetricAxes::query_setting || axes == MetricAxes::query_setting_token;
  const std::int64_t heads = of_all_heads ? 1 : d.shape.num_query_heads;
  MetricValues metric{name, axes, {}};
  for (std::int64_t q = 0; q < queries; ++q)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < last_axis; ++i)
        metric.values.push_back(value_at(dump, sample, layer, q, h, static_cast<std::int64_t>(i), number));
  return metric;
}

/// Layer 0 is dense for the second selector, which then has no spearman.
inline LayerResults small_results(const Study& study, int dump, int sample, int layer) {
  LayerResults results{
      .dump = dump,
      .sample = study.dumps[static_cast<std::size_t>(dump)].samples[static_cast<std::size_t>(sample)].name,
      .layer = layer,
      .done = true,
      .scores = {},
      .selectors = {}};
  const auto make = [&](const char* name, MetricAxes axes, std::size_t last, int number) {
    return small_metric(name, axes, study, dump, sample, layer, last, number);
  };
  results.scores = {make("lse", MetricAxes::query_head, 1, 1)};
  for (const StudySelector& selector : study.selectors) {
    SelectorLayerResults& own = results.selectors.emplace_back();
    const std::size_t settings = selector.grid.size();
    own.dense = selector.name == "kivi" && layer == 0;
    own.metrics = {make("recall", MetricAxes::query_head_setting, settings, 2),
                   make("recall_layer", MetricAxes::query_setting, settings, 3),
                   make("scan_error_tail", MetricAxes::query_head_lambda, study.lambdas.size(), 4)};
    const std::size_t tokens =
        study.dumps[static_cast<std::size_t>(dump)].samples[static_cast<std::size_t>(sample)].span_tokens.size();
    if (tokens > 0)
      own.metrics.push_back(make("span_token_heads", MetricAxes::query_setting_token, settings * tokens, 6));
    if (!own.dense) own.metrics.push_back(make("spearman", MetricAxes::query_head, 1, 5));
  }
  return results;
}

/// Calls visit(dump, sample, layer) for every unit of the study.
template <class Visit>
void each_unit(const Study& study, Visit visit) {
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s)
      for (const int layer : study.dumps[d].samples[s].layers) visit(static_cast<int>(d), static_cast<int>(s), layer);
}

inline void write_small_study(const std::string& path) {
  const Study study = small_study();
  ResultsWriter writer(path, study);
  each_unit(study, [&](int d, int s, int layer) { writer.add(small_results(study, d, s, layer)); });
  writer.finish(R"({"made": "small_study.h"})");
}

}  // namespace attest::test
