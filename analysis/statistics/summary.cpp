#include "analysis/statistics/summary.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/statistics/aggregate.h"

namespace attest {
namespace {

/// One metric of one selector at all its settings.
class MetricBySetting {
 public:
  MetricBySetting(ResultsFiles files, const std::string& label, const char* metric, const LayerChoice& choice)
      : by_setting_(gather_settings(files, label, metric, choice)) {}

  /// A metric that no setting changes has the same cells at each.
  const std::vector<SampleCells>& at(std::size_t setting) const {
    static const std::vector<SampleCells> none;
    if (by_setting_.empty()) return none;
    return by_setting_[by_setting_.size() == 1 ? 0 : setting];
  }
  Moments moments(std::size_t setting) const { return describe(at(setting)); }

 private:
  std::vector<std::vector<SampleCells>> by_setting_;
};

std::vector<SummaryRow> rows_of(ResultsFiles files, const SelectorGroup& selector, const LayerChoice& choice) {
  const auto metric = [&](const char* name) { return MetricBySetting(files, selector.label, name, choice); };
  const MetricBySetting recall = metric("recall"), lse_error = metric("lse_error"), keep_ratio = metric("keep_ratio"),
                        io_ratio = metric("io_ratio"), spearman = metric("spearman"),
                        hit_rate = metric("salient_hit_rate");
  const std::vector<SampleCells> span_mass = gather_scores(files, selector.label, "span_mass", choice);
  std::vector<SummaryRow> rows;
  for (std::size_t s = 0; s < selector.settings.size(); ++s) {
    const SpanRecall span = span_recall(recall.at(s), span_mass);
    rows.push_back({.label = selector.label,
                    .selector = selector.selector,
                    .setting = selector.setting,
                    .setting_label = selector.setting_labels[s],
                    .mean_recall = recall.moments(s).mean,
                    .min_recall = recall.moments(s).min,
                    .mean_span_recall = span.mean,
                    .min_span_recall = span.min,
                    .max_lse_error = lse_error.moments(s).max,
                    .keep_ratio = keep_ratio.moments(s).mean,
                    .io_ratio = io_ratio.moments(s).mean,
                    .spearman = spearman.moments(s).mean,
                    .salient_hit_rate = hit_rate.moments(s).mean,
                    .min_keep_ratio = keep_ratio.moments(s).min});
  }
  return rows;
}

std::vector<int> dense_layers(const ResultsFile& results) {
  std::set<int> layers;
  const StudyDescription& study = results.study();
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s)
      for (std::size_t i = 0; i < study.selectors.size(); ++i)
        for (std::size_t y = 0; y < study.dumps[d].samples[s].layers.size(); ++y)
          if (results.dense(d, s, i)[y] != 0) layers.insert(study.dumps[d].samples[s].layers[y]);
  return {layers.begin(), layers.end()};
}

}  // namespace

Summary summarize(const ResultsFile& results, bool with_dense_layers) {
  Summary summary;
  summary.with_dense_layers = with_dense_layers;
  summary.dense_layers = dense_layers(results);
  for (const StudyDump& dump : results.study().dumps)
    summary.has_spans |= std::any_of(dump.samples.begin(), dump.samples.end(),
                                     [](const StudySample& sample) { return sample.has_spans; });
  const ResultsFile* file = &results;
  const LayerChoice choice{.compared = {}, .with_dense_layers = with_dense_layers};
  for (const SelectorGroup& selector : results.study().selectors) {
    const std::vector<SummaryRow> rows = rows_of({&file, 1}, selector, choice);
    summary.has_cells |=
        std::any_of(rows.begin(), rows.end(), [](const SummaryRow& r) { return !std::isnan(r.keep_ratio); });
    const bool kept_all =
        std::all_of(rows.begin(), rows.end(), [](const SummaryRow& r) { return r.min_keep_ratio >= 1; });
    if (selector.setting != "none" && kept_all) summary.dropped_nothing.push_back(selector.label);
    summary.rows.insert(summary.rows.end(), rows.begin(), rows.end());
  }
  return summary;
}

}  // namespace attest
