// What each selector keeps of the evidence spans, against the bytes that it reads.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "analysis/statistics/aggregate.h"
#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/span_quality.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace span_keep_figure {

struct SpanCurve {
  QualityCurve curve;
  std::vector<SpanQuality> spans = {};  ///< of curve.points
};

std::vector<SpanCurve> curves_of(const ModelStudy& study, const std::set<int>& except, bool whole_model) {
  std::vector<SpanCurve> curves;
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name == "exact") continue;
    const SpanCells cells(study, selector, except);
    if (!cells.has_spans()) continue;
    SpanCurve curve{.curve = quality_curve(study, selector, except, {}, kNoIntervals)};
    if (whole_model) curve.curve.name_whole_model();
    for (const QualityPoint& point : curve.curve.points) curve.spans.push_back(cells.at(point.setting));
    if (std::ranges::any_of(curve.spans, [](const SpanQuality& s) { return s.cells > 0; }))
      curves.push_back(std::move(curve));
  }
  return curves;
}

Table table_of(const std::vector<SpanCurve>& curves) {
  struct Row : QualityRow {
    const SpanQuality* spans;
  };
  std::vector<Row> rows;
  for (const SpanCurve& curve : curves)
    for (std::size_t i = 0; i < curve.spans.size(); ++i)
      rows.push_back({{&curve.curve, &curve.curve.points[i]}, &curve.spans[i]});

  return curves_table<Row>(
      rows, {{{"io_ratio"}, [](const Row& r) { return r.point->io.mean; }},
             {{"keep_ratio"}, [](const Row& r) { return r.point->keep.mean; }},
             {{"span_keep_mean"}, [](const Row& r) { return r.spans->keep; }},
             {{"span_keep_retrieval"}, [](const Row& r) { return r.spans->retrieval_keep; }},
             {{"span_mass_kept"}, [](const Row& r) { return r.spans->mass_kept; }},
             {{"span_recall_mean"}, [](const Row& r) { return r.spans->recall_mean; }},
             {{"span_recall_min"}, [](const Row& r) { return r.spans->recall_min; }},
             {{"cells"}, [](const Row& r) { return static_cast<double>(r.spans->cells); }},
             {{"retrieval_cells"}, [](const Row& r) { return static_cast<double>(r.spans->retrieval_cells); }},
             {{"default"}, [](const Row& r) { return r.point->is_paper_setting ? 1.0 : 0.0; }}});
}

std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<SpanCurve>& curves, bool has_retrieval,
                             const ExperimentOptions& options) {
  struct Shown {
    const char* column;
    const char* label;
    bool of_retrieval = false;
  };
  constexpr std::array kShown = {Shown{"span_keep_mean", "span tokens kept"}, Shown{"span_mass_kept", "span mass kept"},
                                 Shown{"span_recall_mean", "mean span recall", true},
                                 Shown{"span_recall_min", "min span recall", true}};
  std::vector<QualityCurve> quality;
  for (const SpanCurve& curve : curves) quality.push_back(curve.curve);
  std::vector<Panel> panels;
  for (const Shown& shown : kShown) {
    if (shown.of_retrieval && !has_retrieval) continue;
    Panel panel{.title = panel_title(panels.size(), shown.label),
                .x = bytes_axis(quality),
                .y = quality_axis({}, options),
                .series = {},
                .show_x = shown.of_retrieval || !has_retrieval};
    panel.x.label = "bytes read (%)";
    // Most heads do not look at the span: what they keep of its tokens is a share of anything from 0 on.
    if (panels.empty())
      panel.y = {.label = {}, .low = 0, .high = 1.05};
    else if (!options.linear_axes)
      panel.y.floor = kMinSpanDeficit;
    for (const SpanCurve& curve : curves)
      if (!curve.curve.whole_model) panel.series.push_back(curve_series(study, curve.curve, shown.column));
    panels.push_back(std::move(panel));
  }
  return panels;
}

