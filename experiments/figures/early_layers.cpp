// Whether the first two layers need an exception: each selector there and in the other layers.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace early_layers_figure {

constexpr int kEarly = 2;  ///< layers that Quest and Twilight leave dense

/// An early layer must be worse than every later one by this much before a sentence says so.
constexpr double kRecallMargin = 0.01;
constexpr double kErrorFactor = 1.5, kErrorMargin = 0.01;  ///< both: as many times as large, and larger by these nats

struct LayerGroup {
  std::string name;  ///< in the csv: "0", "1", "others", "all"
  std::string title;
  std::set<int> left_out;
};

/// Groups without a layer are left out.
std::vector<LayerGroup> layer_groups(const std::set<int>& layers) {
  std::set<int> early, others;
  for (const int layer : layers) (layer < kEarly ? early : others).insert(layer);
  std::vector<LayerGroup> groups;
  for (const int layer : early) {
    std::set<int> left_out = layers;
    left_out.erase(layer);
    groups.push_back({fmt::format("{}", layer), fmt::format("layer {}", layer), left_out});
  }
  if (!others.empty()) groups.push_back({"others", "other layers", early});
  groups.push_back({"all", "all layers", {}});
  return groups;
}

struct GroupCurve {
  const LayerGroup* group;
  QualityCurve curve;
  bool dense = false;  ///< the selector is dense in some layer

  std::string name() const { return fmt::format("{} {}", curve.name, group->title); }
  const StudySelector& selector() const { return curve.selector->group; }
};

std::vector<GroupCurve> curves_of(const ModelStudy& study, const std::vector<LayerGroup>& groups) {
  std::vector<GroupCurve> curves;
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name == "exact") continue;
    const bool dense = !study.dense_layers({selector.group.label}).empty();
    for (const LayerGroup& group : groups) {
      QualityCurve curve = quality_curve(study, selector, group.left_out, {}, kNoIntervals);
      if (!curve.points.empty()) curves.push_back({&group, std::move(curve), dense});
    }
  }
  return curves;
}

struct Row {
  const GroupCurve* curve;
  const QualityPoint* point;
};

Table table_of(const std::vector<Row>& rows) {
  return make_table<Row>(
      rows,
      {{{kCurveColumn, kText}, [](const Row& r) { return r.curve->name(); }},
       {{"label", kText, "selector"}, [](const Row& r) { return display_name(r.curve->selector().label); }},
       {{"dense_layers", kText, "dense layers"},
        [](const Row& r) { return r.curve->curve.selector->option("dense_layers"); }},
       {{"setting", kText, "setting"}, [](const Row& r) { return std::string(name_of(r.curve->selector().kind)); }},
       {{"setting_label", kText, "at"}, [](const Row& r) { return display_name(r.point->setting_label); }},
       {{"layers", kText, "layers"}, [](const Row& r) { return r.curve->group->name; }},
       {{"recall_mean", kNumber, "recall, mean", 5}, [](const Row& r) { return r.point->recall.mean; }},
       {{"recall_min", kNumber, "min", 4}, [](const Row& r) { return r.point->recall_min; }},
       {{"lse_error_max", kNumber, "LSE error, max (nats)"}, [](const Row& r) { return r.point->lse_error_max; }},
       {{"lse_error_mean", kNumber, "mean", 4}, [](const Row& r) { return r.point->lse_error.mean; }},
       {{"mass_recall_min", kNumber, "mass kept, min", 4}, [](const Row& r) { return r.point->mass_recall_min; }},
       {{"keep_ratio", kNumber, "tokens kept", 4}, [](const Row& r) { return r.point->keep.mean; }},
       {{"io_ratio", kNumber, "bytes read", 4}, [](const Row& r) { return r.point->io.mean; }},
       {{"cells", kNumber, "cells", 0}, [](const Row& r) { return static_cast<double>(r.point->cells); }}});
}

