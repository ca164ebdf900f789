// Figure "Quality vs. IO budget": mean recall and maximal LSE error against bytes read and against tokens kept.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "experiments/figures/figures.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace quality_vs_io_figure {

Table table_of(const std::vector<QualityCurve>& curves) {
  using Row = QualityRow;
  std::vector<Row> rows;
  for (const QualityCurve& curve : curves)
    for (const QualityPoint& point : curve.points) rows.push_back({&curve, &point});

  return curves_table<Row>(rows,
                           {{{"sample", kText}, [](const Row& r) { return display_name(r.curve->sample); }},
                            {{"io_ratio"}, [](const Row& r) { return r.point->io.mean; }},
                            {{"keep_ratio"}, [](const Row& r) { return r.point->keep.mean; }},
                            {{"recall_mean"}, [](const Row& r) { return r.point->recall.mean; }},
                            {{"recall_low"}, [](const Row& r) { return r.point->recall.low; }},
                            {{"recall_high"}, [](const Row& r) { return r.point->recall.high; }},
                            {{"recall_min"}, [](const Row& r) { return r.point->recall_min; }},
                            {{"recall_p5"}, [](const Row& r) { return r.point->recall_p5; }},
                            {{"lse_error_max"}, [](const Row& r) { return r.point->lse_error_max; }},
                            {{"lse_error_mean"}, [](const Row& r) { return r.point->lse_error.mean; }},
                            {{"lse_error_low"}, [](const Row& r) { return r.point->lse_error.low; }},
                            {{"lse_error_high"}, [](const Row& r) { return r.point->lse_error.high; }},
                            {{"mass_recall_min"}, [](const Row& r) { return r.point->mass_recall_min; }},
                            {{"cells"}, [](const Row& r) { return static_cast<double>(r.point->cells); }},
                            {{"clusters"}, [](const Row& r) { return static_cast<double>(r.point->recall.clusters); }},
                            {{"default"}, [](const Row& r) { return r.point->is_paper_setting ? 1.0 : 0.0; }}});
}

/// The curve that FFD is compared with: Quest, as in the paper, else the first other curve that is not an oracle.
const QualityCurve* peer_of(const ModelStudy& study, const std::vector<QualityCurve>& curves, const QualityCurve& ffd) {
  const auto is_peer = [&](const QualityCurve& c) { return study.have_same_prompts(*c.selector, *ffd.selector); };
  if (const QualityCurve* quest = first_of(curves, "quest"); quest && is_peer(*quest)) return quest;
  for (const QualityCurve& curve : curves)
    if (&curve != &ffd && curve.points.size() > 1 && !curve.selector->is_oracle() && is_peer(curve)) return &curve;
  return nullptr;
}

std::vector<Finding> findings_of(const ModelStudy& study, const std::vector<QualityCurve>& curves) {
  const QualityCurve* ffd = first_of(curves, "ffd");
  if (!ffd) ffd = &curves.front();
  std::vector<Finding> findings;
  if (const QualityCurve* peer = peer_of(study, curves, *ffd)) {
    if (const std::optional<double> io = shared_io(*ffd, *peer)) {
      auto recall = [](const QualityPoint& p) { return p.recall.mean; };
      auto lse_error = [](const QualityPoint& p) { return p.lse_error_max; };
      const auto ours = at_io(*ffd, *io, recall), theirs = at_io(*peer, *io, recall);
      if (ours && theirs)
        findings.push_back(
            {.text = fmt::format("At io {:.2g} the mean recall of {} is {:.4f} against {:.4f} of {}, the max LSE error "
                                 "{:.3g} against {:.3g} nats, interpolated between settings.",
                                 *io, ffd->name, *ours, *theirs, peer->name, at_io(*ffd, *io, lse_error).value(),
                                 at_io(*peer, *io, lse_error).value()),
             .severity = *ours >= *theirs ? Severity::good : Severity::note,
             .number = fmt::format("recall {:.4f}", *ours)});
    }
  }
  constexpr double kSeriousRecall = 0.9;
  for (const QualityPoint& p : ffd->points)
    if (p.is_paper_setting)
      findings.push_back(
          {.text = fmt::format("{} at {} {} keeps {:.1f} % of the tokens and reads {:.1f} % of the bytes: mean recall "
                               "{:.4f} (lowest {:.3f}), max LSE error {:.3g} nats.",
                               ffd->name, name_of(ffd->selector->group.kind), p.setting_label, 100 * p.keep.mean,
                               100 * p.io.mean, p.recall.mean, p.recall_min, p.lse_error_max),
           .severity = p.recall_min < kSeriousRecall ? Severity::warning : Severity::note,
           .number = fmt::format("recall {:.3f}", p.recall_min),
           .place = MapPlace{.metric = "recall", .selector = ffd->selector->group.label, .setting = p.setting_label}});
  return findings;
}

/// By which a curve has a band or dots: a setting that is not of all samples does not decide.
const Interval& interval_of(const QualityCurve& curve) {
  const auto compared = std::ranges::find_if(curve.points, &QualityPoint::is_compared);
  return (compared == curve.points.end() ? curve.points.front() : *compared).recall;
}

