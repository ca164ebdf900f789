// Turns the cells of a study into findings.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "analysis/statistics/quantile.h"
#include "dumps/base/printable.h"
#include "experiments/report/map_link.h"
#include "experiments/report/report_parts.h"
#include "experiments/study_view/paper_settings.h"

namespace attest {

/// Tells the reader how findings get their severity.
constexpr const char* kSeverityNote =
    "How serious a selector's loss is follows from its worst cell: recall below 0.5 is serious, below 0.9 a warning, "
    "from 0.99 on good. Layers that are dense for one of the selectors are left out for all.";

namespace {

constexpr double kSerious = 0.5, kWarning = 0.9, kGood = 0.99;

/// "at delta 5"; "" for a selector without settings.
std::string at_setting(const MapSelector& selector, int setting) {
  if (selector.kind == "none") return "";
  return fmt::format(" at {} {}", selector.kind, selector.settings[static_cast<std::size_t>(setting)]);
}

/// A column of the table of selectors: a statistic over the cells of a metric.
struct FidelityColumn {
  const char *name, *heading;
  int decimals;
  const char* metric;
  double (*of)(std::span<const SampleCells> cells);
};
double mean_of(std::span<const SampleCells> cells) { return describe(cells).mean; }
double min_of(std::span<const SampleCells> cells) { return describe(cells).min; }
const std::array kColumns = {
    FidelityColumn{"keep_ratio", "tokens kept %", 1, "keep_ratio", [](auto cells) { return 100 * mean_of(cells); }},
    FidelityColumn{"io_ratio", "bytes read %", 1, "io_ratio", [](auto cells) { return 100 * mean_of(cells); }},
    FidelityColumn{"recall", "recall", 5, "recall", mean_of},
    FidelityColumn{"recall_p5", "worst 5 %", 4, "recall", [](auto cells) { return quantile(cells, 0.05); }},
    FidelityColumn{"recall_min", "worst cell", 4, "recall", min_of},
    FidelityColumn{"lse_mean", "LSE error", 4, "lse_error", mean_of},
    FidelityColumn{"lse_max", "max", 3, "lse_error", [](auto cells) { return describe(cells).max; }},
    FidelityColumn{"mass_min", "least mass kept", 4, "mass_recall", min_of},
    FidelityColumn{"hits", "salient hits", 4, "salient_hit_rate", mean_of}};

/// One selector at one setting.
struct Row {
  std::string label, setting;
  std::array<double, kColumns.size()> values = {};

  double at(std::string_view column) const {
    return values.at(
        static_cast<std::size_t>(std::ranges::find(kColumns, column, &FidelityColumn::name) - kColumns.begin()));
  }
};

Table table_of(const std::vector<Row>& rows) {
  std::vector<ColumnOf<Row>> columns = {{{"label", kText, "selector"}, [](const Row& r) { return r.label; }},
                                        {{"setting", kText, "setting"}, [](const Row& r) { return r.setting; }}};
  for (std::size_t c = 0; c < kColumns.size(); ++c)
    columns.push_back({{.name = kColumns[c].name, .heading = kColumns[c].heading, .decimals = kColumns[c].decimals},
                       [c](const Row& r) { return r.values[c]; }});
  return make_table<Row>(rows, columns);
}

class Findings {
 public:
  Findings(const ModelStudy& study, std::size_t model, ReportData& data)
      : study_(study), model_(model), data_(data), shown_(data.models[model]) {
    std::vector<std::string> labels;
    for (const PooledSelector& selector : study.selectors()) labels.push_back(selector.group.label);
    dense_ = study.dense_layers(labels);
  }

  void about(std::size_t selector, std::vector<Row>& rows) {
    const PooledSelector& pooled = study_.selectors()[selector];
    const MapSelector& shown = shown_.selectors[selector];
    if (pooled.group.name == "exact") return;
    std::map<std::string_view, std::vector<std::vector<SampleCells>>> of_metric;  // [setting]
    for (const FidelityColumn& column : kColumns)
      if (!of_metric.contains(column.metric)) of_metric[column.metric] = cells(selector, column.metric);
    std::vector<int> settings = shown.marked;
    if (settings.empty()) settings = {usual_setting(shown)};
    for (const int s : settings) {
      const auto i = static_cast<std::size_t>(s);
      if (describe(of_metric["recall"][i]).count == 0) continue;
      Row& row = rows.emplace_back(
          Row{name_of(shown), shown.kind == "none" ? "" : fmt::format("{} {}", shown.kind, shown.settings[i])});
      for (std::size_t c = 0; c < kColumns.size(); ++c)
        row.values[c] = kColumns[c].of(of_metric[kColumns[c].metric][i]);
      if (s == settings.front()) about_fidelity(selector, s, rows.back());
    }
    about_concentration(selector, settings.front());
    about_grid(selector, of_metric["recall"], of_metric["keep_ratio"]);
  }

