// Figure "Quality vs. IO budget".
#include "experiments/paper/quality_vs_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The share of bytes at which the paper compares methods, and for which it configures its selectors.
constexpr double kComparedIo = 0.25;

/// One setting of one selector, pooled over all its cells.
struct Point {
  std::string setting_label;
  Interval io, keep, recall, lse_error;
  double recall_min = kNaN, recall_p5 = kNaN, lse_error_max = kNaN, mass_recall_min = kNaN;
  std::int64_t cells = 0;
  bool is_default = false;
};

struct Curve {
  const PooledSelector* selector = nullptr;
  std::string name;
  bool whole_model = false;        ///< includes the layers that are dense in some selector
  std::vector<Point> points = {};  ///< ascending by tokens kept
};

/// Whether the setting is one that the methods' papers use.
bool is_default(const StudySelector& group, std::size_t setting) {
  const Setting& point = group.grid[setting];
  if (group.kind == SettingKind::delta) return point.value == 5 || point.value == 7;
  if (group.kind == SettingKind::budget) return point.percent ? point.value == 50 : point.value == 1024;
  return group.kind == SettingKind::p && point.value == 0.85;
}

Curve make_curve(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except) {
  const auto io = study.cells(selector, "io_ratio", except), keep = study.cells(selector, "keep_ratio", except);
  const auto recall = study.cells(selector, "recall", except), lse = study.cells(selector, "lse_error", except);
  const auto mass = study.cells(selector, "mass_recall", except);
  Curve curve{.selector = &selector, .name = curve_name(selector.group.label)};
  for (std::size_t s = 0; s < recall.size(); ++s) {
    const Moments recalls = describe(recall[s]);
    if (recalls.count == 0) continue;
    curve.points.push_back({.setting_label = selector.group.setting_labels[s],
                            .io = mean_interval(io.at(s)),
                            .keep = mean_interval(keep.at(s)),
                            .recall = mean_interval(recall[s]),
                            .lse_error = mean_interval(lse.at(s)),
                            .recall_min = recalls.min,
                            .recall_p5 = quantile(recall[s], 0.05),
                            .lse_error_max = describe(lse[s]).max,
                            .mass_recall_min = describe(mass.at(s)).min,
                            .cells = recalls.count,
                            .is_default = is_default(selector.group, s)});
  }
  std::ranges::stable_sort(curve.points, {}, [](const Point& p) { return p.keep.mean; });
  return curve;
}

Table table_of(const std::vector<Curve>& curves) {
  struct Row {
    const Curve* curve;
    const Point* point;
    const StudySelector& group() const { return curve->selector->group; }
  };
  std::vector<Row> rows;
  for (const Curve& curve : curves)
    for (const Point& point : curve.points) rows.push_back({&curve, &point});

  constexpr auto text = Column::Kind::text;
  return make_table<Row>(rows,
                         {{{kCurveColumn, text}, [](const Row& r) { return r.curve->name; }},
                          {{"label", text}, [](const Row& r) { return display_name(r.group().label); }},
                          {{"selector", text}, [](const Row& r) { return r.group().name; }},
                          {{"setting", text}, [](const Row& r) { return std::string(name_of(r.group().kind)); }},
                          {{"setting_label", text}, [](const Row& r) { return display_name(r.point->setting_label); }},
                          {{"layers", text}, [](const Row& r) { return r.curve->whole_model ? "all" : "compared"; }},
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
                          {{"default"}, [](const Row& r) { return r.point->is_default ? 1.0 : 0.0; }}});
}

/// The value of `y` on a curve at `io`, interpolated linearly; nothing outside the curve's range.
std::optional<double> at_io(const Curve& curve, double io, double (*y)(const Point&)) {
  for (std::size_t i = 0; i + 1 < curve.points.size(); ++i) {
    const Point &a = curve.points[i], &b = curve.points[i + 1];
    if (!(a.io.mean <= io && io <= b.io.mean)) continue;
    const double part = b.io.mean > a.io.mean ? (io - a.io.mean) / (b.io.mean - a.io.mean) : 0;
    return y(a) + part * (y(b) - y(a));
  }
  return std::nullopt;
}

