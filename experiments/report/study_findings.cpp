// Turns the cells of a study into findings.
#include "experiments/report/study_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "analysis/statistics/quantile.h"
#include "dumps/base/printable.h"
#include "experiments/report/map_arrays.h"
#include "experiments/report/map_link.h"
#include "experiments/report/report_samples.h"

namespace attest {

const char* const kSeverityNote =
    "How serious a selector's loss is follows from its worst cell: recall below 0.5 is serious, below 0.9 a warning, "
    "from "
    "0.99 on good. Layers that are dense for one of the selectors are left out for all.";

namespace {

constexpr double kSerious = 0.5, kWarning = 0.9, kGood = 0.99;

std::string plural(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// "at delta 5"; "" for a selector without settings.
std::string at_setting(const MapSelector& selector, int setting) {
  if (selector.kind == "none") return "";
  return fmt::format(" at {} {}", selector.kind, selector.settings[static_cast<std::size_t>(setting)]);
}

/// Pooled numbers of one selector at one setting.
struct Row {
  std::string label, setting;
  double keep = 0, io = 0, recall = 0, recall_min = 0, recall_p5 = 0, lse_max = 0, lse_mean = 0, mass_min = 0, hits = 0;
  std::int64_t cells = 0;
};

Table table_of(const std::vector<Row>& rows) {
  constexpr auto text = Column::Kind::text;
  const auto number = [](const char* name, const char* heading, int decimals) {
    return Column{.name = name, .heading = heading, .decimals = decimals};
  };
  return make_table<Row>(rows, {{{"label", text, "selector"}, [](const Row& r) { return r.label; }},
                                {{"setting", text, "setting"}, [](const Row& r) { return r.setting; }},
                                {number("keep_ratio", "tokens kept %", 1), [](const Row& r) { return 100 * r.keep; }},
                                {number("io_ratio", "bytes read %", 1), [](const Row& r) { return 100 * r.io; }},
                                {number("recall", "recall", 5), [](const Row& r) { return r.recall; }},
                                {number("recall_p5", "worst 5 %", 4), [](const Row& r) { return r.recall_p5; }},
                                {number("recall_min", "worst cell", 4), [](const Row& r) { return r.recall_min; }},
                                {number("lse_mean", "LSE error", 4), [](const Row& r) { return r.lse_mean; }},
                                {number("lse_max", "max", 3), [](const Row& r) { return r.lse_max; }},
                                {number("mass_min", "least mass kept", 4), [](const Row& r) { return r.mass_min; }},
                                {number("hits", "salient hits", 4), [](const Row& r) { return r.hits; }}});
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
    const auto recall = cells(selector, "recall"), keep = cells(selector, "keep_ratio"),
               io = cells(selector, "io_ratio");
    const auto lse = cells(selector, "lse_error"), mass = cells(selector, "mass_recall");
    const auto hits = cells(selector, "salient_hit_rate");
    std::vector<int> settings = shown.marked;
    if (settings.empty()) settings = {usual_setting(shown)};
    for (const int s : settings) {
      const auto i = static_cast<std::size_t>(s);
      const Moments of_recall = describe(recall[i]), of_lse = describe(lse[i]);
      if (of_recall.count == 0) continue;
      rows.push_back({.label = name_of(shown),
                      .setting = shown.kind == "none" ? "" : fmt::format("{} {}", shown.kind, shown.settings[i]),
                      .keep = describe(keep[i]).mean,
                      .io = describe(io[i]).mean,
                      .recall = of_recall.mean,
                      .recall_min = of_recall.min,
                      .recall_p5 = quantile(recall[i], 0.05),
                      .lse_max = of_lse.max,
                      .lse_mean = of_lse.mean,
                      .mass_min = describe(mass[i]).min,
                      .hits = describe(hits[i]).mean,
                      .cells = of_recall.count});
      if (s == settings.front()) about_fidelity(selector, s, rows.back());
    }
    about_concentration(selector, settings.front());
    about_grid(selector, recall, keep);
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
    for (std::size_t i = 0; i < given.size() && i < pooled.group.setting_labels.size(); ++i) {
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
          cell.setting == setting && !std::isnan(cell.recall) && !dense_.contains(cell.layer) &&
          (worst == nullptr || cell.recall < worst->recall))
        worst = &cell;
    MapLink to = link(selector, setting);
    to.statistic = "worst";
    std::string where;
    if (worst != nullptr) {
      where = fmt::format("; worst at layer {}, head {}, query {} of {}", worst->layer, worst->head,
                          worst->query_position, shown_.samples[static_cast<std::size_t>(worst->sample)]);
      to.layer = worst->layer;
      to.head = worst->head;
    }
    const double least = row.recall_min;
    const Severity severity = least < kSerious   ? Severity::serious
                              : least < kWarning ? Severity::warning
                              : least >= kGood   ? Severity::good
                                                 : Severity::note;
    data_.findings.push_back(
        {severity,
         fmt::format("{}{} keeps {:.1f} % of the tokens and reads {:.1f} % of the bytes. Mean recall {:.5f}{}{}.",
                     name_of(shown), at_setting(shown, setting), 100 * row.keep, 100 * row.io, row.recall,
                     std::isnan(row.lse_max) ? "" : fmt::format(", LSE off by up to {:.3g} nats", row.lse_max), where),
         fmt::format("recall {:.3f}", least), map_link(to)});
  }

  /// Few heads may lose most.
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
    for (std::size_t i = static_cast<std::size_t>(setting); i < found->values.size(); i += settings)
      if (!std::isnan(found->values[i])) losses.emplace_back(std::max(0.0, 1 - found->values[i]), i / settings);
    std::ranges::stable_sort(losses, std::greater{}, [](const auto& l) { return l.first; });
    const double total =
        std::accumulate(losses.begin(), losses.end(), 0.0, [](double sum, const auto& l) { return sum + l.first; });
    constexpr double kWorthAWord = 1e-4;  // mean loss of recall
    if (losses.size() < 16 || total < kWorthAWord * static_cast<double>(losses.size())) return;
    double sum = 0;
    std::size_t few = 0;
    while (sum < total / 2) sum += losses[few++].first;
    if (4 * few > losses.size()) return;
    const auto heads = static_cast<std::size_t>(shown_.num_heads);
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

  /// What the whole grid says: nothing was dropped, or how far it goes to make every cell good.
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
           fmt::format("{} kept every token at every setting: contexts this short say nothing about what "
                       "it selects.",
                       name_of(shown)),
           "100 % kept", map_link(link(selector, 0))});
      return;
    }
    double most = -1;
    int best = -1;
    for (std::size_t i = 0; i < recall.size(); ++i) {
      std::vector<double> values = values_of(recall[i]);
      if (values.empty()) continue;
      const auto good = std::ranges::count_if(values, [&](double v) { return v >= data_.enough_recall; });
      const double share = static_cast<double>(good) / static_cast<double>(values.size());
      if (share > most) most = share, best = static_cast<int>(i);
    }
    if (best < 0) return;
    const std::string& label = shown.settings[static_cast<std::size_t>(best)];
    const double kept = 100 * describe(keep[static_cast<std::size_t>(best)]).mean;
    MapLink to = link(selector, best);
    to.statistic = "worst";
    if (most >= 1)
      data_.findings.push_back(
          {kept_all(static_cast<std::size_t>(best)) ? Severity::note : Severity::good,
           fmt::format("{} {} is the first setting at which every cell of {} has recall {} or more; it "
                       "keeps {:.1f} % of the tokens.",
                       shown.kind, label, name_of(shown), data_.enough_recall, kept),
           fmt::format("{} {}", shown.kind, label), map_link(to)});
    else
      data_.findings.push_back(
          {Severity::note,
           fmt::format("No setting of {} gives every cell recall {}: at best, at {} {}, {:.2f} % of the "
                       "cells have it, and {:.1f} % of the tokens are kept.",
                       name_of(shown), data_.enough_recall, shown.kind, label, 100 * most, kept),
           fmt::format("{:.2f} %", 100 * most), map_link(to)});
  }

  const ModelStudy& study_;
  std::size_t model_;
  ReportData& data_;
  const MapModel& shown_;
  std::set<int> dense_;
};

}  // namespace

