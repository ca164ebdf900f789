// Figure "Error bound": the concentration theorem and the false-negative bound beside what is measured.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/scan_bound_study.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/study_dumps.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace error_bound_figure {

struct Row {
  double layer = kNaN;  ///< NaN: all layers
  const LayerBounds* bounds = nullptr;
  double lambda = 0;
  std::size_t i = 0;

  const BoundSums& sums() const { return bounds->at[i]; }
  double per_row(double sum) const { return sum / static_cast<double>(bounds->rows); }
  double per_token(double sum) const { return sums().salient > 0 ? sum / sums().salient : kNaN; }
};

std::string layers_curve(double lambda) { return fmt::format("lambda {:g} by layer", lambda); }

std::vector<Row> rows_of(const ScanBoundStudy& bounds) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < bounds.lambdas.size(); ++i) rows.push_back({kNaN, &bounds.pooled, bounds.lambdas[i], i});
  for (std::size_t i = 0; i < bounds.lambdas.size(); ++i)
    for (const auto& [layer, own] : bounds.layers)
      rows.push_back({static_cast<double>(layer), &own, bounds.lambdas[i], i});
  return rows;
}

Table table_of(const std::vector<Row>& rows) {
  std::vector<ColumnOf<Row>> columns = {
      {{kCurveColumn, kText},
       [](const Row& r) { return std::isnan(r.layer) ? std::string("all layers") : layers_curve(r.lambda); }},
      {{"layer"}, [](const Row& r) { return r.layer; }},
      {{"lambda"}, [](const Row& r) { return r.lambda; }}};
  const auto add_mean = [&](const char* name, double BoundSums::*sum) {
    columns.push_back({{name}, [sum](const Row& r) { return r.per_row(r.sums().*sum); }});
  };
  add_mean("tail", &BoundSums::tail);
  add_mean("tail_bound_block", &BoundSums::bound_block);
  add_mean("tail_bound_paper", &BoundSums::bound_paper);
  add_mean("rows_above_bound_block", &BoundSums::above_block);
  add_mean("rows_above_bound_paper", &BoundSums::above_paper);
  add_mean("lower_tail", &BoundSums::lower_tail);
  add_mean("lower_tail_bound_block", &BoundSums::lower_bound_block);
  add_mean("lower_tail_bound_paper", &BoundSums::lower_bound_paper);
  columns.push_back({{"delta"}, [](const Row& r) { return r.per_row(r.bounds->delta); }});
  columns.push_back({{"salient_tokens"}, [](const Row& r) { return r.sums().salient; }});
  const auto add_share = [&](const char* name, double BoundSums::*sum) {
    columns.push_back({{name}, [sum](const Row& r) { return r.per_token(r.sums().*sum); }});
  };
  add_share("missed", &BoundSums::missed);
  add_share("dropped", &BoundSums::dropped);
  add_share("missed_bound_block", &BoundSums::missed_bound_block);
  add_share("missed_bound_paper", &BoundSums::missed_bound_paper);
  const auto of_layer = [&](const char* name, double LayerBounds::*value, bool mean) {
    columns.push_back(
        {{name}, [value, mean](const Row& r) { return mean ? r.per_row(r.bounds->*value) : r.bounds->*value; }});
  };
  of_layer("alpha_mean", &LayerBounds::alpha, true);
  of_layer("alpha_min", &LayerBounds::alpha_min, false);
  of_layer("alpha_max", &LayerBounds::alpha_max, false);
  of_layer("sigma_eff_block", &LayerBounds::sigma_block, true);
  of_layer("sigma_eff_paper", &LayerBounds::sigma_paper, true);
  columns.push_back({{"rows"}, [](const Row& r) { return static_cast<double>(r.bounds->rows); }});
  return make_table<Row>(rows, columns);
}

/// The lambda at which layers are shown: the one nearest to 1.
double shown_lambda(const std::vector<double>& lambdas) {
  return *std::ranges::min_element(lambdas, {}, [](double lambda) { return std::abs(lambda - 1); });
}

