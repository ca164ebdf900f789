// Figure "Distribution of m - m~ by layer": how far FFD's pseudo-max lies below the true maximum, and how
// often it lies above.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace pseudo_max_gap_figure {

struct Variant {
  const char* metric;
  const char* name;   ///< in the csv
  const char* title;  ///< of its panel
};
constexpr std::array kVariants = {Variant{"pseudo_max_gap_exact", "exact", "(a) exact scores"},
                                  Variant{"pseudo_max_gap_all", "all", "(b) tail included"},
                                  Variant{"pseudo_max_gap_thumbnail", "thumbnail", "(c) thumbnails"}};

/// Statistics of the gaps of one layer, or of all layers.
struct Distribution {
  std::size_t cells = 0;
  double p5 = kNaN, p25 = kNaN, p50 = kNaN, p75 = kNaN, p95 = kNaN, min = kNaN, max = kNaN;
  double zero = kNaN, negative = kNaN;
  std::array<double, kPaperDeltas.size()> above{kNaN, kNaN};  ///< share of gaps larger than each delta
};

Distribution distribution_of(std::span<const SampleCells> samples) {
  const std::vector<double> gaps = values_of(samples);
  Distribution d{.cells = gaps.size()};
  if (gaps.empty()) return d;
  auto share = [&](auto holds) {
    return static_cast<double>(std::ranges::count_if(gaps, holds)) / static_cast<double>(gaps.size());
  };
  d.p5 = quantile(gaps, 0.05);
  d.p25 = quantile(gaps, 0.25);
  d.p50 = quantile(gaps, 0.5);
  d.p75 = quantile(gaps, 0.75);
  d.p95 = quantile(gaps, 0.95);
  d.min = std::ranges::min(gaps);
  d.max = std::ranges::max(gaps);
  d.zero = share([](double gap) { return gap == 0; });
  d.negative = share([](double gap) { return gap < 0; });
  for (std::size_t i = 0; i < kPaperDeltas.size(); ++i)
    d.above[i] = share([i](double gap) { return gap > kPaperDeltas[i]; });
  return d;
}

struct VariantGaps {
  const Variant* variant = nullptr;
  std::vector<int> layers;
  std::vector<Distribution> by_layer;
  Distribution pooled;
};

VariantGaps gaps_of(const ModelStudy& study, const PooledSelector& selector, const Variant& variant) {
  VariantGaps gaps{.variant = &variant, .layers = {}, .by_layer = {}, .pooled = {}};
  const std::vector<SampleCells> cells =
      study.cells(selector, variant.metric, study.dense_layers({selector.group.label})).front();
  gaps.pooled = distribution_of(cells);
  gaps.layers = layers_of(cells);
  for (int layer : gaps.layers) gaps.by_layer.push_back(distribution_of(of_layer(cells, layer)));
  return gaps;
}

Table table_of(const std::string& label, const std::vector<VariantGaps>& variants) {
  struct Row {
    std::string curve, label;
    const char* variant;
    double layer;
    const Distribution* gaps;
  };
  std::vector<Row> rows;
  for (const VariantGaps& gaps : variants) {
    const char* name = gaps.variant->name;
    for (std::size_t i = 0; i < gaps.layers.size(); ++i)
      rows.push_back({name, display_name(label), name, static_cast<double>(gaps.layers[i]), &gaps.by_layer[i]});
    rows.push_back({fmt::format("{} all layers", name), display_name(label), name, kNaN, &gaps.pooled});
  }

  return make_table<Row>(rows, {{{kCurveColumn, kText}, [](const Row& r) { return r.curve; }},
                                {{"label", kText}, [](const Row& r) { return r.label; }},
                                {{"variant", kText}, [](const Row& r) { return r.variant; }},
                                {{"layer"}, [](const Row& r) { return r.layer; }},
                                {{"cells"}, [](const Row& r) { return static_cast<double>(r.gaps->cells); }},
                                {{"p5"}, [](const Row& r) { return r.gaps->p5; }},
                                {{"p25"}, [](const Row& r) { return r.gaps->p25; }},
                                {{"p50"}, [](const Row& r) { return r.gaps->p50; }},
                                {{"p75"}, [](const Row& r) { return r.gaps->p75; }},
                                {{"p95"}, [](const Row& r) { return r.gaps->p95; }},
                                {{"min"}, [](const Row& r) { return r.gaps->min; }},
                                {{"max"}, [](const Row& r) { return r.gaps->max; }},
                                {{"share_zero"}, [](const Row& r) { return r.gaps->zero; }},
                                {{"share_negative"}, [](const Row& r) { return r.gaps->negative; }},
                                {{"share_above_5"}, [](const Row& r) { return r.gaps->above[0]; }},
                                {{"share_above_7"}, [](const Row& r) { return r.gaps->above[1]; }}});
}

