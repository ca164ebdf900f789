// Gathers the cells of each selector and metric, groups them, and takes the statistics of each group.
#include "experiments/tables/results_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "analysis/statistics/aggregate.h"
#include "analysis/statistics/ladder.h"
#include "analysis/statistics/model_cells.h"
#include "analysis/study/study.h"
#include "analysis/study/typed_setting.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/parallel_for.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/study_view/model_study.h"
#include "experiments/tables/cell_groups.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// The selectors of one model that the table shows, each with the indices of its settings.
struct ChosenSelector {
  PooledSelector pooled;
  std::vector<std::size_t> settings;
};

std::vector<ChosenSelector> chosen_selectors(const ModelStudy& study, const TableRequest& request) {
  std::vector<ChosenSelector> chosen;
  for (const PooledSelector& selector : study.selectors()) {
    if (!request.selectors.empty() && std::ranges::count(request.selectors, selector.group.label) == 0) continue;
    ChosenSelector& c = chosen.emplace_back(selector);
    for (std::size_t s = 0; s < selector.group.grid.size(); ++s)
      if (request.settings.empty() || selector.group.kind == SettingKind::none ||
          std::ranges::any_of(request.settings,
                              [&](const auto& typed) { return is_setting(selector.group, s, typed); }))
        c.settings.push_back(s);
  }
  return chosen;
}

/// The labels of a list that was split at commas.
std::vector<std::string> labels_of(const std::vector<std::string>& parts, const std::vector<std::string>& known) {
  const auto is_label = [&](const std::string& text) { return std::ranges::count(known, text) > 0; };
  std::vector<std::string> labels = joined_items(parts, is_label);
  for (const std::string& label : labels)
    if (!is_label(label))
      throw UsageError(fmt::format("--selectors: the results have no selector labelled '{}'; they have {}",
                                   printable(label), printable(join(known, ", "))));
  return labels;
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::count(names, name) == 0) names.push_back(name);
}

std::vector<std::string> all_labels(const std::vector<ModelStudy>& studies) {
  std::vector<std::string> labels;
  for (const ModelStudy& study : studies)
    for (const PooledSelector& selector : study.selectors()) add_new(labels, selector.group.label);
  return labels;
}

void check_settings(const std::vector<ModelStudy>& studies, const TableRequest& request) {
  for (const std::string& typed : request.settings) {
    bool found = false;
    std::vector<std::string> settings;
    for (const ModelStudy& study : studies)
      for (const PooledSelector& selector : study.selectors()) {
        if (!request.selectors.empty() && std::ranges::count(request.selectors, selector.group.label) == 0) continue;
        for (std::size_t s = 0; s < selector.group.grid.size() && selector.group.kind != SettingKind::none; ++s) {
          found = found || is_setting(selector.group, s, typed);
          add_new(settings, selector.group.setting_labels[s]);
        }
      }
    if (!found)
      throw UsageError(fmt::format(
          "--settings: no selector{} has the setting '{}'; {}", request.selectors.empty() ? "" : " of --selectors",
          printable(typed),
          settings.empty() ? "they have none" : printable(fmt::format("there are {}", join(settings, ", ")))));
  }
}

void check_axes(const TableRequest& request) {
  const auto splits = [&](Grouping grouping) { return std::ranges::count(request.by, grouping) > 0; };
  if (splits(Grouping::layer) || splits(Grouping::head))
    for (const MetricStatistic& column : request.columns)
      if (is_of_model(column.metric))
        throw UsageError(fmt::format("--by {}: '{}' is of all layers together; '{}' has its parts",
                                     splits(Grouping::layer) ? "layer" : "head", column.metric,
                                     stored_part(column.metric)));
  if (std::ranges::count(request.by, Grouping::head) == 0) return;
  for (const MetricStatistic& column : request.columns)
    if (column.info.axes == MetricAxes::query_setting)
      throw UsageError(fmt::format("--by head: '{}' is of all heads of a layer together", column.metric));
}

/// The cells of a metric at the chosen settings: [S].
std::vector<std::vector<SampleCells>> cells_of(const ModelStudy& study, const ChosenSelector& selector,
                                               const MetricStatistic& column, const std::set<int>& except) {
  const bool span_recall = column.metric == kSpanRecallMetric;
  std::vector<std::vector<SampleCells>> all =
      study.cells(selector.pooled, span_recall || column.of_scores ? "recall" : column.metric,
                  is_of_model(column.metric) ? std::set<int>{} : except);
  std::vector<std::vector<SampleCells>> chosen;
  for (const std::size_t s : selector.settings)
    chosen.push_back(all.size() == 1 ? all[0] : std::move(all.at(s)));  // [1]: the metric has no settings
  if (!column.of_scores && !span_recall) return chosen;
  const std::vector<SampleCells> scores =
      study.score_cells(selector.pooled, span_recall ? std::string_view("span_mass") : column.metric);
  for (std::vector<SampleCells>& samples : chosen) {
    // Scores do not depend on the setting. A file that lacks a setting lacks its scores there, too.
    std::vector<SampleCells> own = score_cells_at(scores, samples);
    samples = span_recall ? retrieval_cells(samples, own) : std::move(own);
  }
  return chosen;
}