/// An io that both curves reach: kComparedIo if possible, else the io of a default setting of `ffd`, else the middle of
/// the common range.
std::optional<double> shared_io(const Curve& ffd, const Curve& peer) {
  if (ffd.points.empty() || peer.points.empty()) return std::nullopt;
  const double low = std::max(ffd.points.front().io.mean, peer.points.front().io.mean);
  const double high = std::min(ffd.points.back().io.mean, peer.points.back().io.mean);
  if (low > high) return std::nullopt;
  std::vector<double> wanted = {kComparedIo};
  for (const Point& p : ffd.points)
    if (p.is_default) wanted.push_back(p.io.mean);
  for (double io : wanted)
    if (low <= io && io <= high) return io;
  return (low + high) / 2;
}

const Curve* first_of(const std::vector<Curve>& curves, std::string_view selector) {
  const auto found = std::ranges::find_if(curves, [&](const Curve& c) {
    return c.selector->group.name == selector && !c.points.empty() && !c.whole_model;
  });
  return found == curves.end() ? nullptr : &*found;
}

/// The curve that FFD is compared with: Quest, as in the paper, else the first other curve that is not an oracle.
const Curve* peer_of(const std::vector<Curve>& curves, const Curve& ffd) {
  if (const Curve* quest = first_of(curves, "quest")) return quest;
  for (const Curve& curve : curves)
    if (&curve != &ffd && curve.points.size() > 1 && !curve.selector->is_oracle() && !curve.whole_model) return &curve;
  return nullptr;
}

std::vector<Finding> findings_of(const std::vector<Curve>& curves) {
  const Curve* ffd = first_of(curves, "ffd");
  if (!ffd) ffd = &curves.front();
  std::vector<Finding> findings;
  if (const Curve* peer = peer_of(curves, *ffd)) {
    if (const std::optional<double> io = shared_io(*ffd, *peer)) {
      auto recall = [](const Point& p) { return p.recall.mean; };
      auto lse_error = [](const Point& p) { return p.lse_error_max; };
      const auto ours = at_io(*ffd, *io, recall), theirs = at_io(*peer, *io, recall);
      if (ours && theirs)
        findings.push_back(
            fmt::format("At io {:.2g} the mean recall of {} is {:.4f} against {:.4f} of {}, the max LSE error {:.3g} "
                        "against {:.3g} nats.",
                        *io, ffd->name, *ours, *theirs, peer->name, at_io(*ffd, *io, lse_error).value(),
                        at_io(*peer, *io, lse_error).value()));
    }
  }
  for (const Point& p : ffd->points)
    if (p.is_default)
      findings.push_back(
          fmt::format("{} at {} {} keeps {:.1f} % of the tokens and reads {:.1f} % of the bytes: mean recall {:.4f} "
                      "(lowest {:.3f}), max LSE error {:.3g} nats.",
                      ffd->name, name_of(ffd->selector->group.kind), p.setting_label, 100 * p.keep.mean,
                      100 * p.io.mean, p.recall.mean, p.recall_min, p.lse_error_max));
  return findings;
}

std::string note_of(const std::vector<Curve>& curves) {
  const Interval& interval = curves.front().points.front().recall;
  const bool oracles = std::ranges::any_of(curves, [](const Curve& c) { return c.selector->is_oracle(); });
  std::string note = oracles ? "oracles: scores free" : "";
  for (const Curve& curve : curves)
    if (!curve.whole_model && !counts_scan(curve.selector->group))
      note +=
          fmt::format("{}{}: scan not counted", note.empty() ? "" : "; ", display_name(curve.selector->group.label));
  if (interval.clusters < 2) return note;
  if (!note.empty()) note += "; ";
  return note + (interval.kind == ClusterKind::sample ? fmt::format("bands: 95 % over {} samples", interval.clusters)
                                                      : "bands: 95 % over layer-head pairs");
}

/// A selector that keeps everything has only rounding errors, which would extend a logarithmic axis by decades without
/// information. The axis therefore begins below the smallest error that matters.
std::optional<double> lse_axis_floor(const std::vector<Curve>& curves) {
  constexpr double kSmallestRelevantError = 1e-3;
  bool some_below = false;
  double least = 1;
  for (const Curve& curve : curves)
    for (const Point& p : curve.points) {
      some_below |= p.lse_error_max > 0 && p.lse_error_max < kSmallestRelevantError;
      if (p.lse_error_max >= kSmallestRelevantError) least = std::min(least, p.lse_error_max);
    }
  return some_below ? std::optional(least / 1.5) : std::nullopt;
}

bool is_drawn(const Curve& curve) { return !curve.whole_model && curve.selector->group.name != "exact"; }