bool is_shown(const GroupCurve& curve) { return !curve.dense && curve.group->name != "all"; }

/// A row of two panels for each group of layers.
std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<LayerGroup>& groups,
                             const std::vector<GroupCurve>& curves, const ExperimentOptions& options) {
  std::vector<QualityCurve> shown;
  for (const GroupCurve& curve : curves)
    if (is_shown(curve)) shown.push_back(curve.curve);
  std::vector<Panel> panels;
  for (const LayerGroup& group : groups) {
    if (group.name == "all") continue;
    for (const bool lse : {false, true}) {
      Panel panel{.title = panel_title(panels.size(), group.title),
                  .x = bytes_axis(shown),
                  .y = lse ? error_axis("max LSE error (nats)", has_negligible_error(shown), options)
                           : quality_axis("mean recall", options),
                  .series = {},
                  .show_x = group.name == groups[groups.size() - 2].name};
      panel.x.label = "bytes read (%)";
      for (const GroupCurve& curve : curves)
        if (is_shown(curve) && curve.group == &group)
          panel.series.push_back({.curve = curve.name(),
                                  .title = legend_title(*curve.curve.selector),
                                  .x = "io_ratio",
                                  .y = lse ? "lse_error_max" : "recall_mean",
                                  .style = study.style(*curve.curve.selector),
                                  .ring = {}});
      panels.push_back(std::move(panel));
    }
  }
  return panels;
}

struct LayerQuality {
  int layer;
  double recall, lse_error;  ///< mean, max
  std::int64_t samples;
};

std::vector<LayerQuality> by_layer(const ModelStudy& study, const PooledSelector& selector, std::size_t setting) {
  const auto recall = study.cells(selector, "recall").at(setting), lse = study.cells(selector, "lse_error").at(setting);
  std::vector<LayerQuality> layers;
  for (const int layer : layers_of(recall))
    layers.push_back({layer, describe(of_layer(recall, layer)).mean, describe(of_layer(lse, layer)).max,
                      std::ranges::count_if(recall, [&](const SampleCells& sample) {
                        return std::ranges::count(sample.layers, layer) > 0;
                      })});
  return layers;
}

/// "3 samples", or "2 to 3 samples" where some of the layers are not of all.
std::string samples_in_words(const std::vector<LayerQuality>& layers) {
  const auto [minimum, maximum] = std::ranges::minmax(layers, {}, &LayerQuality::samples);
  const std::string few = minimum.samples == maximum.samples ? "" : fmt::format("{} to ", minimum.samples);
  return fmt::format("{}{} sample{}", few, maximum.samples, maximum.samples == 1 ? "" : "s");
}

/// The early layers that are worse than every later one, for each quantity: they need not be worse in both.
struct Verdict {
  std::set<int> by_recall, by_error;

  bool is_good() const { return by_recall.empty() && by_error.empty(); }

  std::string text() const {
    const std::string low = fmt::format("a mean recall lower by {} or more", kRecallMargin);
    const std::string large =
        fmt::format("a max LSE error at least {} times as large (and {} nats larger)", kErrorFactor, kErrorMargin);
    const auto have = [](const std::set<int>& layers, const std::string& what) {
      return fmt::format("{} {} {}", layers_in_words(layers), layers.size() == 1 ? "has" : "have", what);
    };
    if (is_good()) return fmt::format("no early layer has {} or {}", low, large);
    if (by_recall == by_error) return have(by_recall, low + " and " + large);
    if (by_error.empty()) return have(by_recall, low);
    if (by_recall.empty()) return have(by_error, large);
    return have(by_recall, low) + ", " + have(by_error, large);
  }
};