std::vector<Panel> panels_of(const std::vector<VariantGaps>& variants) {
  const Axis layers{.label = "layer", .whole_numbers = true};
  double low = 0, high = kPaperDeltas[0];
  for (const VariantGaps& gaps : variants)
    for (const Distribution& d : gaps.by_layer) {
      low = std::min(low, d.p5);  // std::min and std::max ignore a NaN only as their second argument
      high = std::max(high, d.p95);
    }
  const double margin = (high - low) * 0.05;

  std::vector<Panel> panels;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    Panel panel{.title = variants[i].variant->title,
                .x = layers,
                .y = {.label = "gap (nats)", .low = low - margin, .high = high + margin},
                .series = {{.curve = variants[i].variant->name,
                            .title = {},
                            .x = "layer",
                            .y = "p50",
                            .bands = {{"p5", "p95", 0.15}, {"p25", "p75", 0.35}},
                            .style = line_style(i)}},
                .references = {{0, {}}, {kPaperDeltas[0], "δ = 5"}}};
    panel.show_x = i == 2;
    panel.show_y = i % 2 == 0;
    panels.push_back(std::move(panel));
  }
  LineStyle zero = line_style(0), above = line_style(1), negative = line_style(2);
  above.dash = "(6,2)";
  negative.dash = "(2,2)";
  panels.push_back(
      {.title = "(d) how often",
       .x = layers,
       .y = {.label = "share of cells (%)", .factor = 100, .low = 0, .high = 100},
       .series = {
           {.curve = "exact", .title = "(a) exactly 0", .x = "layer", .y = "share_zero", .style = zero},
           {.curve = "all", .title = "(b) above δ = 5", .x = "layer", .y = "share_above_5", .style = above},
           {.curve = "thumbnail", .title = "(c) negative", .x = "layer", .y = "share_negative", .style = negative}}});
  return panels;
}

std::vector<Finding> findings_of(const std::string& label, const std::vector<VariantGaps>& variants) {
  const Distribution &exact = variants[0].pooled, &all = variants[1].pooled, &thumbnail = variants[2].pooled;
  const auto place = [&](const char* variant) {
    return MapPlace{.metric = fmt::format("pseudo_max_gap_{}", variant), .selector = label, .setting = {}};
  };
  std::vector<Finding> findings;
  findings.push_back(
      {.text = fmt::format("From exact scores the pseudo-max of {} is the true maximum of the full blocks in {:.1f} % "
                           "of {} cells; it falls short by more than 5 nats in {:.1f} % (by {:.2g} at most).",
                           display_name(label), 100 * exact.zero, exact.cells, 100 * exact.above[0], exact.max),
       .number = fmt::format("{:.1f} % exact", 100 * exact.zero),
       .place = place("exact")});
  if (all.cells > 0)
    findings.push_back({.text = fmt::format("Against the maximum over all keys, the tail included, the pseudo-max of "
                                            "{} falls short by more than 5 nats in {:.1f} %.",
                                            display_name(label), 100 * all.above[0]),
                        .number = fmt::format("{:.1f} % short", 100 * all.above[0]),
                        .place = place("all")});
  if (thumbnail.cells > 0)
    findings.push_back(
        {.text =
             fmt::format("From thumbnails the pseudo-max of {} exceeds the true maximum in {:.1f} % of the cells, by "
                         "up to {:.2g} nats: there the threshold is stricter than the ideal one, and the paper's "
                         "fail-safe argument does not hold.",
                         display_name(label), 100 * thumbnail.negative, std::max(0.0, -thumbnail.min)),
         .severity = thumbnail.negative > 0 ? Severity::warning : Severity::good,
         .number = fmt::format("{:.1f} % exceed", 100 * thumbnail.negative),
         .place = place("thumbnail")});
  return findings;
}

/// The gaps depend only on the thumbnail and on sink and local blocks, from which a selector takes its pseudo-maximum
/// unless it is global. The first such one that scans thumbnails has all three variants.
const PooledSelector* chosen_selector(const ModelStudy& study) {
  const PooledSelector* chosen = nullptr;
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name != "ffd" || has_global_pseudo_max(selector)) continue;
    if (selector.option("scan") != "exact") return &selector;
    if (!chosen) chosen = &selector;
  }
  return chosen;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  const PooledSelector* selector = chosen_selector(study);
  if (!selector)
    return Unsupported{first_selector(study, "ffd") ? "needs ffd with a pseudo-maximum of sink and local blocks"
                                                    : "needs the selector ffd",
                       "--selector ffd"};
  std::vector<VariantGaps> variants;
  for (const Variant& variant : kVariants) variants.push_back(gaps_of(study, *selector, variant));
  if (variants[0].pooled.cells == 0)
    return Unsupported{"every context is shorter than a block, or the results lack the pseudo_max_gap metrics"};

  const std::string& label = selector->group.label;
  Figure figure{.name = "pseudo_max_gap", .data = table_of(label, variants)};
  figure.caption = fmt::format(
      "How far the pseudo-max of FFD (label {}) lies below the maximal exact score, by layer; {}. (a) "
      "over the full blocks; (b) over all visible keys, tail included; (c) as (a), the pseudo-max taken from "
      "thumbnails: below 0 the threshold is stricter than the ideal one.",
      label, study.source());
  figure.note = "gap: max − pseudo-max; median, 25–75 % and 5–95 %";
  figure.columns = 2;
  figure.panel_height_in = 1.1;
  figure.panels = panels_of(variants);
  ExperimentResult result;
  result.figures.push_back(std::move(figure));
  result.findings = findings_of(label, variants);
  return result;
}

}  // namespace pseudo_max_gap_figure

Experiment pseudo_max_gap_experiment() {
  return {.name = "pseudo_max_gap",
          .paper = "Figure 'Distribution of the approximation error m - m~ by layer'",
          .needs = "ffd, with scan=thumbnail for the thumbnail variant",
          .make = pseudo_max_gap_figure::make};
}

}  // namespace attest