 private:
  std::string name_of(const MapSelector& selector) const {
    return data_.models.size() > 1 ? fmt::format("{} on {}", selector.label, shown_.name) : selector.label;
  }

  /// The cells of a metric by the settings of the map, in its order.
  std::vector<std::vector<SampleCells>> cells(std::size_t selector, std::string_view metric) const {
    const PooledSelector& pooled = study_.selectors()[selector];
    const std::vector<std::string>& settings = shown_.selectors[selector].settings;
    const auto given = study_.cells(pooled, metric, dense_);
    std::vector<std::vector<SampleCells>> ordered(settings.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto place = std::ranges::find(settings, printable(pooled.group.setting_labels[i]));
      if (place != settings.end()) ordered[static_cast<std::size_t>(place - settings.begin())] = given[i];
    }
    return ordered;
  }

  MapLink link(std::size_t selector, int setting) const {
    const MapSelector& shown = shown_.selectors[selector];
    MapLink made{.model = shown_.name, .metric = "recall", .selector = shown.label, .setting = {}};
    if (shown.kind != "none") made.setting = shown.settings[static_cast<std::size_t>(setting)];
    return made;
  }

  void about_fidelity(std::size_t selector, int setting, const Row& row) {
    const MapSelector& shown = shown_.selectors[selector];
    const WorstCell* worst = nullptr;
    for (const WorstCell& cell : data_.cells)
      if (cell.model == static_cast<int>(model_) && cell.selector == static_cast<int>(selector) &&
          cell.setting == setting && !std::isnan(cell.metrics[kRecallOfCell]) && !dense_.contains(cell.layer) &&
          (worst == nullptr || cell.metrics[kRecallOfCell] < worst->metrics[kRecallOfCell]))
        worst = &cell;
    const double minimum = row.at("recall_min");
    MapLink to = link(selector, setting);
    to.statistic = "worst";
    std::string where;
    if (worst != nullptr && static_cast<double>(worst->metrics[kRecallOfCell]) <= minimum) {  // few cells may be listed
      where = fmt::format("; worst at layer {}, head {}, query {} of {}", worst->layer, worst->head,
                          worst->query_position, shown_.samples[static_cast<std::size_t>(worst->sample)]);
      to.layer = worst->layer;
      to.head = worst->head;
    }
    const Severity severity = minimum < kSerious   ? Severity::serious
                              : minimum < kWarning ? Severity::warning
                              : minimum >= kGood   ? Severity::good
                                                   : Severity::note;
    data_.findings.push_back(
        {severity,
         fmt::format(
             "{}{} keeps {:.1f} % of the tokens and reads {:.1f} % of the bytes. Mean recall {:.5f}{}{}.",
             name_of(shown), at_setting(shown, setting), row.at("keep_ratio"), row.at("io_ratio"), row.at("recall"),
             std::isnan(row.at("lse_max")) ? "" : fmt::format(", LSE off by up to {:.3g} nats", row.at("lse_max")),
             where),
         fmt::format("recall {:.3f}", minimum), map_link(to)});
  }

  /// Adds a finding if few heads lose most.
  void about_concentration(std::size_t selector, int setting) {
    const auto is_mine = [&](const MapArray& a) {
      return a.model == static_cast<int>(model_) && a.selector == static_cast<int>(selector) &&
             a.sample == MapArray::kAllSamples && a.statistic == MapArray::Statistic::mean &&
             data_.metrics[static_cast<std::size_t>(a.metric)].name == "recall";
    };
    const auto found = std::ranges::find_if(data_.arrays, is_mine);
    if (found == data_.arrays.end()) return;
    const MapSelector& shown = shown_.selectors[selector];
    std::vector<std::pair<double, std::size_t>> losses;
    const std::size_t settings = shown.settings.size();
    const auto heads = static_cast<std::size_t>(shown_.num_heads);
    for (std::size_t i = static_cast<std::size_t>(setting); i < found->values.size(); i += settings)
      if (!std::isnan(found->values[i]) && !dense_.contains(shown_.layers[i / settings / heads]))
        losses.emplace_back(std::max(0.0, 1 - found->values[i]), i / settings);
    std::ranges::stable_sort(losses, std::greater{}, [](const auto& l) { return l.first; });
    const double total =
        std::accumulate(losses.begin(), losses.end(), 0.0, [](double sum, const auto& l) { return sum + l.first; });
    constexpr double kWorthAWord = 1e-4;  // mean loss of recall
    if (losses.size() < 16 || total < kWorthAWord * static_cast<double>(losses.size())) return;
    double sum = 0;
    std::size_t few = 0;
    while (sum < total / 2) sum += losses[few++].first;
    if (4 * few > losses.size()) return;
    MapLink to = link(selector, setting);
    to.layer = shown_.layers[losses.front().second / heads];
    to.head = static_cast<int>(losses.front().second % heads);
    to.order = "worst";
    const std::string lost =
        few == 1 ? fmt::format("in one head of {}: layer {}, head {}", losses.size(), *to.layer, *to.head)
                 : fmt::format("in {} of {} heads, first of all in layer {}, head {}", few, losses.size(), *to.layer,
                               *to.head);
    data_.findings.push_back({Severity::note,
                              fmt::format("Half of the recall that {} loses{} is lost {}.", name_of(shown),
                                          at_setting(shown, setting), lost),
                              fmt::format("{} of {} heads", few, losses.size()), map_link(to)});
  }