/// Compares the early layers with the worst of the others, at the first of the shown settings. Nothing if the
/// selector was not computed in an early and in a later layer.
std::optional<Finding> finding_of(const ModelStudy& study, const PooledSelector& selector) {
  const std::size_t setting = shown_settings(selector.group).front();
  double lowest_recall = 1, largest_error = 0;
  std::vector<LayerQuality> early;
  const std::vector<LayerQuality> layers = by_layer(study, selector, setting);
  for (const LayerQuality& layer : layers) {
    if (layer.layer < kEarly) {
      early.push_back(layer);
      continue;
    }
    lowest_recall = std::min(lowest_recall, layer.recall);
    largest_error = std::max(largest_error, layer.lse_error);
  }
  const std::size_t later = layers.size() - early.size();
  if (early.empty() || later == 0) return std::nullopt;
  std::vector<std::string> parts;
  Verdict worse;
  for (const LayerQuality& layer : early) {
    parts.push_back(fmt::format("mean recall {:.4f} and max LSE error {:.3g} nats in layer {}", layer.recall,
                                layer.lse_error, layer.layer));
    if (layer.recall <= lowest_recall - kRecallMargin) worse.by_recall.insert(layer.layer);
    if (layer.lse_error >= std::max(kErrorFactor * largest_error, largest_error + kErrorMargin))
      worse.by_error.insert(layer.layer);
  }
  const bool is_ffd = selector.group.name == "ffd";
  return Finding{
      .text = fmt::format("{} without dense layers has {}, against at worst {:.4f} and {:.3g} in the {} studied "
                          "from layer {} on ({}): {}.",
                          named_setting(selector.group, setting), join(parts, ", "), lowest_recall, largest_error,
                          later == 1 ? std::string("one layer") : fmt::format("{} layers", later), kEarly,
                          samples_in_words(layers), worse.text()),
      .severity = !is_ffd           ? Severity::note
                  : worse.is_good() ? Severity::good
                                    : Severity::warning,
      .number = fmt::format("recall {:.4f}", early.front().recall),
      .place = MapPlace{.metric = "recall",
                        .selector = selector.group.label,
                        .setting = selector.group.setting_labels[setting],
                        .layer = early.front().layer}};
}

/// Says what the exception changes, where the results hold a selector with and without it.
std::vector<Finding> exceptions(const ModelStudy& study, const std::vector<GroupCurve>& curves) {
  std::vector<Finding> findings;
  for (const GroupCurve& with : curves)
    for (const GroupCurve& without : curves) {
      if (!with.dense || without.dense || with.group->name != "all" || without.group->name != "all") continue;
      if (!differ_at_most_in(*with.curve.selector, *without.curve.selector, {"dense_layers"})) continue;
      const std::string setting = without.selector().setting_labels[shown_settings(without.selector()).front()];
      const auto a = std::ranges::find(without.curve.points, setting, &QualityPoint::setting_label);
      const auto b = std::ranges::find(with.curve.points, setting, &QualityPoint::setting_label);
      if (a == without.curve.points.end() || b == with.curve.points.end()) continue;
      if (!a->is_compared || !b->is_compared || !study.have_same_prompts(*with.curve.selector, *without.curve.selector))
        continue;
      findings.push_back(
          {.text =
               fmt::format("With dense layers ({}) the mean recall of {} over all layers is {:.4f} instead of {:.4f}, "
                           "the max LSE error {:.3g} instead of {:.3g} nats, for {:.1f} % of the bytes instead of "
                           "{:.1f} %.",
                           display_name(with.selector().label), display_name(without.selector().label), b->recall.mean,
                           a->recall.mean, b->lse_error_max, a->lse_error_max, 100 * b->io.mean, 100 * a->io.mean),
           .number = fmt::format("recall {:.4f}", b->recall.mean)});
    }
  return findings;
}

/// The layers for which the study has recall.
std::set<int> studied_layers(const ModelStudy& study) {
  std::set<int> layers;
  for (const PooledSelector& selector : study.selectors())
    for (const std::vector<SampleCells>& cells : study.cells(selector, "recall"))
      for (const int layer : layers_of(cells)) layers.insert(layer);
  return layers;
}