std::string note_of(const std::vector<QualityCurve>& curves) {
  std::vector<std::string> parts;
  if (std::ranges::any_of(curves, [](const QualityCurve& c) { return c.selector->is_oracle(); }))
    parts.emplace_back("oracles: scores free");
  for (const QualityCurve& curve : curves)
    if (!curve.whole_model && curve.sample.empty() && !counts_scan(curve.selector->group))
      parts.push_back(display_name(curve.selector->group.label) + ": scan not counted");
  if (const std::string note = interval_note(interval_of(curves.front())); !note.empty()) parts.push_back(note);
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

bool is_shown(const QualityCurve& curve) { return !curve.whole_model && curve.selector->group.name != "exact"; }

Series series_of(const ModelStudy& study, const QualityCurve& curve, bool lse, bool keep) {
  Series series = curve_series(study, curve, lse ? "lse_error_max" : "recall_mean");
  if (keep) series.x = "keep_ratio";
  if (!lse && is_drawn(interval_of(curve))) series.bands = {{"recall_low", "recall_high", 0.18}};
  if (curve.sample.empty()) return series;
  series.title.clear();
  series.ring.clear();
  series.mark = Mark::points;
  series.style.point_size *= 0.5;
  return series;
}

std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<QualityCurve>& curves,
                             const ExperimentOptions& options) {
  std::vector<Panel> panels;
  for (bool lse : {false, true}) {
    for (bool keep : {false, true}) {
      Panel panel;
      panel.title = panel_title(panels.size(), {});
      panel.x = keep ? tokens_axis(curves) : bytes_axis(curves);
      panel.y = lse ? error_axis("max LSE error (nats)", has_negligible_error(curves), options)
                    : quality_axis("mean recall", options);
      panel.show_x = lse;
      panel.show_y = !keep;
      for (const QualityCurve& curve : curves)
        if (is_shown(curve)) panel.series.push_back(series_of(study, curve, lse, keep));
      panels.push_back(std::move(panel));
    }
  }
  return panels;
}

/// The curves of single samples, where they are too few for a band.
void add_samples(const ModelStudy& study, const std::set<int>& dense, std::vector<QualityCurve>& curves) {
  const Interval interval = interval_of(curves.front());
  if (interval.kind != ClusterKind::sample || interval.clusters < 2 || is_drawn(interval)) return;
  const std::size_t pooled = curves.size();
  for (std::size_t c = 0; c < pooled; ++c) {
    if (curves[c].selector->group.name == "exact") continue;
    for (const SampleKey& sample : study.sample_keys()) {
      QualityCurve one = quality_curve(study, *curves[c].selector, dense, {sample});
      one.name += " of sample " + curve_name(one.sample);
      if (!one.points.empty()) curves.push_back(std::move(one));
    }
  }
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::set<int> dense = study.dense_layers(labels_of(study));
  std::vector<QualityCurve> curves = quality_curves(study, dense);
  if (std::ranges::all_of(curves, [](const QualityCurve& c) { return c.selector->group.name == "exact"; })) {
    if (dense.empty()) return Unsupported{"needs a selector other than exact", "--selector ffd --selector quest"};
    return Unsupported{"every layer is dense in one of the selectors: run them with dense_layers=0",
                       "--selector ffd --selector quest:dense_layers=0"};
  }

  std::vector<std::int64_t> counts;
  for (const QualityCurve& curve : curves)
    for (const QualityPoint& point : curve.points) counts.push_back(point.cells);
  ExperimentResult result{.findings = findings_of(study, curves)};
  Figure figure{
      .name = "quality_vs_io", .note = note_of(curves), .ring_title = "settings of the papers", .data = table_of({})};
  add_samples(study, dense, curves);
  figure.panels = panels_of(study, curves, options);
  if (!dense.empty()) {
    result.findings.push_back(
        {fmt::format("Averages leave out {}, dense in one of the selectors; the csv has the whole model too.",
                     layers_in_words(dense))});
    for (const PooledSelector& selector : study.selectors()) {
      QualityCurve curve = quality_curve(study, selector, {});
      curve.name_whole_model();
      curves.push_back(std::move(curve));
    }
  }
  figure.caption = fmt::format(
      "Quality against bytes read and tokens kept; {}. A point pools one setting over {}, heads and queries ({}); the "
      "LSE error is the largest of all cells. An oracle's scores are not counted as bytes.{}",
      study.source(), dense.empty() ? "all layers" : "layers", cells_in_words(counts), without_dense(dense));
  figure.data = table_of(curves);
  figure.columns = 2;
  figure.panel_height_in = 1.15;
  result.figures.push_back(std::move(figure));
  return result;
}

}  // namespace quality_vs_io_figure

Experiment quality_vs_io_experiment() {
  return {.name = "quality_vs_io",
          .paper = "Figure 'Quality vs. IO budget'",
          .needs = "a selector other than exact; two of them for a comparison",
          .make = quality_vs_io_figure::make};
}

}  // namespace attest
