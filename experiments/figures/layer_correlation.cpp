// Figure "Layer-wise correlation": rank correlation of estimates with exact scores, by layer.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/rank_curves.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace layer_correlation_figure {

Table table_of(const std::vector<RankCurve>& curves) {
  struct Row {
    const RankCurve* curve;
    const RankPoint* point;
  };
  std::vector<Row> rows;
  for (const RankCurve& curve : curves) {
    for (const RankPoint& point : curve.layers) rows.push_back({&curve, &point});
    rows.push_back({&curve, &curve.compared});
    rows.push_back({&curve, &curve.all});
  }
  std::vector<ColumnOf<Row>> columns = {
      {{kCurveColumn, kText}, [](const Row& r) { return r.curve->name(); }},
      {{"label", kText}, [](const Row& r) { return display_name(r.curve->selector->group.label); }},
      {{"selector", kText}, [](const Row& r) { return r.curve->selector->group.name; }},
      {{"sample", kText}, [](const Row& r) { return display_name(r.curve->sample); }},
      {{"layers", kText}, [](const Row& r) { return r.point->layers; }},
      {{"layer"}, [](const Row& r) { return r.point->layer; }}};
  for (std::size_t m = 0; m < kRankMetrics.size(); ++m) {
    const std::string name = kRankMetrics[m].name;
    const auto of = [m](const Row& r) -> const RankCorrelation& { return r.point->metrics[m]; };
    columns.push_back({{name + "_mean"}, [of](const Row& r) { return of(r).cells > 0 ? of(r).mean.mean : kNaN; }});
    columns.push_back({{name + "_low"}, [of](const Row& r) { return of(r).cells > 0 ? of(r).mean.low : kNaN; }});
    columns.push_back({{name + "_high"}, [of](const Row& r) { return of(r).cells > 0 ? of(r).mean.high : kNaN; }});
    columns.push_back({{name + "_min"}, [of](const Row& r) { return of(r).min; }});
    columns.push_back({{name + "_cells"}, [of](const Row& r) { return static_cast<double>(of(r).cells); }});
  }
  return make_table<Row>(rows, columns);
}

/// One range for all panels, so that they can be compared.
Axis axis_of(const std::vector<RankCurve>& curves) {
  constexpr double kMargin = 0.03;
  double minimum = 1;
  for (const RankCurve& curve : curves)
    for (const RankPoint& p : curve.layers)
      for (const RankCorrelation& c : p.metrics)
        if (c.cells > 0)
          minimum = std::min({minimum, c.mean.mean, c.mean.kind == ClusterKind::sample ? c.mean.low : 1});
  return {.label = "Spearman's rho", .low = minimum - kMargin, .high = 1 + kMargin};
}