/// Lower end of the x axis, in per cent: just below the smallest value of a real selector. Oracles continue down to a
/// handful of tokens and would fill the panel.
std::optional<double> x_axis_lower_bound(const std::vector<Curve>& curves, bool keep) {
  std::optional<double> least;
  for (const Curve& curve : curves)
    if (is_drawn(curve) && !curve.selector->is_oracle())
      for (const Point& p : curve.points)
        if (const double share = keep ? p.keep.mean : p.io.mean; share > 0) least = std::min(least.value_or(1), share);
  if (least) *least *= 100 / 1.3;
  return least;
}

std::vector<Panel> panels_of(const std::vector<Curve>& curves) {
  const auto real_curves = static_cast<std::size_t>(
      std::ranges::count_if(curves, [](const Curve& c) { return is_drawn(c) && !c.selector->is_oracle(); }));
  std::vector<Panel> panels;
  for (bool lse : {false, true}) {
    for (bool keep : {false, true}) {
      Panel panel;
      panel.title = fmt::format("({})", static_cast<char>('a' + panels.size()));
      panel.x = {.label = keep ? "tokens kept (%)" : "bytes read (% of dense)",
                 .factor = 100,
                 .logarithmic = true,
                 .low = x_axis_lower_bound(curves, keep)};
      panel.y = {.label = lse ? "max LSE error (nats)" : "mean recall (cosine)", .logarithmic = lse};
      if (lse) panel.y.low = lse_axis_floor(curves);
      panel.show_x = lse;
      panel.show_y = !keep;
      std::size_t reals = 0, oracles = 0;
      for (const Curve& curve : curves) {
        if (!is_drawn(curve)) continue;
        const bool oracle = curve.selector->is_oracle();
        const LineStyle style = oracle ? oracle_style(real_curves + oracles++) : line_style(reals++);
        Series series{.curve = curve.name,
                      .title = display_name(curve.selector->group.label) + (oracle ? " (oracle)" : ""),
                      .x = keep ? "keep_ratio" : "io_ratio",
                      .y = lse ? "lse_error_max" : "recall_mean",
                      .style = style,
                      .ring = "default"};
        if (!lse && curve.points.front().recall.clusters > 1) series.bands = {{"recall_low", "recall_high", 0.18}};
        panel.series.push_back(std::move(series));
      }
      panels.push_back(std::move(panel));
    }
  }
  return panels;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study) {
  std::vector<std::string> labels;
  for (const PooledSelector& selector : study.selectors()) labels.push_back(selector.group.label);
  const std::set<int> dense = study.dense_layers(labels);

  std::vector<Curve> curves;
  for (const PooledSelector& selector : study.selectors()) {
    Curve curve = make_curve(study, selector, dense);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  if (std::ranges::all_of(curves, [](const Curve& c) { return c.selector->group.name == "exact"; }))
    return Unsupported{dense.empty() ? "needs a selector other than exact"
                                     : "every layer is dense in one of the selectors: run them with dense_layers=0"};
  std::ranges::stable_partition(curves, [](const Curve& c) { return c.selector->group.name != "exact"; });

  ExperimentResult exhibit{.figure = {.name = "quality_vs_io", .data = table_of({})}, .findings = findings_of(curves)};
  if (!dense.empty()) {
    exhibit.findings.push_back(
        fmt::format("Layers {} are dense in one of the selectors and left out of all averages; the csv has the "
                    "whole model too.",
                    fmt::join(dense, ", ")));
    for (const PooledSelector& selector : study.selectors()) {
      Curve curve = make_curve(study, selector, {});
      curve.whole_model = true;
      curve.name += " [all layers]";
      curves.push_back(std::move(curve));
    }
  }
  Figure& figure = exhibit.figure;
  figure.caption = fmt::format(
      "Quality against bytes read and tokens kept, {}, {} sample{}. A point pools one setting over all layers, "
      "heads and queries; the LSE error is the largest of all cells. An oracle's scores are not counted as bytes.",
      study.model(), study.num_samples(), study.num_samples() == 1 ? "" : "s");
  figure.note = note_of(curves);
  figure.ring_title = "default settings";
  figure.data = table_of(curves);
  figure.columns = 2;
  figure.panel_height_in = 1.15;
  figure.panels = panels_of(curves);
  return exhibit;
}

}  // namespace

Experiment quality_vs_io() {
  return {.name = "quality_vs_io",
          .paper = "Figure 'Quality vs. IO budget'",
          .needs = "a selector other than exact; two of them for a comparison",
          .make = make};
}

}  // namespace attest
