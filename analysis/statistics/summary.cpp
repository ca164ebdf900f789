// Builds the summary table of a run, from layers as they are computed or from a results file.
#include "analysis/statistics/summary.h"

#include <algorithm>
#include <cmath>

#include "analysis/results/axes.h"
#include "analysis/statistics/aggregate.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr SummaryColumn kSpanColumns[] = {
    {SummaryColumn::Statistic::mean, "mean_span_recall", "span recall"},
    {SummaryColumn::Statistic::min, "min_span_recall", "min"},
};

const MetricValues* find(const std::vector<MetricValues>& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &MetricValues::name);
  return found == metrics.end() ? nullptr : &*found;
}

/// Layer y of a metric's array of all layers.
MetricValues layer_of(std::string_view name, const MetricArray& array, std::size_t y) {
  const std::size_t cells = array.values.size() / static_cast<std::size_t>(array.num_layers());
  const auto begin = array.values.begin() + static_cast<std::ptrdiff_t>(y * cells);
  return {std::string(name), array.axes, {begin, begin + static_cast<std::ptrdiff_t>(cells)}};
}

}  // namespace

/// Statistics of the columns of rows, one column per setting. Rows are added one after the other: the sums of a row do
/// not wait for each other, so that the compiler can make vectors of them.
class SummaryBuilder::RowStatistics {
 public:
  explicit RowStatistics(std::size_t columns)
      : sum_(columns, empty_.sum), min_(columns, empty_.min), max_(columns, empty_.max), count_(columns, 0) {}

  void add(const float* row) {
    double *const sum = sum_.data(), *const min = min_.data(), *const max = max_.data();
    std::int64_t* const count = count_.data();
    const std::size_t columns = sum_.size();
    for (std::size_t i = 0; i < columns; ++i) {
      const auto value = static_cast<double>(row[i]);  // NaN is neither less nor greater than what is there
      const bool defined = !std::isnan(value);
      sum[i] += defined ? value : 0;
      min[i] = value < min[i] ? value : min[i];
      max[i] = value > max[i] ? value : max[i];
      count[i] += defined ? 1 : 0;
    }
  }
  Statistics column(std::size_t i) const {
    return {.sum = sum_[i], .min = min_[i], .max = max_[i], .count = count_[i]};
  }

 private:
  static constexpr Statistics empty_{};
  std::vector<double> sum_, min_, max_;
  std::vector<std::int64_t> count_;
};

void SummaryBuilder::Statistics::merge(const Statistics& other) {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  sum += other.sum;
  count += other.count;
}

void SummaryBuilder::Cells::merge(const Cells& other) {
  for (const auto& [metric, statistics] : other.metrics) metrics[metric].merge(statistics);
  span_recall.merge(other.span_recall);
  kept_all = kept_all && other.kept_all;
  averaged = averaged || other.averaged;
}

double SummaryBuilder::Statistics::get(SummaryColumn::Statistic statistic) const {
  if (count == 0) return kNaN;
  switch (statistic) {
    case SummaryColumn::Statistic::min:
      return min;
    case SummaryColumn::Statistic::max:
      return max;
    case SummaryColumn::Statistic::mean:
      break;
  }
  return sum / static_cast<double>(count);
}

SummaryBuilder::SummaryBuilder(const Study& study, bool with_dense_layers)
    : study_(study), with_dense_layers_(with_dense_layers) {
  for (const Metric& metric : all_metrics())
    if (!metric.summary.empty()) metrics_.push_back(&metric);
  for (const StudyDump& dump : study.dumps) {
    const auto known = std::ranges::find(models_, dump.model);
    model_of_.push_back(static_cast<std::size_t>(known - models_.begin()));
    if (known == models_.end()) models_.push_back(dump.model);
  }
  cells_.resize(models_.size());
  for (std::vector<std::vector<Cells>>& of_model : cells_)
    for (const StudySelector& selector : study.selectors) of_model.emplace_back(selector.grid.size());
}

void SummaryBuilder::add(const LayerResults& layer) {
  if (!layer.done) return;
  has_spans_ |= find(layer.scores, "span_mass") != nullptr;
  const bool dense = std::ranges::any_of(layer.selectors, &SelectorLayerResults::dense);
  if (dense) add_dense_layer(layer.layer);
  for (std::size_t s = 0; s < layer.selectors.size(); ++s) add(layer, s, dense && !with_dense_layers_);
}

void SummaryBuilder::add_dense_layer(int layer) {
  const auto place = std::ranges::lower_bound(dense_layers_, layer);
  if (place == dense_layers_.end() || *place != layer) dense_layers_.insert(place, layer);
}

void SummaryBuilder::merge(const SummaryBuilder& other) {
  has_spans_ |= other.has_spans_;
  for (const int layer : other.dense_layers_) add_dense_layer(layer);
  for (std::size_t m = 0; m < cells_.size(); ++m)
    for (std::size_t s = 0; s < cells_[m].size(); ++s)
      for (std::size_t i = 0; i < cells_[m][s].size(); ++i) cells_[m][s][i].merge(other.cells_[m][s][i]);
}

