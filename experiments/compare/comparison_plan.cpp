// Orders rows by selector, setting and metric.
#include "experiments/compare/comparison_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/results/axes.h"
#include "analysis/study/selector_options.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// Whether the sample has all that the metric is made of; of the exact scores if `selector` is empty.
bool sample_has(const ResultsFile& file, SamplePlace place, std::optional<std::size_t> selector,
                const MetricStatistic& metric) {
  const auto contains = [](const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::count(names, name) > 0;
  };
  const std::vector<std::string> scores = file.score_metrics(place.dump, place.sample);
  if (!selector) return contains(scores, metric.metric);
  return contains(file.metrics(place.dump, place.sample, *selector), metric.stored_metric()) &&
         (metric.metric != kSpanRecallMetric || contains(scores, "span_mass"));
}

struct MetricPresence {
  bool first = false, second = false, both = false;
};
MetricPresence presence_of(const ResultsFile& first, const ResultsFile& second, const MatchedPrompts& prompts,
                           const MatchedSelector* pair, const MetricStatistic& metric) {
  MetricPresence found;
  for (const MatchedPrompt& prompt : prompts.prompts) {
    const auto selector_of = [&](std::size_t index) { return pair == nullptr ? std::nullopt : std::optional(index); };
    const bool a = sample_has(first, prompt.first, selector_of(pair == nullptr ? 0 : pair->first), metric);
    const bool b = sample_has(second, prompt.second, selector_of(pair == nullptr ? 0 : pair->second), metric);
    found.first = found.first || a;
    found.second = found.second || b;
    found.both = found.both || (a && b);
  }
  return found;
}

void check_definition(const Comparison& comparison, const MetricStatistic& metric) {
  if (metric.statistic == CellStatistic::count)
    throw UsageError(
        fmt::format("--metrics: '{}': cells are compared in pairs, so that both files have as many", metric.name()));
  const double a = comparison.first_salient_delta, b = comparison.second_salient_delta;
  const bool depends = metric.metric.starts_with("salient_") || metric.metric == "missed_salient_mass";
  if (depends && !std::isnan(a) && !std::isnan(b) && a != b)
    throw InputError(fmt::format("'{}' cannot be compared: --salient-delta was {} for {}, {} for {}", metric.metric, a,
                                 comparison.first.path, b, comparison.second.path));
}

/// Whether the metric's salient tokens are those within the setting's own delta of the peak.
bool has_own_salient_delta(const MetricStatistic& metric) {
  return metric.metric == "salient_hit_rate" || metric.metric == "salient_ratio" ||
         metric.metric == "missed_salient_mass";
}

/// How far below the peak a token may be to be salient at a setting: the setting's delta, else --salient-delta. NaN if
/// not known.
struct SalientDelta {
  std::string unit = "natural";
  double value = 0;
};
SalientDelta salient_delta_of(const ResultsFile& file, const StudySelector& selector, std::size_t setting) {
  if (selector.kind != SettingKind::delta) return {.value = file.study().salient_delta};
  SalientDelta delta{.value = selector.grid[setting].value};
  for (const auto& [option, value] : selector_options(selector.options_json))
    if (option == "delta_unit") delta.unit = value;
  return delta;
}

class Planner {
 public:
  Planner(const ResultsFile& first, const ResultsFile& second, const ComparisonRequest& request, Comparison& comparison)
      : first_(first), second_(second), request_(request), comparison_(comparison) {}

  std::vector<CellSeries> plan() {
    for (const MetricStatistic& metric : request_.metrics) check_definition(comparison_, metric);
    std::vector<MetricPresence> seen(request_.metrics.size());
    plan_part(std::nullopt, seen);
    for (std::size_t pair = 0; pair < comparison_.selectors.pairs.size(); ++pair) plan_part(pair, seen);
    for (std::size_t m = 0; m < seen.size(); ++m)
      if (!seen[m].both && !request_.only_common_metrics) refuse_missing(request_.metrics[m], seen[m]);
    if (series_.empty())
      throw InputError(fmt::format("{} and {} have no metric in common", first_.path(), second_.path()));
    return std::move(series_);
  }

 private:
  /// Adds the rows of one selector, or those of the exact scores.
  void plan_part(std::optional<std::size_t> pair, std::vector<MetricPresence>& seen) {
    const MatchedSelector* selector = pair ? &comparison_.selectors.pairs[*pair] : nullptr;
    const std::size_t begin = series_.size();
    std::vector<std::optional<std::size_t>> series_of(request_.metrics.size());
    for (std::size_t m = 0; m < request_.metrics.size(); ++m) {
      const MetricStatistic& metric = request_.metrics[m];
      if (metric.of_scores == pair.has_value()) continue;
      const auto same = std::find_if(series_.begin() + static_cast<std::ptrdiff_t>(begin), series_.end(),
                                     [&](const CellSeries& s) { return s.metric.metric == metric.metric; });
      const MetricPresence found = presence_of(first_, second_, comparison_.prompts, selector, metric);
      seen[m].first = seen[m].first || found.first;
      seen[m].second = seen[m].second || found.second;
      seen[m].both = seen[m].both || found.both;
      if (!found.both) continue;
      series_of[m] = static_cast<std::size_t>(same - series_.begin());
      if (same == series_.end()) add_series(metric, pair);
    }
    add_rows(selector, begin, series_of);
  }

