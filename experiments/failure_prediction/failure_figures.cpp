// ROC curves, and the share of failures against the value of a predictor.
#include "experiments/failure_prediction/failure_figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "analysis/outcomes/combination.h"
#include "analysis/statistics/alarm.h"
#include "analysis/statistics/binomial.h"

namespace attest {
namespace {

constexpr double kPerCent = 100;
constexpr const char* kChance = "chance";

std::vector<std::size_t> all_runs(const OutcomeStudy& study) {
  std::vector<std::size_t> runs(study.all.runs.size());
  std::iota(runs.begin(), runs.end(), std::size_t{0});
  return runs;
}

/// The shown predictors with enough outcomes.
std::vector<std::size_t> drawn_predictors(const OutcomeStudy& study) {
  std::vector<std::size_t> drawn = shown_predictors(study.all);
  const std::vector<std::size_t> runs = all_runs(study);
  std::erase_if(drawn, [&](std::size_t p) { return !count_outcomes(scored(study.all, p, runs)).enough(); });
  return drawn;
}

LineStyle chance_style() { return {.colour = kMutedInk, .dash = "(6,4)", .line_width = 0.7}; }

/// Whether the predictor is a combination, whose value is a chance of failure.
bool is_chance(const Predictor& predictor) { return find_combination(predictor.name) != nullptr; }

Axis value_axis(const Predictor& predictor) {
  Axis axis{.label = "its value"};
  if (predictor.scale == Predictor::Scale::deficit) axis.scale = Scale::deficit;
  if (predictor.scale == Predictor::Scale::logarithmic) axis.scale = Scale::logarithmic;
  if (is_chance(predictor)) axis = {.label = "chance of failure (%)", .factor = kPerCent, .low = 0, .high = kPerCent};
  return axis;
}

/// Adds a row for each bin of the predictor's values.
void add_bins(const OutcomeStudy& study, std::size_t p, const std::vector<std::size_t>& runs, Table& table) {
  constexpr std::size_t kMaxBins = 10;
  constexpr double kConfidence = 0.95;
  const Predictor& predictor = study.all.predictors[p];
  std::vector<double> values;
  std::vector<bool> failed;
  for (const ScoredOutcome& outcome : scored(study.all, p, runs)) {
    values.push_back(predictor.value(outcome.score));
    failed.push_back(outcome.failed);
  }
  for (const CalibrationBin& bin : calibration_bins(values, failed, kMaxBins)) {
    const ShareInterval share = clopper_pearson(bin.failures, bin.runs, kConfidence);
    table.add_row({predictor.name, bin.median, bin.low, bin.high, static_cast<double>(bin.runs),
                   static_cast<double>(bin.failures), static_cast<double>(bin.failures) / static_cast<double>(bin.runs),
                   share.low, share.high});
  }
}

Panel calibration_panel(const Predictor& predictor, std::size_t index) {
  Panel panel{.title = panel_title(index, predictor.name),
              .x = value_axis(predictor),
              .y = {.label = "failed (%)", .factor = kPerCent, .low = 0, .high = kPerCent},
              .series = {}};
  panel.series.push_back({.curve = predictor.name,
                          .title = {},
                          .x = "value",
                          .y = "failed",
                          .bands = {{.low = "failed_low", .high = "failed_high", .opacity = 0, .bars = true}},
                          .style = line_style(0)});
  if (is_chance(predictor))
    panel.series.push_back({.curve = kChance,
                            .title = "as predicted",
                            .x = "value",
                            .y = "failed",
                            .style = chance_style(),
                            .mark = Mark::plain});
  return panel;
}

}  // namespace

Figure roc_figure(const OutcomeStudy& study) {
  Figure figure{.name = "failure_prediction_roc",
                .data = Table({{.name = kCurveColumn, .kind = kText},
                               {.name = "false_alarms"},
                               {.name = "caught"},
                               {.name = "threshold"}})};
  const std::vector<std::size_t> runs = all_runs(study), drawn = drawn_predictors(study);
  for (const bool spans : {true, false}) {
    Panel panel{.title = panel_title(figure.panels.size(), spans ? "with spans" : "without spans"),
                .x = {.label = "false alarms (%)", .factor = kPerCent, .low = 0, .high = kPerCent},
                .y = {.label = "failures caught (%)", .factor = kPerCent, .low = 0, .high = kPerCent},
                .series = {}};
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const Predictor& predictor = study.all.predictors[drawn[i]];
      if (predictor.needs_spans != spans) continue;
      for (const RocPoint& point : roc_curve(scored(study.all, drawn[i], runs)))
        figure.data.add_row({predictor.name, point.false_alarms, point.caught, predictor.value(point.threshold)});
      panel.series.push_back({.curve = predictor.name,
                              .title = predictor.name,
                              .x = "false_alarms",
                              .y = "caught",
                              .style = line_style(i),
                              .mark = Mark::plain});
    }
    if (panel.series.empty()) continue;
    panel.series.push_back({.curve = kChance,
                            .title = "a coin",
                            .x = "false_alarms",
                            .y = "caught",
                            .style = chance_style(),
                            .mark = Mark::plain});
    figure.panels.push_back(std::move(panel));
  }
  for (const double end : {0.0, 1.0}) figure.data.add_row({kChance, end, end, std::nan("")});
  figure.columns = 2;
  figure.panel_height_in = 1.5;
  figure.caption = fmt::format(
      "Failures that a threshold catches against right runs that it takes for failures, over all thresholds; {}. {} {}",
      study.source, run_words(), fewest_words());
  return figure;
}