std::string studied(ResultsFiles files, const ModelStudy& study) {
  std::set<int> layers;
  std::set<std::string> tasks;
  std::int64_t shortest = -1, longest = 0;
  std::size_t queries = 0;
  int num_layers = 0, heads = 0, kv_heads = 0;
  const auto samples = samples_of(files, study.model());
  for (const ReportSample& sample : samples) {
    const StudySample& s = sample.study_sample();
    layers.insert(s.layers.begin(), s.layers.end());
    if (!s.task.empty()) tasks.insert(printable(s.task));
    shortest = shortest < 0 ? s.num_tokens : std::min(shortest, s.num_tokens);
    longest = std::max(longest, s.num_tokens);
    queries += s.query_positions.size();
    num_layers = std::max(num_layers, sample.study_dump().num_layers);
    heads = std::max(heads, static_cast<int>(sample.study_dump().shape.num_query_heads));
    kv_heads = std::max(kv_heads, static_cast<int>(sample.study_dump().shape.num_kv_heads));
  }
  std::vector<std::string> names;
  for (const PooledSelector& selector : study.selectors())
    if (selector.group.name != "exact") names.push_back(printable(selector.group.label));
  const std::string compared =
      names.empty() ? "nothing" : fmt::format("{} ({})", plural(names.size(), "selector"), fmt::join(names, ", "));
  const std::string lengths =
      shortest == longest ? fmt::format("{}", longest) : fmt::format("{} to {}", shortest, longest);
  return fmt::format(
      "{}: {} against exact attention, on {} of {} tokens{}; {} of {} layers, {} query heads over {} KV "
      "heads, {} in all.",
      printable(study.model()), compared, plural(samples.size(), "sample"), lengths,
      tasks.empty() || tasks.size() > 8 ? "" : fmt::format(" ({})", fmt::join(tasks, ", ")), layers.size(), num_layers,
      heads, kv_heads, queries == 1 ? "1 query" : fmt::format("{} queries", queries));
}

void add_study_findings(const ModelStudy& study, std::size_t model, ReportData& data) {
  std::vector<Row> rows;
  Findings findings(study, model, data);
  for (std::size_t s = 0; s < study.selectors().size(); ++s) findings.about(s, rows);
  if (rows.empty()) return;
  if (data.overview.empty())
    data.overview.push_back({.id = "settings", .title = "At the papers\u2019 settings", .note = kSeverityNote});
  const std::string title = data.models.size() > 1 ? data.models[model].name : "Over all cells (layer, query, head)";
  data.overview.front().tables.push_back({title, table_of(rows)});
}

}  // namespace attest
