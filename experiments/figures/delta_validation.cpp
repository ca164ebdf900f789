// Figures and table "Validation of delta": what each delta costs and keeps, and the smallest one that is good enough.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/figures/delta_tables.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace delta_validation_figure {

Figure curves_figure(const ModelStudy& study, const std::vector<DeltaValidation>& validations,
                     const ExperimentOptions& options) {
  struct Shown {
    const char *title, *label;
    std::vector<const char*> columns;
    double factor;
    Scale scale;
  };
  const Scale recall = options.linear_axes ? Scale::linear : Scale::deficit;
  const Scale error = options.linear_axes ? Scale::linear : Scale::logarithmic;
  const std::vector<Shown> all = {{"(a) mean and worst", "recall", {"recall_mean", "recall_min"}, 1, recall},
                                  {"(b) worst cell", "max LSE error (nats)", {"lse_error_max"}, 1, error},
                                  {"(c) kept; within δ", "tokens (%)", {"keep_ratio", "salient_ratio"}, 100, error},
                                  {"(d) read", "bytes (% of dense)", {"io_ratio"}, 100, Scale::linear}};
  Figure figure{.name = "delta_validation", .data = quality_table(validations), .columns = 2};
  for (const Shown& shown : all) {
    Panel panel{.title = shown.title, .x = {.label = "δ"}, .y = {.label = shown.label}, .series = {}};
    panel.y.factor = shown.factor;
    panel.y.scale = shown.scale;
    if (shown.scale == Scale::deficit) panel.y.floor = kMinDeficit;
    if (shown.scale == Scale::logarithmic && shown.factor == 1) panel.y.floor = kSmallestRelevantError;
    panel.show_x = figure.panels.size() >= 2;
    for (const DeltaValidation& v : validations)
      for (std::size_t c = 0; c < shown.columns.size(); ++c) {
        const std::string column = shown.columns[c];
        Series series{.curve = model_curve(v),
                      .title = c == 0 ? label_of(v) : "",
                      .x = "delta",
                      .y = column,
                      .style = study.style(*v.selector)};
        if (c == 0) series.bands = {{column + "_layers_low", column + "_layers_high", 0.15}};
        if (c > 0) series.style.dash = "(3,2)";
        panel.series.push_back(std::move(series));
      }
    figure.panels.push_back(std::move(panel));
  }
  figure.note = "bands: over layers; dashed: worst recall, tokens within δ";
  return figure;
}