std::vector<CalibrationBin> calibration_bins(const std::vector<double>& values, const std::vector<bool>& failed,
                                             std::size_t maximum) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<CalibrationBin> bins;
  for (std::size_t begin = 0; begin < order.size();) {
    const std::size_t left = maximum - std::min(maximum - 1, bins.size());  // bins that are to be filled
    std::size_t end = begin + (order.size() - begin + left - 1) / left;
    while (end < order.size() && values[order[end]] == values[order[end - 1]]) ++end;
    CalibrationBin bin{.low = values[order[begin]],
                       .high = values[order[end - 1]],
                       .median = values[order[begin + (end - begin - 1) / 2]],
                       .runs = static_cast<std::int64_t>(end - begin)};
    for (std::size_t i = begin; i < end; ++i) bin.failures += failed[order[i]] ? 1 : 0;
    bins.push_back(bin);
    begin = end;
  }
  return bins;
}

Figure calibration_figure(const OutcomeStudy& study) {
  constexpr std::size_t kMaxPanels = 6;
  Figure figure{.name = "failure_prediction_calibration",
                .note = "bars: 95 % intervals as if runs were independent",
                .data = Table({{.name = kCurveColumn, .kind = kText},
                               {.name = "value"},
                               {.name = "from"},
                               {.name = "to"},
                               {.name = "runs"},
                               {.name = "failures"},
                               {.name = "failed"},
                               {.name = "failed_low"},
                               {.name = "failed_high"}})};
  const std::vector<std::size_t> runs = all_runs(study), drawn = drawn_predictors(study);
  bool has_chances = false;
  for (const std::size_t p : std::span(drawn).first(std::min(kMaxPanels, drawn.size()))) {
    add_bins(study, p, runs, figure.data);
    figure.panels.push_back(calibration_panel(study.all.predictors[p], figure.panels.size()));
    has_chances |= is_chance(study.all.predictors[p]);
  }
  if (has_chances)
    for (const double end : {0.0, 1.0})
      figure.data.add_row({kChance, end, end, end, std::nan(""), std::nan(""), end, std::nan(""), std::nan("")});
  figure.columns = 2;
  figure.panel_height_in = 1.2;
  const std::string left =
      drawn.size() > kMaxPanels ? fmt::format(" The first {} of {} predictors.", kMaxPanels, drawn.size()) : "";
  figure.caption = fmt::format(
      "Share of failed runs by bins of a predictor, at the bin's median; {}. {} Bins hold about equal numbers of runs. "
      "Bars: exact binomial intervals (Clopper and Pearson, 95 %), which take runs for independent; those of one "
      "prompt are not, so that they are too short.{}",
      study.source, run_words(), left);
  return figure;
}

}  // namespace attest