/// First of each selector without dense layers, then of what dense layers change, then what is not known.
std::vector<Finding> findings_of(const ModelStudy& study, const std::vector<GroupCurve>& curves) {
  std::vector<Finding> findings;
  std::set<std::string> dense;
  for (const GroupCurve& curve : curves) {
    if (curve.group->name != "all") continue;
    if (!curve.dense && !curve.curve.selector->is_oracle())
      if (std::optional<Finding> finding = finding_of(study, *curve.curve.selector))
        findings.push_back(std::move(*finding));
    const bool has_other = std::ranges::any_of(curves, [&](const GroupCurve& other) {
      return !other.dense && differ_at_most_in(*other.curve.selector, *curve.curve.selector, {"dense_layers"});
    });
    if (curve.dense && !has_other) dense.insert(display_name(curve.selector().label));
  }
  std::ranges::move(exceptions(study, curves), std::back_inserter(findings));
  if (!dense.empty())
    findings.push_back(
        {fmt::format("Not known without dense layers: {}; run with dense_layers=0.", join(dense, ", "))});
  return findings;
}

Figure figure_of(const ModelStudy& study, const std::vector<LayerGroup>& groups, const std::vector<GroupCurve>& curves,
                 const ExperimentOptions& options) {
  std::vector<Row> rows;
  for (const GroupCurve& curve : curves)
    for (const QualityPoint& point : curve.curve.points) rows.push_back({&curve, &point});
  Figure figure{.name = "early_layers", .data = table_of(rows)};
  figure.caption = fmt::format(
      "Quality against bytes in the first layers and in the others, of selectors that are dense in no layer; {}. A "
      "dump has the exact inputs of every layer: how an early error grows through later layers is not measured here.",
      study.source());
  figure.columns = 2;
  figure.panel_height_in = 1;
  figure.panels = panels_of(study, groups, curves, options);
  return figure;
}

NamedTable shown_table(const ModelStudy& study, const std::vector<GroupCurve>& curves) {
  std::vector<Row> rows;
  std::vector<const StudySelector*> chosen;
  for (const GroupCurve& curve : curves) {
    const std::vector<std::size_t> settings = shown_settings(curve.selector());
    for (const QualityPoint& point : curve.curve.points) {
      if (std::ranges::count(settings, point.setting) == 0) continue;
      rows.push_back({&curve, &point});
      chosen.push_back(&curve.selector());
    }
  }
  return {"early_layers_table",
          fmt::format("Layers 0 and 1 apart, at the settings of the methods' papers; {}.{}", study.source(),
                      without_paper_settings(chosen, "all settings are shown")),
          table_of(rows)};
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::string run =
      "--selector ffd --selector quest:dense_layers=0 --selector twilight:dense_layers=0 --layers 0-";
  const std::set<int> layers = studied_layers(study);
  if (layers.empty() || *layers.begin() >= kEarly) return Unsupported{"needs layer 0 or 1 of the model", run};
  const std::vector<LayerGroup> groups = layer_groups(layers);
  if (*layers.rbegin() < kEarly) return Unsupported{"needs a layer from 2 on to compare with", run};
  const std::vector<GroupCurve> curves = curves_of(study, groups);
  if (std::ranges::none_of(curves, is_shown))
    return Unsupported{"needs a selector other than exact that is dense in no layer", run};
  ExperimentResult result;
  result.findings = findings_of(study, curves);
  result.figures.push_back(figure_of(study, groups, curves, options));
  result.tables.push_back(shown_table(study, curves));
  return result;
}

}  // namespace early_layers_figure

Experiment early_layers_experiment() {
  return {.name = "early_layers",
          .paper = "Appendix 'Head-wise variation': FFD requires no early-layer exception",
          .needs = "selectors with dense_layers=0 (and 2, to see what the exception costs), layers 0 and 1 in the dump",
          .make = early_layers_figure::make};
}

}  // namespace attest