Figure layers_figure(const DeltaValidation& v, const ExperimentOptions& options) {
  Figure figure{.name = "delta_validation_layers", .data = quality_table({v}), .columns = 2, .panel_height_in = 1.4};
  for (const bool kept : {false, true}) {
    Panel panel{.title = kept ? "(b) tokens kept (%)" : "(a) worst recall",
                .x = {.label = "δ"},
                .y = {.label = "layer", .whole_numbers = true},
                .series = {{.curve = layers_curve(v),
                            .title = {},
                            .x = "delta",
                            .y = "layer",
                            .mark = Mark::cells,
                            .value = kept ? "keep_ratio" : "recall_min",
                            .x_low = "delta_low",
                            .x_high = "delta_high"}},
                .show_y = !kept};
    panel.colour = kept ? Axis{.label = {}, .factor = 100, .low = 0, .high = 100} : Axis{.label = {}};
    if (!kept && !options.linear_axes) panel.colour->scale = Scale::deficit;
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

Figure heads_figure(const std::vector<DeltaValidation>& validations, const std::string& model) {
  const DeltaValidation& v = validations.front();
  Figure figure{
      .name = "delta_validation_heads", .data = target_table(validations, model), .columns = 2, .panel_height_in = 1.2};
  for (std::size_t t = 0; t < kQualityTargets.size(); ++t)
    figure.panels.push_back({.title = kQualityTargets[t].heading,
                             .x = {.label = "head", .whole_numbers = true},
                             .y = {.label = "layer", .whole_numbers = true},
                             .series = {{.curve = target_curve(v, kQualityTargets[t]),
                                         .title = {},
                                         .x = "head",
                                         .y = "layer",
                                         .mark = Mark::cells,
                                         .value = "delta"}},
                             .show_x = t >= 2,
                             .show_y = t % 2 == 0,
                             .colour = Axis{.label = {}}});
  // One scale of colours for all targets. Deltas ascend, and inf is the last.
  const double low = v.delta(0);
  double high = low;
  for (std::size_t i = 0; i < v.settings.size(); ++i)
    if (std::isfinite(v.delta(i))) high = v.delta(i);
  for (Panel& panel : figure.panels)
    if (std::isfinite(low)) {
      panel.colour->low = low;
      panel.colour->high = high > low ? high : low + 1;
    }
  figure.note = "colour: smallest δ that meets the target; blank: none";
  return figure;
}

/// The deltas among which the smallest is looked for; shared are those that all samples have.
std::string studied_delta(const DeltaValidation& v) {
  return v.selector->partial.empty() ? "studied delta" : "shared delta";
}

/// Says at how many heads some delta meets the target. Heads without cells are not counted.
std::string heads_that_meet(const DeltaValidation& v, const QualityTarget& target) {
  std::size_t all = 0, met = 0, not_from = 0;
  for (const DeltaCurve& head : v.heads) {
    if (std::ranges::all_of(head.points, [&](const auto& point) { return std::isnan(target.value(point)); })) continue;
    ++all;
    const std::optional<std::size_t> smallest = v.smallest_delta(head, target);
    if (!smallest) continue;
    ++met;
    if (!v.is_met_from(*smallest, head, target)) ++not_from;
  }
  const std::string not_monotone = not_from == 0 ? "" : fmt::format(", {} of them not at all larger ones", not_from);
  return met == all ? fmt::format("every head reaches it at some {}{}", studied_delta(v),
                                  not_from == 0 ? " and at all larger ones" : not_monotone)
                    : fmt::format("{} of {} heads reach it at some {}{}", met, all, studied_delta(v), not_monotone);
}

std::vector<Finding> findings_of(const DeltaValidation& v) {
  const StudySelector& group = v.selector->group;
  std::vector<Finding> findings;
  const auto of_all = [&](std::size_t setting) { return v.selector->of_all_samples(setting); };
  const auto largest = std::ranges::find_if(v.settings.rbegin(), v.settings.rend(), of_all);
  if (largest == v.settings.rend())
    findings.push_back({.text = fmt::format("The samples have no delta of {} in common: no delta is the smallest that "
                                            "meets a target.",
                                            label_of(v)),
                        .severity = Severity::warning});
  for (const QualityTarget& target : kQualityTargets) {
    if (largest == v.settings.rend()) break;
    const auto is_undefined = [&](const DeltaQuality& point) { return std::isnan(target.value(point)); };
    if (std::ranges::all_of(v.model.points, is_undefined)) continue;  // the results lack the metric
    const std::optional<std::size_t> met = v.smallest_delta(v.model, target);
    const std::string heads = heads_that_meet(v, target);
    if (!met) {
      findings.push_back({.text = fmt::format("No {} of {} up to {} gives {} over all cells; {}.", studied_delta(v),
                                              label_of(v), group.setting_labels[*largest], target.heading, heads),
                          .severity = Severity::warning,
                          .number = "no delta"});
      continue;
    }
    const DeltaQuality& at = v.model.points[*met];
    const bool monotone = v.is_met_from(*met, v.model, target);
    const std::string& setting = group.setting_labels[v.settings[*met]];
    findings.push_back(
        {.text = fmt::format("The smallest {} of {} with {} over all cells is {}{}: it keeps {:.1f} % of "
                             "the tokens and reads {:.1f} % of the bytes; {}.",
                             studied_delta(v), label_of(v), target.heading, setting,
                             monotone ? "" : ", but not all larger ones give it", 100 * at.keep.mean(),
                             100 * at.io.mean(), heads),
         .severity = monotone ? Severity::good : Severity::note,
         .number = fmt::format("delta {}", setting),
         .place = MapPlace{
             .metric = target.at_least ? "recall" : "lse_error", .selector = group.label, .setting = setting}});
  }
  const std::size_t shown =
      static_cast<std::size_t>(std::ranges::find(v.settings, shown_delta(group)) - v.settings.begin());
  const DeltaQuality& at = v.model.points[shown];
  if (std::isnan(at.salient.mean())) return findings;
  findings.push_back(
      {.text = fmt::format("At delta {} {:.2f} % of the tokens lie within delta of the peak, and {} keeps "
                           "{:.1f} % (the paper: \"top ~1 %\").",
                           group.setting_labels[shown_delta(group)], 100 * at.salient.mean(), label_of(v),
                           100 * at.keep.mean()),
       .number = fmt::format("{:.2f} % salient", 100 * at.salient.mean()),
       .place = MapPlace{
           .metric = "salient_ratio", .selector = group.label, .setting = group.setting_labels[shown_delta(group)]}});
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::vector<const PooledSelector*> ffds = top_delta_ffds(study);
  if (ffds.empty())
    return Unsupported{"needs ffd with a grid of deltas" + left_out_for_settings_file(study),
                       "--selector ffd --delta 1:12:0.5"};
  std::vector<const PooledSelector*> chosen;
  std::vector<std::string> labels;
  for (const PooledSelector* ffd : ffds)
    if (differ_at_most_in(*ffd, *ffds.front(), {"delta_unit"})) {
      chosen.push_back(ffd);
      labels.push_back(ffd->group.label);
    }
  const std::set<int> dense = study.dense_layers(labels);
  std::vector<DeltaValidation> validations;
  for (const PooledSelector* ffd : chosen) validations.push_back(delta_validation_of(study, *ffd, dense));
  if (validations.front().heads.empty())
    return Unsupported{"every layer is dense in ffd: run it with dense_layers=0", "--selector ffd --delta 1:12:0.5"};

  std::vector<std::int64_t> counts;
  for (const DeltaValidation& v : validations)
    for (const DeltaQuality& point : v.model.points) counts.push_back(point.recall.count);
  const std::string source =
      fmt::format("{}; {} (layer, query, head) at each delta", study.source(), cells_in_words(counts));
  const std::string& label = validations.front().selector->group.label;
  const bool partial =
      std::ranges::any_of(validations, [](const DeltaValidation& v) { return !v.selector->partial.empty(); });
  const std::string grid_delta = partial ? "delta that all samples share" : "delta of the grid";
  ExperimentResult result;
  result.figures.push_back(curves_figure(study, validations, options));
  result.figures.back().caption = fmt::format(
      "Recall, largest LSE error, tokens and bytes against delta, as typed, for each unit of delta in the results; {}. "
      "Bands reach from the lowest to the highest layer.",
      source);
  result.figures.push_back(layers_figure(validations.front(), options));
  result.figures.back().caption = fmt::format(
      "Lowest recall of any cell, and mean share of tokens kept, of {} by layer and delta; {}.", label, source);
  result.figures.push_back(heads_figure(validations, study.model()));
  result.figures.back().caption =
      fmt::format("The smallest {} at which a head of {} meets a target of quality, over the cells of the head; {}.",
                  grid_delta, label, source);
  result.tables.push_back(
      {"delta_validation_targets",
       fmt::format(
           "The smallest {} that meets a target of quality, for the whole model (no layer) and for each layer; a dash: "
           "none does; {}.",
           grid_delta, source),
       printed_targets(validations)});
  result.findings = findings_of(validations.front());
  return result;
}

}  // namespace delta_validation_figure

Experiment delta_validation_experiment() {
  return {.name = "delta_validation",
          .paper = "Setup, 'delta = 5, 7': which delta is safe",
          .needs = "ffd with a grid of deltas; more units: a label for each delta_unit",
          .make = delta_validation_figure::make};
}

}  // namespace attest