/// The columns' statistics of `cells`, which are free of NaN and are reordered.
std::vector<double> statistics_of(std::span<float> cells, std::span<const MetricStatistic* const> columns) {
  const Moments moments = describe(std::span<const float>(cells));
  std::vector<double> values;
  for (const MetricStatistic* column : columns) values.push_back(statistic_of(moments, *column));
  for (const Badness badness : {Badness::value, Badness::deficit}) {
    std::vector<double> levels;
    for (const MetricStatistic* column : columns)
      if (column->statistic == CellStatistic::quantile && column->deficit == (badness == Badness::deficit))
        levels.push_back(column->level);
    std::ranges::sort(levels);
    const std::vector<double> quantiles = badness_quantiles(cells, levels, badness);
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i]->statistic == CellStatistic::quantile && columns[i]->deficit == (badness == Badness::deficit))
        values[i] = quantiles[static_cast<std::size_t>(std::ranges::find(levels, columns[i]->level) - levels.begin())];
  }
  return values;
}

/// The values of the columns of one metric, by setting and group.
using GroupValues = std::vector<std::map<GroupKey, std::vector<double>>>;

GroupValues group_values(const ModelStudy& study, const ChosenSelector& selector, const std::set<int>& except,
                         std::span<const MetricStatistic* const> columns, std::span<const Grouping> by) {
  GroupValues values;
  for (std::vector<SampleCells>& samples : cells_of(study, selector, *columns.front(), except)) {
    auto& of_setting = values.emplace_back();
    for (SampleCells& sample : samples) sample.sample = study.sample_title(key_of(sample));
    for (auto& [key, cells] : split_cells(samples, by)) of_setting[key] = statistics_of(cells, columns);
    samples.clear();
  }
  return values;
}

void add_model(const ModelStudy& study, const TableRequest& request, ResultsTable& table) {
  const std::vector<ChosenSelector> chosen = chosen_selectors(study, request);
  std::vector<std::string> labels;
  for (const ChosenSelector& selector : chosen) labels.push_back(selector.pooled.group.label);
  const std::set<int> dense = study.dense_layers(labels);
  table.dense_layers.insert(dense.begin(), dense.end());
  const std::set<int> except = request.with_dense_layers ? std::set<int>{} : dense;

  std::vector<std::vector<std::size_t>> metrics;  // columns of the same metric, which are worked on together
  for (std::size_t c = 0; c < request.columns.size(); ++c) {
    const auto same = std::ranges::find_if(
        metrics, [&](const auto& group) { return request.columns[group[0]].metric == request.columns[c].metric; });
    if (same == metrics.end())
      metrics.push_back({c});
    else
      same->push_back(c);
  }
  std::vector<GroupValues> values(chosen.size() * metrics.size());
  parallel_for(request.threads, values.size(), [&](int, std::size_t i) {
    std::vector<const MetricStatistic*> columns;
    for (const std::size_t c : metrics[i % metrics.size()]) columns.push_back(&request.columns[c]);
    values[i] = group_values(study, chosen[i / metrics.size()], except, columns, request.by);
  });

  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const StudySelector& group = chosen[i].pooled.group;
    if (!counts_scan(group)) add_new(table.scan_not_counted, group.label);
    for (std::size_t s = 0; s < chosen[i].settings.size(); ++s) {
      std::map<GroupKey, std::vector<double>> rows;
      for (std::size_t m = 0; m < metrics.size(); ++m)
        for (const auto& [key, found] : values[i * metrics.size() + m][s]) {
          std::vector<double>& row = rows.try_emplace(key, request.columns.size(), kNaN).first->second;
          for (std::size_t c = 0; c < metrics[m].size(); ++c) row[metrics[m][c]] = found[c];
        }
      for (auto& [key, row] : rows)
        table.rows.push_back({.model = study.model(),
                              .label = group.label,
                              .selector = group.name,
                              .setting = std::string(name_of(group.kind)),
                              .setting_label = group.setting_labels[chosen[i].settings[s]],
                              .groups = key,
                              .values = std::move(row)});
    }
  }
}

bool has_metric(ResultsFiles files, const MetricStatistic& column) {
  const auto contains = [](const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::count(names, name) > 0;
  };
  const bool spans = column.metric == kSpanRecallMetric;
  for (const ResultsFile* file : files)
    for (std::size_t d = 0; d < file->study().dumps.size(); ++d)
      for (std::size_t s = 0; s < file->study().dumps[d].samples.size(); ++s) {
        if (column.of_scores || spans) {
          if (contains(file->score_metrics(d, s), spans ? "span_mass" : std::string_view(column.metric))) return true;
          continue;
        }
        for (std::size_t i = 0; i < file->study().selectors.size(); ++i)
          if (contains(file->metrics(d, s, i), stored_part(column.metric))) return true;
      }
  return false;
}

}  // namespace

ResultsTable make_results_table(ResultsFiles files, TableRequest request) {
  check_axes(request);
  const std::vector<ModelStudy> studies = split_studies(files, request.threads);
  request.selectors = labels_of(request.selectors, all_labels(studies));
  check_settings(studies, request);
  for (const MetricStatistic& column : request.columns)
    if (!has_metric(files, column))
      throw InputError(
          fmt::format("the results have no '{}'{}", column.metric,
                      column.metric.starts_with("span_")        ? ", which takes samples with spans"
                      : column.metric.starts_with("weighted_")  ? ", which takes head gradients or --weights"
                      : column.metric.starts_with("predicted_") ? ", which takes a dump with output gradients"
                                                                : ""));
  ResultsTable table{.columns = request.columns, .by = request.by, .with_dense_layers = request.with_dense_layers};
  for (const ModelStudy& study : studies) add_model(study, request, table);
  if (!table.rows.empty()) return table;
  if (!table.dense_layers.empty() && !request.with_dense_layers)
    throw InputError(fmt::format(
        "no cell is left: every layer is dense in a selector (dense: {}); --with-dense-layers includes them",
        join(table.dense_layers, ", ")));
  throw InputError("no layer was studied, so there is nothing to put in a table");
}

}  // namespace attest