/// Findings about all shown settings of FFD, and about the first of every other selector.
std::vector<Finding> findings_of(const std::vector<SpanCurve>& curves) {
  constexpr double kWarningRecall = 0.9, kSeriousRecall = 0.5;
  std::vector<Finding> findings;
  for (const SpanCurve& curve : curves) {
    const StudySelector& group = curve.curve.selector->group;
    if (curve.curve.whole_model || curve.curve.selector->is_oracle()) continue;
    std::vector<std::size_t> settings = shown_settings(group);
    if (group.name != "ffd") settings.resize(1);
    for (std::size_t i = 0; i < curve.spans.size(); ++i) {
      const SpanQuality& spans = curve.spans[i];
      const QualityPoint& point = curve.curve.points[i];
      if (std::ranges::count(settings, point.setting) == 0 || spans.cells == 0) continue;
      const std::string recall =
          spans.retrieval_cells == 0
              ? fmt::format("no cell puts {} or more on it", kRetrievalMass)
              : fmt::format("span recall over {}: mean {:.4f}, min {:.4f}",
                            counted(spans.retrieval_cells, "retrieval cell"), spans.recall_mean, spans.recall_min);
      findings.push_back(
          {.text = fmt::format("{} keeps {:.1f} % of the evidence tokens and {:.2f} % of the attention on them for "
                               "{:.1f} % of the bytes; {}.",
                               named_setting(group, point.setting), 100 * spans.keep, 100 * spans.mass_kept,
                               100 * point.io.mean, recall),
           .severity = spans.recall_min < kSeriousRecall   ? Severity::serious
                       : spans.recall_min < kWarningRecall ? Severity::warning
                                                           : Severity::note,
           .number = spans.retrieval_cells == 0 ? fmt::format("{:.1f} % kept", 100 * spans.keep)
                                                : fmt::format("span recall {:.4f}", spans.recall_min),
           .place = MapPlace{.metric = "span_keep", .selector = group.label, .setting = point.setting_label}});
    }
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::set<int> dense = study.dense_layers(labels_of(study));
  std::vector<SpanCurve> curves = curves_of(study, dense, false);
  if (curves.empty())
    return Unsupported{dense.empty() ? "needs samples with evidence spans and a selector other than exact"
                                     : "needs samples with evidence spans and a layer that is dense in no selector",
                       dense.empty() ? "" : "--selector ffd --selector quest:dense_layers=0"};
  ExperimentResult result{.findings = findings_of(curves)};
  std::vector<std::int64_t> cells, retrieval;
  for (const SpanCurve& curve : curves)
    for (const SpanQuality& spans : curve.spans) {
      if (spans.cells == 0) continue;
      cells.push_back(spans.cells);
      retrieval.push_back(spans.retrieval_cells);
    }
  Figure figure{.name = "span_keep",
                .note = fmt::format("retrieval cells: exact mass on the span at least {}", kRetrievalMass),
                .ring_title = "settings of the papers",
                .data = table_of({})};
  figure.panels = panels_of(study, curves, std::ranges::max(retrieval) > 0, options);
  figure.caption = fmt::format(
      "What is kept of the evidence spans, against bytes; {}. Tokens: mean over {} (layer, query, head). Mass: exact "
      "attention on the span that was kept, of all of it. Span recall: recall over retrieval cells ({}), those that "
      "put at least {:g} of their attention on the span.{}",
      study.source(), cells_in_words(cells), cells_in_words(retrieval), kRetrievalMass, without_dense(dense));
  if (!dense.empty()) std::ranges::move(curves_of(study, {}, true), std::back_inserter(curves));
  figure.data = table_of(curves);
  figure.columns = 2;
  result.figures.push_back(std::move(figure));
  return result;
}

}  // namespace span_keep_figure

Experiment span_keep_experiment() {
  return {.name = "span_keep",
          .paper = "Tables RULER and LongBench: whether the answer is read",
          .needs = "samples with evidence spans, and a selector other than exact",
          .make = span_keep_figure::make};
}

}  // namespace attest