std::vector<Panel> panels_of(double lambda) {
  constexpr double kMinShare = 1e-6;
  struct Shown {
    const char *column, *title;
    std::size_t style;
  };
  const std::vector<Shown> tails = {{"tail", "measured", 0},
                                    {"lower_tail", "measured, lower", 3},
                                    {"tail_bound_block", "bound, steps of blocks", 1},
                                    {"tail_bound_paper", "bound, paper", 2}};
  const std::vector<Shown> misses = {{"missed", "estimate too low", 4},
                                     {"dropped", "block dropped", 5},
                                     {"missed_bound_block", "bound, steps of blocks", 1},
                                     {"missed_bound_paper", "bound, paper", 2}};
  const std::vector<Shown> alphas = {{"alpha_mean", "alpha", 6}};
  std::vector<Panel> panels;
  const auto add = [&](const std::string& title, bool layers, const char* label, const std::vector<Shown>& series) {
    Panel panel{.title = title,
                .x = layers ? Axis{.label = "layer", .whole_numbers = true} : Axis{.label = "λ (nats)"},
                .y = {.label = label, .scale = Scale::logarithmic},
                .series = {}};
    if (&series != &alphas) panel.y.floor = kMinShare;
    for (const Shown& shown : series) {
      panel.series.push_back({.curve = layers ? layers_curve(lambda) : "all layers",
                              .title = shown.title,
                              .x = layers ? "layer" : "lambda",
                              .y = shown.column,
                              .style = line_style(shown.style)});
      if (std::string_view(shown.column).find("bound") != std::string_view::npos)
        panel.series.back().style.dash = "(4,2)";
    }
    panels.push_back(std::move(panel));
  };
  add("(a) scan error ≥ λ", false, "share of tokens", tails);
  add("(b) false negatives", false, "share of tokens", misses);
  add(fmt::format("(c) λ = {:g}", lambda), true, "share of tokens", tails);
  add("(d) norm(q)/√D", true, "alpha", alphas);
  panels.back().series.front().bands = {{"alpha_min", "alpha_max", 0.2}};
  return panels;
}

/// The largest lambda up to which the bound with the steps of each block says nothing: at least 99 %.
double vacuous_up_to(const std::vector<Row>& rows) {
  constexpr double kNoBound = 0.99;
  double lambda = 0;
  for (const Row& r : rows)
    if (std::isnan(r.layer) && r.per_row(r.sums().bound_block) >= kNoBound) lambda = std::max(lambda, r.lambda);
  return lambda;
}