  void add_series(const MetricStatistic& metric, std::optional<std::size_t> pair) {
    CellSeries& series = series_.emplace_back(CellSeries{.metric = metric, .pair = pair, .settings = {}});
    std::vector<IndexPair> settings{{}};
    if (pair && has_settings(metric.info.axes)) settings = comparison_.selectors.pairs[*pair].settings;
    for (const IndexPair& setting : settings) {
      series.settings.push_back({.setting = setting, .heads = comparison_.heads.size(), .rows = {}});
      comparison_.heads.emplace_back();
    }
  }

  /// Metrics that no setting changes come before those that have them.
  void add_rows(const MatchedSelector* selector, std::size_t begin,
                const std::vector<std::optional<std::size_t>>& series_of) {
    for (const bool of_settings : {false, true})
      for (std::size_t s = 0; s < (of_settings && selector != nullptr ? selector->settings.size() : 1); ++s)
        for (std::size_t m = 0; m < request_.metrics.size(); ++m) {
          if (!series_of[m] || *series_of[m] < begin) continue;
          CellSeries& series = series_[*series_of[m]];
          if (has_settings(series.metric.info.axes) != of_settings || s >= series.settings.size()) continue;
          add_row(request_.metrics[m], selector, of_settings, series.settings[s]);
        }
  }

  void add_row(const MetricStatistic& metric, const MatchedSelector* selector, bool of_setting,
               SeriesSetting& setting) {
    setting.rows.push_back(comparison_.rows.size());
    ComparedRow& row = comparison_.rows.emplace_back();
    row.metric = metric;
    row.heads = setting.heads;
    if (selector == nullptr) return;
    row.first_label = selector->first_label;
    row.second_label = selector->second_label;
    if (!of_setting) return;
    const StudySelector& typed = first_.study().selectors[selector->first];
    row.kind = typed.kind;
    row.setting_label = typed.setting_labels[setting.setting.first];
    const StudySelector& other = second_.study().selectors[selector->second];
    check_salient(metric, typed, other, setting.setting);
    if (typed.kind != other.kind || typed.grid[setting.setting.first] != other.grid[setting.setting.second])
      row.second_setting = other.kind == SettingKind::none ? std::string(kNoSetting)
                                                           : fmt::format("{} {}", name_of(other.kind),
                                                                         other.setting_labels[setting.setting.second]);
    const auto at = std::ranges::find(selector->settings, setting.setting) - selector->settings.begin();
    if (!selector->io.empty()) row.io = selector->io[static_cast<std::size_t>(at)];
  }

  /// Throws InputError if the metric counts salient tokens and the two files have different deltas for them.
  void check_salient(const MetricStatistic& metric, const StudySelector& a, const StudySelector& b,
                     const IndexPair& setting) const {
    if (!has_own_salient_delta(metric)) return;
    const SalientDelta first = salient_delta_of(first_, a, setting.first),
                       second = salient_delta_of(second_, b, setting.second);
    if (std::isnan(first.value) || std::isnan(second.value)) return;
    if (first.unit == second.unit && first.value == second.value) return;
    throw InputError(printable(
        fmt::format("'{}' cannot be compared: salient are the tokens within {} ({}) of the peak for '{}', {} ({}) for "
                    "'{}'; salient_hit_rate_fixed has one delta for all",
                    metric.metric, first.value, first.unit, a.label, second.value, second.unit, b.label)));
  }

  [[noreturn]] void refuse_missing(const MetricStatistic& metric, const MetricPresence& seen) const {
    const std::string hint = metric.metric.starts_with("span_") ? ", which takes samples with spans" : "";
    if (seen.first && seen.second)
      throw InputError(fmt::format("no prompt has '{}' in both files{}", metric.metric, hint));
    throw InputError(fmt::format("{}: the selectors and prompts compared have no '{}'{}",
                                 seen.first ? second_.path() : first_.path(), metric.metric, hint));
  }

  const ResultsFile &first_, &second_;
  const ComparisonRequest& request_;
  Comparison& comparison_;
  std::vector<CellSeries> series_;
};

}  // namespace

std::vector<CellSeries> plan_rows(const ResultsFile& first, const ResultsFile& second, const ComparisonRequest& request,
                                  Comparison& comparison) {
  return Planner(first, second, request, comparison).plan();
}

}  // namespace attest
