// Reads the cells of a prompt metric by metric and reduces them as a validation does.
#include "analysis/outcomes/predictors.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "analysis/metrics/metric.h"
#include "analysis/statistics/ladder.h"
#include "analysis/statistics/metric_statistic.h"
#include "analysis/statistics/model_cells.h"
#include "analysis/statistics/model_span_lost.h"
#include "analysis/statistics/span_error.h"
#include "analysis/validation/prompt_values.h"
#include "dumps/base/error.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

Predictor predictor_of(const MetricStatistic& quantity) {
  const bool cost = quantity.info.is_cost;
  const Metric* metric = find_metric(quantity.stored_metric());
  Predictor predictor{.name = quantity.name(),
                      .high_fails = !cost && quantity.info.better != Better::higher,
                      .needs_spans = quantity.metric == kSpanRecallMetric || quantity.metric == "span_mass" ||
                                     (metric != nullptr && metric->needs.spans)};
  const std::optional<Badness> badness = badness_of(quantity.info);
  if (!cost && badness == Badness::deficit) predictor.scale = Predictor::Scale::deficit;
  if (!cost && badness == Badness::value && quantity.info.range.min >= 0)
    predictor.scale = Predictor::Scale::logarithmic;
  return predictor;
}

std::vector<MetricStatistic> statistics_of(const std::string& metric) {
  std::vector<MetricStatistic> quantities;
  MetricStatistic mean;
  try {
    mean = parse_metric(metric, metric);
  } catch (const UsageError&) {  // unknown to this program, or with a value for each lambda or token
    return quantities;
  }
  std::vector<std::string_view> names{"mean"};
  if (mean.info.better != Better::neither)
    names.push_back(mean.info.is_cost || mean.info.better == Better::higher ? "min" : "max");
  if (metric == "recall") names.push_back("p5");
  for (const std::string_view name : names) quantities.push_back(with_statistic(mean, metric, name));
  return quantities;
}

void add_metric(const Prompt& prompt, const std::string& metric, std::size_t num_settings,
                std::vector<PredictorValues>& all) {
  const std::vector<MetricStatistic> quantities = statistics_of(metric);
  if (quantities.empty()) return;
  const std::optional<PromptCells> cells = read_cells(prompt, quantities.front());
  if (!cells) return;
  for (const MetricStatistic& quantity : quantities)
    all.push_back({predictor_of(quantity), reduce(*cells, all_of(*cells), quantity, num_settings)});
}

void add_span_share(const Prompt& prompt, std::size_t num_settings, std::vector<PredictorValues>& all) {
  const std::optional<MetricArray> kept =
                                       prompt.file->read(prompt.dump, prompt.sample, prompt.selector, "span_mass_kept"),
                                   mass = prompt.file->read_scores(prompt.dump, prompt.sample, "span_mass");
  if (!kept || !mass || kept->values.size() != mass->values.size() * num_settings) return;
  std::vector<double> part(num_settings), whole(num_settings);
  for (std::size_t i = 0; i < kept->values.size(); ++i) {
    const auto k = static_cast<double>(kept->values[i]), m = static_cast<double>(mass->values[i / num_settings]);
    if (std::isnan(k) || std::isnan(m)) continue;
    part[i % num_settings] += k;
    whole[i % num_settings] += m;
  }
  for (std::size_t s = 0; s < num_settings; ++s) part[s] = whole[s] > 0 ? part[s] / whole[s] : kNaN;
  all.push_back({{.name = kSpanShareKept, .high_fails = false, .needs_spans = true, .scale = Predictor::Scale::deficit},
                 std::move(part)});
}

void add_model_span_lost(const Prompt& prompt, std::size_t num_settings, std::vector<PredictorValues>& all) {
  const std::optional<ModelSpanLost> lost = model_span_lost(*prompt.file, prompt.dump, prompt.sample, prompt.selector);
  if (!lost || static_cast<std::size_t>(lost->settings) != num_settings) return;
  std::vector<double> sums(num_settings), maximum(num_settings);
  std::vector<std::int64_t> counts(num_settings);
  for (std::size_t i = 0; i < lost->values.size(); ++i) {
    if (std::isnan(lost->values[i])) continue;
    const std::size_t s = i % num_settings;
    sums[s] += lost->values[i];
    maximum[s] = std::max(maximum[s], lost->values[i]);
    ++counts[s];
  }
  for (std::size_t s = 0; s < num_settings; ++s) {
    // To float32: equal shares that were added in another order stay equal.
    sums[s] = counts[s] > 0 ? static_cast<float>(sums[s] / static_cast<double>(counts[s])) : kNaN;
    if (counts[s] == 0) maximum[s] = kNaN;
  }
  all.push_back({{.name = fmt::format("{}.mean", kModelSpanLost), .needs_spans = true}, std::move(sums)});
  all.push_back({{.name = fmt::format("{}.max", kModelSpanLost), .needs_spans = true}, std::move(maximum)});
}

void add_span_error(const Prompt& prompt, std::size_t num_settings, std::vector<PredictorValues>& all) {
  const std::optional<MetricArray> error =
                                       prompt.file->read(prompt.dump, prompt.sample, prompt.selector, "output_error"),
                                   mass = prompt.file->read_scores(prompt.dump, prompt.sample, "span_mass");
  if (!error || !mass || error->values.size() != mass->values.size() * num_settings) return;
  std::vector<double> maximum(num_settings, kNaN);
  const std::vector<double> values = span_error(*error, *mass, prompt.rows);
  for (std::size_t i = 0; i < values.size(); ++i)
    maximum[i % num_settings] = std::fmax(maximum[i % num_settings], values[i]);
  all.push_back(
      {{.name = kSpanError, .needs_spans = true, .scale = Predictor::Scale::logarithmic}, std::move(maximum)});
}

}  // namespace

std::vector<PredictorValues> predictor_values(const Prompt& prompt) {
  const std::size_t num_settings = prompt.file->study().selectors[prompt.selector].grid.size();
  std::vector<PredictorValues> all;
  std::vector<std::string> metrics = prompt.file->metrics(prompt.dump, prompt.sample, prompt.selector);
  std::ranges::move(prompt.file->score_metrics(prompt.dump, prompt.sample), std::back_inserter(metrics));
  metrics.emplace_back(kSpanRecallMetric);
  for (const ModelMetric& metric : kModelMetrics) metrics.emplace_back(metric.info.name);
  for (const std::string& metric : metrics) add_metric(prompt, metric, num_settings, all);
  add_span_share(prompt, num_settings, all);
  add_model_span_lost(prompt, num_settings, all);
  add_span_error(prompt, num_settings, all);
  return all;
}

}  // namespace attest
