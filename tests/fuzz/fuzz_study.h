// A small study with all metrics of two selectors, and its results: the seed of the readers of results and of units.
#pragma once

#include <string>

#include "analysis/metrics/metric.h"
#include "analysis/results/results_file.h"
#include "kernels/selectors/registry.h"
#include "tests/analysis/results/small_study.h"

namespace attest::fuzz {

/// The small study, with real selectors, whose results figures are made of.
inline Study fuzz_study() {
  Study study = test::small_study();
  study.selectors.clear();
  for (const char* name : {"ffd", "quest"}) {
    std::shared_ptr<Selector> selector = make_selector({name, name, {}});
    const bool is_delta = selector->setting_kind() == SettingKind::delta;
    study.selectors.push_back(make_study_selector(
        name, selector, is_delta ? std::vector<Setting>{{5}, {7}} : std::vector<Setting>{{64}, {25, true}},
        is_delta ? std::vector<std::string>{"5", "7"} : std::vector<std::string>{"64", "25%"}));
  }
  return study;
}

/// Results within the range of every metric.
inline LayerResults fuzz_results(const Study& study, const UnitKey& unit) {
  LayerResults results{.dump = static_cast<int>(unit.dump),
                       .sample = study.dumps[unit.dump].samples[unit.sample].name,
                       .layer = unit.layer,
                       .scores = {},
                       .selectors = {}};
  const std::size_t num_tokens = study.dumps[unit.dump].samples[unit.sample].span_tokens.size();
  const auto of_tokens = [](const MetricInfo& info) { return info.axes == MetricAxes::query_setting_token; };
  const auto values_of = [&](const MetricInfo& info, const StudySelector* selector) {
    const std::size_t last = info.axes == MetricAxes::query_head_lambda ? study.lambdas.size()
                             : has_settings(info.axes)                  ? selector->grid.size()
                             : of_tokens(info)                          ? selector->grid.size() * num_tokens
                                                                        : 1;
    MetricValues metric = test::small_metric(std::string(info.name), info.axes, study, static_cast<int>(unit.dump),
                                             static_cast<int>(unit.sample), unit.layer, last, 1);
    for (float& value : metric.values) value = 0.25f + value * 0x1p-19f;  // within every range
    return metric;
  };
  for (const Metric& metric : all_metrics())
    if (metric.of_scores()) results.scores.push_back(values_of(metric.info, nullptr));
  for (const StudySelector& selector : study.selectors) {
    SelectorLayerResults& own = results.selectors.emplace_back();
    for (const Metric& metric : all_metrics())
      if (!metric.of_scores() && !(of_tokens(metric.info) && num_tokens == 0))
        own.metrics.push_back(values_of(metric.info, &selector));
    for (const MetricInfo& info : selector.selector->own_metrics()) own.metrics.push_back(values_of(info, &selector));
  }
  results.input_blocks = {{.block = 0, .hash = 0x0123456789ABCDEF}, {.block = 7, .hash = 1}};
  return results;
}

}  // namespace attest::fuzz