std::vector<Finding> findings_of(const std::string& label, const std::string& setting, bool in_nats,
                                 const std::vector<Row>& rows, double lambda) {
  std::vector<Finding> findings;
  const auto at_shown = [&](const Row& r) { return std::isnan(r.layer) && r.lambda == lambda; };
  const Row& all = *std::ranges::find_if(rows, at_shown);
  const BoundSums& sums = all.sums();
  const LayerBounds& bounds = *all.bounds;
  const double nothing = vacuous_up_to(rows);
  const std::string vacuous =
      nothing > 0 ? fmt::format("; up to lambda {:g} it is at least 99 %, no bound at all", nothing) : "";
  findings.push_back(
      {.text = fmt::format(
           "The scan error of {} is at least {:g} nats for {} of the tokens; the bound allows {} with the "
           "steps of each block, {} in the paper's form (largest step){}.",
           label, lambda, percent_in_words(all.per_row(sums.tail)), percent_in_words(all.per_row(sums.bound_block)),
           percent_in_words(all.per_row(sums.bound_paper)), vacuous),
       .severity = sums.tail > sums.bound_paper ? Severity::warning : Severity::note,
       .number = percent_in_words(all.per_row(sums.tail)) + " beyond",
       .place = MapPlace{.metric = "scan_error_tail", .selector = label, .setting = {}}});

  std::vector<std::string> places;
  double above_block = 0, above_paper = 0;
  for (const Row& r : rows) {
    if (std::isnan(r.layer)) {
      above_block = std::max(above_block, r.per_row(r.sums().above_block));
      above_paper = std::max(above_paper, r.per_row(r.sums().above_paper));
    } else if (r.sums().tail > r.sums().bound_block) {
      places.push_back(fmt::format("layer {:g} at {:g}", r.layer, r.lambda));
    }
  }
  constexpr std::size_t kMax = 6;
  const std::size_t total = places.size();
  findings.push_back(
      {.text =
           total == 0
               ? fmt::format(
                     "In no layer and at no lambda does the mean measured tail exceed the bound with the steps of "
                     "each block; in single rows (query, head) it does in up to {} (paper's form: {}).",
                     percent_in_words(above_block), percent_in_words(above_paper))
               : fmt::format("The mean measured tail exceeds the bound with the steps of each block in {}; in single "
                             "rows (query, head) in up to {} (paper's form: {}): the noise is not both independent and "
                             "of mean zero there.",
                             first_few(places, kMax), percent_in_words(above_block), percent_in_words(above_paper)),
       .severity = total == 0 ? Severity::good : Severity::warning,
       .number = fmt::format("{} exceeded", total)});
  findings.push_back(
      {.text = fmt::format(
           "alpha = norm(q)/sqrt(D) is {:.3g} in the mean, from {:.3g} to {:.3g} over rows; the paper takes "
           "about 1. Its bound contains no D: sigma_eff is {:.3g} nats in the paper's form and {:.3g} with "
           "the steps of each block.",
           all.per_row(bounds.alpha), bounds.alpha_min, bounds.alpha_max, all.per_row(bounds.sigma_paper),
           all.per_row(bounds.sigma_block)),
       .number = fmt::format("alpha {:.3g}", all.per_row(bounds.alpha))});
  if (sums.salient == 0) return findings;
  const std::string nats = in_nats ? "" : fmt::format(" as typed, {:.3g} nats", all.per_row(bounds.delta));
  const bool worse = sums.missed > sums.missed_bound_block;
  findings.push_back(
      {.text = fmt::format(
           "At margin {:g} (delta {}{}): of {:.0f} tokens within delta - {:g} of the peak {} have estimates below the "
           "threshold, where the bound allows {} (steps of each block; paper's form {}); the blocks of {} are dropped.",
           lambda, setting, nats, sums.salient, lambda, percent_in_words(all.per_token(sums.missed)),
           percent_in_words(all.per_token(sums.missed_bound_block)),
           percent_in_words(all.per_token(sums.missed_bound_paper)), percent_in_words(all.per_token(sums.dropped))),
       .severity = worse ? Severity::warning : Severity::note,
       .number = percent_in_words(all.per_token(sums.missed)) + " missed",
       .place = MapPlace{.metric = "salient_hit_rate", .selector = label, .setting = setting}});
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::string run_options = "--selector ffd --delta 5";
  const PooledSelector* ffd =
      first_top_delta_ffd(study, [](const PooledSelector& selector) { return selector.option("scan") != "exact"; });
  if (!ffd)
    return Unsupported{"needs ffd with scan=thumbnail at a delta, and the dump" + left_out_for_settings_file(study),
                       run_options};
  const std::size_t setting = shown_delta(ffd->group);
  const ScanBoundStudy& bounds = options.scan_bounds->of(study, *ffd, setting);
  if (!bounds.problem.empty()) return Unsupported{fmt::format("needs the dump of the study: {}", bounds.problem)};
  if (bounds.pooled.rows == 0 || bounds.lambdas.empty())
    return Unsupported{"no full block in any layer: every context is shorter than a block", run_options};

  const std::vector<Row> rows = rows_of(bounds);
  const double lambda = shown_lambda(bounds.lambdas);
  const std::string label = display_name(ffd->group.label);
  const std::string setting_label = display_name(ffd->group.setting_labels[setting]);
  ExperimentResult result{.findings = findings_of(label, setting_label, nats_per_delta(*ffd) == 1, rows, lambda)};
  result.figures.push_back(
      {.name = "error_bound",
       .caption = fmt::format(
           "Scan error of {} beside its concentration bound 2 exp(-lambda^2 / (2 sigma_eff^2)), with the steps of each "
           "block and in the paper's form (the largest step of the head), and false negatives at margin lambda beside "
           "theirs (delta {}); {}; {} rows (layer, query, head){}. alpha: mean, and range over rows.",
           label, setting_label, study.source(), bounds.pooled.rows, not_hashed_text(bounds.hashed)),
       .note = "means over rows; bounds dashed; alpha: mean and range",
       .data = table_of(rows),
       .columns = 2,
       .panels = panels_of(lambda)});
  return result;
}

}  // namespace error_bound_figure

Experiment error_bound_experiment() {
  return {.name = "error_bound",
          .paper = "Theorem 'Concentration of Scanning Error' and the bound of false negatives",
          .needs = "ffd (scan=thumbnail, rule=topdelta), and the dump where the study read it",
          .make = error_bound_figure::make};
}

}  // namespace attest