void SummaryBuilder::add(const LayerResults& layer, std::size_t selector, bool costs_alone) {
  std::vector<Cells>& cells = cells_[model_of_.at(static_cast<std::size_t>(layer.dump))][selector];
  const std::vector<MetricValues>& found = layer.selectors[selector].metrics;
  const std::size_t settings = cells.size();
  for (const Metric* metric : metrics_) {
    const MetricValues* values = find(found, metric->info.name);
    if (values == nullptr || (costs_alone && !metric->info.is_cost)) continue;
    const std::size_t columns = has_settings(values->axes) ? settings : 1;
    RowStatistics statistics(columns);
    for (std::size_t c = 0; c < values->values.size(); c += columns) statistics.add(&values->values[c]);
    for (std::size_t i = 0; i < settings; ++i) cells[i].metrics[metric].merge(statistics.column(i % columns));
  }
  if (costs_alone) return;
  if (!found.empty())
    for (Cells& own : cells) own.averaged = true;
  if (const MetricValues* keep = find(found, "keep_ratio"))
    for (std::size_t c = 0; c < keep->values.size(); c += settings)
      for (std::size_t i = 0; i < settings; ++i)
        if (!(keep->values[c + i] >= 1)) cells[i].kept_all = false;
  const MetricValues *recall = find(found, "recall"), *mass = find(layer.scores, "span_mass");
  if (recall == nullptr || mass == nullptr) return;
  RowStatistics with_spans(settings);
  for (std::size_t row = 0; row < mass->values.size(); ++row)
    if (mass->values[row] >= kRetrievalMass) with_spans.add(&recall->values[row * settings]);
  for (std::size_t i = 0; i < settings; ++i) cells[i].span_recall.merge(with_spans.column(i));
}

Summary SummaryBuilder::finish() const {
  Summary summary;
  summary.has_spans = has_spans_;
  summary.with_dense_layers = with_dense_layers_;
  summary.dense_layers = dense_layers_;
  for (const StudySelector& chosen : study_.selectors)
    if (!counts_scan(chosen)) summary.scan_not_counted.push_back(chosen.label);
  const auto each_column = [&](auto&& visit) {
    for (const Metric* metric : metrics_) {
      // Where the evidence is read comes first: a mean over all heads hides that a few of them lose it.
      if (summary.has_spans && metric->info.name == "recall")
        for (const SummaryColumn& column : kSpanColumns) visit(nullptr, column, metric->info.unit);
      for (const SummaryColumn& column : metric->summary) visit(metric, column, metric->info.unit);
    }
  };
  each_column([&](const Metric*, const SummaryColumn& column, std::string_view unit) {
    summary.columns.push_back({column.key, column.heading, unit});
  });
  std::vector<std::size_t> rows_with_cells(study_.selectors.size()), rows_that_kept_all = rows_with_cells;
  for (std::size_t m = 0; m < models_.size(); ++m)
    for (std::size_t s = 0; s < study_.selectors.size(); ++s)
      for (std::size_t i = 0; i < cells_[m][s].size(); ++i) {
        const StudySelector& selector = study_.selectors[s];
        const Cells& cells = cells_[m][s][i];
        SummaryRow& row = summary.rows.emplace_back(models_[m], selector.label, selector.name,
                                                    std::string(name_of(selector.kind)), selector.setting_labels[i]);
        each_column([&](const Metric* metric, const SummaryColumn& column, std::string_view) {
          const auto found = cells.metrics.find(metric);
          const Statistics statistics = metric == nullptr              ? cells.span_recall
                                        : found == cells.metrics.end() ? Statistics{}
                                                                       : found->second;
          row.values.push_back(statistics.get(column.statistic));
        });
        if (!cells.averaged) continue;
        summary.has_cells = true;
        ++rows_with_cells[s];
        if (cells.kept_all) ++rows_that_kept_all[s];
      }
  for (std::size_t s = 0; s < study_.selectors.size(); ++s)
    if (study_.selectors[s].kind != SettingKind::none && rows_with_cells[s] > 0 &&
        rows_that_kept_all[s] == rows_with_cells[s])
      summary.dropped_nothing.push_back(study_.selectors[s].label);
  return summary;
}

Summary summarize(const ResultsFile& results, bool with_dense_layers) {
  const Study& study = results.study();
  SummaryBuilder builder(study, with_dense_layers);
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s) {
      const StudySample& sample = study.dumps[d].samples[s];
      std::vector<LayerResults> layers(sample.layers.size());
      for (std::size_t y = 0; y < layers.size(); ++y) {
        layers[y].dump = static_cast<int>(d);
        layers[y].layer = sample.layers[y];
        layers[y].selectors.resize(study.selectors.size());
      }
      if (const auto mass = results.read_scores(d, s, "span_mass"))
        for (std::size_t y = 0; y < layers.size(); ++y) layers[y].scores = {layer_of("span_mass", *mass, y)};
      for (std::size_t i = 0; i < study.selectors.size(); ++i) {
        for (std::size_t y = 0; y < layers.size(); ++y) {
          layers[y].done = layers[y].done && results.done(d, s, i)[y] != 0;
          layers[y].selectors[i].dense = results.dense(d, s, i)[y] != 0;
        }
        for (const Metric& metric : all_metrics()) {
          if (metric.summary.empty()) continue;
          if (const auto values = results.read(d, s, i, metric.info.name))
            for (std::size_t y = 0; y < layers.size(); ++y)
              layers[y].selectors[i].metrics.push_back(layer_of(metric.info.name, *values, y));
        }
      }
      for (const LayerResults& layer : layers) builder.add(layer);
    }
  return builder.finish();
}

}  // namespace attest