std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<RankCurve>& curves) {
  std::vector<Panel> panels;
  for (std::size_t m = 0; m < kRankMetrics.size(); ++m) {
    const std::string name = kRankMetrics[m].name;
    Panel panel{.title = kRankMetrics[m].title,
                .x = {.label = "layer", .whole_numbers = true},
                .y = axis_of(curves),
                .series = {},
                .show_x = m + 1 == kRankMetrics.size()};
    for (const RankCurve& curve : curves) {
      if (!curve.same_as.empty() || curve.layers.empty()) continue;
      Series series{.curve = curve.name(),
                    .title = legend_title(*curve.selector),
                    .x = "layer",
                    .y = name + "_mean",
                    .style = study.style(*curve.selector)};
      if (!curve.sample.empty()) {
        series.title.clear();
        series.mark = Mark::points;
        series.style.point_size *= 0.4;
      } else if (is_drawn(curve.layers.front().metrics[m].mean)) {
        series.bands = {{name + "_low", name + "_high", 0.18}};
      }
      panel.series.push_back(std::move(series));
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

/// Compares FFD with one other selector; the paper's claim is about Quest.
Finding comparison_of(const RankCurve& ffd, const RankCurve& peer) {
  constexpr std::array kWords = {"tokens", "maxima of 16", "maxima of 128"};
  std::vector<std::string> parts;
  std::string number;
  bool everywhere = true;
  for (std::size_t m = 0; m < kRankMetrics.size(); ++m) {
    const RankComparison c(ffd, peer, m);
    if (c.layers == 0) continue;
    everywhere &= c.above == c.layers;
    if (number.empty()) number = fmt::format("{} of {}", c.above, counted(c.layers, "layer"));
    parts.push_back(fmt::format("{} of {} layers ({}: mean {:.3f} against {:.3f})", c.above, c.layers, kWords[m],
                                c.a_mean, c.b_mean));
  }
  const bool claimed = peer.selector->group.name == "quest";
  return {.text = fmt::format("Spearman's rho of {} is above that of {} in {}.", ffd.name(), peer.name(),
                              join(parts, ", in ")),
          .severity = !claimed     ? Severity::note
                      : everywhere ? Severity::good
                                   : Severity::warning,
          .number = number,
          .place = MapPlace{.metric = "spearman", .selector = ffd.selector->group.label, .setting = {}}};
}

std::vector<Finding> findings_of(const ModelStudy& study, const std::vector<RankCurve>& curves) {
  std::vector<Finding> findings;
  const auto ffd = std::ranges::find_if(curves, [](const RankCurve& c) {
    return c.selector->group.name == "ffd" && c.selector->option("scan") != "exact" && c.same_as.empty();
  });
  if (ffd != curves.end())
    for (const RankCurve& curve : curves)
      if (curve.selector->group.name != "ffd" && curve.same_as.empty() && curve.sample.empty() &&
          study.have_same_prompts(*ffd->selector, *curve.selector) && RankComparison(*ffd, curve, 0).layers > 0)
        findings.push_back(comparison_of(*ffd, curve));
  for (const RankCurve& curve : curves)
    if (const std::set<int> dense = study.dense_layers({curve.selector->group.label});
        !dense.empty() && curve.same_as.empty() && curve.sample.empty())
      findings.push_back({.text = fmt::format("{} has no estimate in {}, where it is dense: run it with "
                                              "dense_layers=0 to see all layers.",
                                              display_name(curve.selector->group.label), layers_in_words(dense))});
  return findings;
}

std::string caption_of(const ModelStudy& study, const std::vector<RankCurve>& curves) {
  std::string equal;
  for (const RankCurve& curve : curves)
    if (!curve.same_as.empty())
      equal += fmt::format("{}{} as {}", equal.empty() ? "" : ", ", curve.name(), curve.same_as);
  std::vector<std::int64_t> counts;
  for (const RankCurve& curve : curves)
    if (curve.sample.empty()) counts.push_back(curve.all.metrics[0].cells);
  return fmt::format(
      "Spearman's rank correlation of estimated and exact scores, by layer; {}. Mean over samples, queries and heads "
      "({} per curve). (a) over tokens: Quest gives every token of a page the same estimate, and ties lower the "
      "correlation; (b), (c) over the maxima of consecutive blocks, which is what selection sees, whatever the "
      "granularity of the estimate.{}",
      study.source(), cells_in_words(counts), equal.empty() ? "" : " Equal estimates, drawn once: " + equal + ".");
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  std::vector<std::string> estimating;
  std::vector<const PooledSelector*> selectors;
  for (const PooledSelector& selector : study.selectors()) {
    if (values_of(study.cells(selector, kRankMetrics[0].name).front()).empty()) continue;
    selectors.push_back(&selector);
    estimating.push_back(selector.group.label);
  }
  if (selectors.empty())
    return Unsupported{"needs a selector with an estimate, not dense in every layer",
                       "--selector ffd --selector quest:dense_layers=0"};
  const std::set<int> dense = study.dense_layers(estimating);
  std::vector<RankCurve> curves;
  for (const PooledSelector* selector : selectors) curves.push_back(rank_curve(study, *selector, dense));
  find_equal_curves(curves);

  ExperimentResult result{.findings = findings_of(study, curves)};
  Figure figure{.name = "layer_correlation", .caption = caption_of(study, curves), .data = table_of({})};
  const Interval interval = curves.front().layers.front().metrics[0].mean;
  figure.note = interval_note(interval);
  if (interval.kind == ClusterKind::sample && interval.clusters > 1 && !is_drawn(interval)) {
    const std::size_t pooled = curves.size();
    for (std::size_t c = 0; c < pooled; ++c)
      if (curves[c].same_as.empty())
        for (const SampleKey& sample : study.sample_keys())
          curves.push_back(rank_curve(study, *curves[c].selector, dense, sample));
  }
  figure.data = table_of(curves);
  figure.panels = panels_of(study, curves);
  result.figures.push_back(std::move(figure));
  return result;
}

}  // namespace layer_correlation_figure

Experiment layer_correlation_experiment() {
  return {.name = "layer_correlation",
          .paper = "Figure 'Layer-wise correlation trends'",
          .needs = "selectors with an estimate; dense_layers=0 to see every layer",
          .make = layer_correlation_figure::make};
}

}  // namespace attest