  /// Whether all samples have a setting of the map.
  bool of_all_samples(std::size_t selector, std::size_t setting) const {
    const PooledSelector& pooled = study_.selectors()[selector];
    const std::string& label = shown_.selectors[selector].settings[setting];
    const auto found = std::ranges::find(pooled.group.setting_labels, label, printable);
    return pooled.of_all_samples(static_cast<std::size_t>(found - pooled.group.setting_labels.begin()));
  }

  /// Adds a finding about the whole grid: that nothing was dropped, or how far one must go until every cell is good.
  void about_grid(std::size_t selector, const std::vector<std::vector<SampleCells>>& recall,
                  const std::vector<std::vector<SampleCells>>& keep) {
    const MapSelector& shown = shown_.selectors[selector];
    if (shown.kind == "none") return;
    const auto kept_all = [&](std::size_t i) {
      const Moments moments = describe(keep[i]);
      return moments.count > 0 && moments.min >= 1;
    };
    bool all = !keep.empty();
    for (std::size_t i = 0; i < keep.size(); ++i) all = all && kept_all(i);
    if (all) {
      data_.findings.push_back(
          {Severity::warning,
           fmt::format("{} kept every token at every setting: contexts this short say nothing about what it selects.",
                       name_of(shown)),
           "100 % kept", map_link(link(selector, 0))});
      return;
    }
    double maximum = -1;
    int best = -1;
    for (std::size_t i = 0; i < recall.size(); ++i) {
      if (!of_all_samples(selector, i)) continue;  // its every cell is not that of the others
      std::vector<double> values = values_of(recall[i]);
      if (values.empty()) continue;
      const auto good = std::ranges::count_if(values, [&](double v) { return v >= data_.enough_recall; });
      const double share = static_cast<double>(good) / static_cast<double>(values.size());
      if (share > maximum) maximum = share, best = static_cast<int>(i);
    }
    if (best < 0) return;
    const std::string& label = shown.settings[static_cast<std::size_t>(best)];
    const double kept = 100 * describe(keep[static_cast<std::size_t>(best)]).mean;
    const char* in_common = study_.selectors()[selector].partial.empty() ? "" : " that all samples have";
    MapLink to = link(selector, best);
    to.statistic = "worst";
    if (maximum >= 1)
      data_.findings.push_back(
          {kept_all(static_cast<std::size_t>(best)) ? Severity::note : Severity::good,
           fmt::format("{} {} is the first setting{} at which every cell of {} has recall {} or more; it "
                       "keeps {:.1f} % of the tokens.",
                       shown.kind, label, in_common, name_of(shown), data_.enough_recall, kept),
           fmt::format("{} {}", shown.kind, label), map_link(to)});
    else
      data_.findings.push_back(
          {Severity::note,
           fmt::format("No setting{} of {} gives every cell recall {}: at best, at {} {}, {:.2f} % of the "
                       "cells have it, and {:.1f} % of the tokens are kept.",
                       in_common, name_of(shown), data_.enough_recall, shown.kind, label, 100 * maximum, kept),
           fmt::format("{:.2f} % of cells", 100 * maximum), map_link(to)});
  }

  const ModelStudy& study_;
  std::size_t model_;
  ReportData& data_;
  const MapModel& shown_;
  std::set<int> dense_;
};

}  // namespace

void add_study_findings(const ModelStudy& study, std::size_t model, ReportData& data) {
  std::vector<Row> rows;
  Findings findings(study, model, data);
  for (std::size_t s = 0; s < study.selectors().size(); ++s) findings.about(s, rows);
  if (rows.empty()) return;
  if (data.overview.empty())
    data.overview.push_back({.id = "settings", .title = "At the papers\u2019 settings", .note = kSeverityNote});
  std::vector<const StudySelector*> groups;
  for (const PooledSelector& selector : study.selectors())
    if (selector.group.name != "exact") groups.push_back(&selector.group);
  const bool several = data.models.size() > 1;
  data.overview.front().note +=
      without_paper_settings(groups, several ? fmt::format("the middle one is shown of {}", data.models[model].name)
                                             : std::string("the middle one is shown"));
  const std::string title = several ? data.models[model].name : "Over all cells (layer, query, head)";
  data.overview.front().tables.push_back({title, table_of(rows)});
}

}  // namespace attest
