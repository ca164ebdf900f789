// Figure "Guarantee": whether only tokens more than delta below the peak are dropped, and why not.
//
// The paper's claim: a token that is dropped has a score below m - delta, m the largest of the row. What holds is
// weaker. A dropped token j lies in a block whose largest estimate is below the threshold, so s^_j < m~ - delta,
// whatever the GQA policy. With the scan error e_j = s^_j - s_j:
//   s_j < m - delta + (m~ - m) - e_j
// Let gap = m - s_j for the best dropped token (metric dropped_gap) and v = delta - gap its shortfall. Where v > 0 the
// claim fails, and e_j < x - v with the excess x = m~ - m. Hence three causes:
//   x <= 0      scan error alone: e_j < -v, the pseudo-maximum was no stricter than the true one
//   0 < x < v   both: the excess is not enough, so that e_j < x - v < 0 was needed too
//   x >= v      the excess alone is enough: the token can be dropped without any scan error
// The results hold gaps of the pseudo-maximum (kernels/selectors/ffd.cpp), with f the largest exact score of the full
// blocks and p the pseudo-maximum from exact scores: thumbnail = f - m~, all = m - p, exact = f - p. So
//   m - m~ = (f - m~) + (m - p) - (f - p) = thumbnail + all - exact
// and under pseudo_max=exact or scan=exact, where m~ = p, m - m~ = all. Those of pseudo_max=global are not stored.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace guarantee_figure {

enum Cause : std::size_t { kScan, kBoth, kExcess, kCauses };

/// The cells of a layer, or of all, at one delta.
struct Gaps {
  std::int64_t cells = 0, dropping = 0;  ///< computed; of them with a dropped token
  std::vector<double> margins = {};      ///< gap - delta of the dropping ones, ascending
  std::array<std::int64_t, kCauses> broken{};

  void add(double gap, double below, double delta) {
    ++cells;
    if (std::isnan(gap)) return;
    ++dropping;
    margins.push_back(gap - delta);
    const double shortfall = delta - gap, excess = -below;
    if (shortfall > 0) ++broken[!(excess > 0) ? kScan : excess < shortfall ? kBoth : kExcess];
  }
  double share(std::int64_t count) const {
    return dropping > 0 ? static_cast<double>(count) / static_cast<double>(dropping) : kNaN;
  }
  double broken_share() const { return share(std::accumulate(broken.begin(), broken.end(), std::int64_t{0})); }
};

struct Row {
  const PooledSelector* selector = nullptr;
  std::size_t setting = 0;
  std::optional<int> layer = {};
  double delta = 0;  ///< nats
  Gaps gaps = {};

  std::string label() const { return display_name(selector->group.label); }
  const std::string& setting_label() const { return selector->group.setting_labels[setting]; }
  std::string curve() const {
    const std::string name = curve_name(selector->group.label);
    return layer ? fmt::format("{} at {} by layer", name, curve_name(setting_label())) : name;
  }
};

/// m - m~ as a sum of stored gaps with signs.
std::vector<std::pair<const char*, double>> terms_of_gap(const PooledSelector& ffd) {
  if (ffd.option("scan") == "exact" || ffd.option("pseudo_max") == "exact") return {{"pseudo_max_gap_all", 1}};
  return {{"pseudo_max_gap_thumbnail", 1}, {"pseudo_max_gap_all", 1}, {"pseudo_max_gap_exact", -1}};
}

bool is_usable(const PooledSelector& ffd) { return nats_per_delta(ffd) && !has_global_pseudo_max(ffd); }

/// Rows for each delta: first of the model, then of each layer.
std::vector<Row> rows_of(const ModelStudy& study, const PooledSelector& ffd) {
  const std::set<int> dense = study.dense_layers({ffd.group.label});
  const auto gaps = study.cells(ffd, "dropped_gap", dense);
  std::vector<SampleCells> below;  // m - m~
  bool first = true;
  for (const auto& [metric, sign] : terms_of_gap(ffd)) {
    const std::vector<SampleCells> term = study.cells(ffd, metric, dense).front();
    if (std::exchange(first, false)) {
      below = term;
    } else {
      // A sample that lacks one of the terms has no gap.
      std::erase_if(below, [&](SampleCells& b) {
        const auto other = std::ranges::find_if(term, [&](const SampleCells& t) { return same_cells(b, t); });
        if (other == term.end()) return true;
        for (std::size_t c = 0; c < b.values.size(); ++c) b.values[c] += static_cast<float>(sign) * other->values[c];
        return false;
      });
    }
  }
  std::vector<Row> rows;
  for (std::size_t s = 0; s < gaps.size(); ++s) {
    const double delta = ffd.group.grid[s].value * nats_per_delta(ffd).value();
    if (!std::isfinite(delta)) continue;  // nothing is dropped
    std::vector<Row> own = {{&ffd, s, {}, delta}};
    for (const int layer : layers_of(gaps[s])) own.push_back({&ffd, s, layer, delta});
    // Files without this setting have no cells in gaps[s].
    for (const SampleCells& sample : gaps[s]) {
      const auto match = std::ranges::find_if(below, [&](const SampleCells& b) { return same_cells(b, sample); });
      if (match == below.end()) continue;
      for (std::size_t y = 0; y < sample.layers.size(); ++y) {
        Row& layer = *std::ranges::find(own, std::optional(sample.layers[y]), &Row::layer);
        for (std::size_t c = 0; c < sample.layer(y).size(); ++c) {
          const auto gap = static_cast<double>(sample.layer(y)[c]), m = static_cast<double>(match->layer(y)[c]);
          layer.gaps.add(gap, m, delta);
          own.front().gaps.add(gap, m, delta);
        }
      }
    }
    for (Row& row : own) std::ranges::sort(row.gaps.margins);
    rows.insert(rows.end(), own.begin(), own.end());
  }
  // Rows of a curve are consecutive and ascending.
  std::ranges::stable_sort(rows, {}, [](const Row& r) { return std::pair(r.layer.has_value(), r.delta); });
  return rows;
}

Table table_of(const std::vector<Row>& rows) {
  const auto quantile_column = [](const char* name, double p) {
    return ColumnOf<Row>{{name}, [p](const Row& r) { return quantile_of_sorted(r.gaps.margins, p); }};
  };
  const auto share_column = [](const char* name, Cause cause) {
    return ColumnOf<Row>{{name}, [cause](const Row& r) { return r.gaps.share(r.gaps.broken[cause]); }};
  };
  return make_table<Row>(rows,
                         {{{kCurveColumn, kText}, [](const Row& r) { return r.curve(); }},
                          {{"label", kText}, [](const Row& r) { return r.label(); }},
                          {{"setting_label", kText}, [](const Row& r) { return display_name(r.setting_label()); }},
                          {{"delta_nats"}, [](const Row& r) { return r.delta; }},
                          {{"layer"}, [](const Row& r) { return r.layer ? static_cast<double>(*r.layer) : kNaN; }},
                          {{"cells"}, [](const Row& r) { return static_cast<double>(r.gaps.cells); }},
                          {{"cells_dropping"}, [](const Row& r) { return static_cast<double>(r.gaps.dropping); }},
                          quantile_column("margin_min", 0),
                          quantile_column("margin_p1", 0.01),
                          quantile_column("margin_p5", 0.05),
                          quantile_column("margin_p50", 0.5),
                          quantile_column("margin_p95", 0.95),
                          quantile_column("margin_max", 1),
                          {{"share_within_delta"}, [](const Row& r) { return r.gaps.broken_share(); }},
                          share_column("share_scan_error", kScan),
                          share_column("share_both", kBoth),
                          share_column("share_pseudo_max", kExcess)});
}

std::vector<Panel> panels_of(const Row& shown) {
  struct Shown {
    const char *column, *title;
    LineStyle style;
  };
  LineStyle all = line_style(6), scan = line_style(1), both = line_style(3), excess = line_style(2);
  const std::array shares = {Shown{"share_within_delta", "any cause", all},
                             Shown{"share_scan_error", "scan error alone", scan}, Shown{"share_both", "both", both},
                             Shown{"share_pseudo_max", "pseudo-max above max", excess}};
  const std::string by_delta = curve_name(shown.selector->group.label);
  const std::string by_layer = fmt::format("{} at {} by layer", by_delta, curve_name(shown.setting_label()));
  std::vector<Panel> panels;
  for (const bool layers : {false, true}) {
    const Axis x = layers ? Axis{.label = "layer", .whole_numbers = true} : Axis{.label = "δ (nats)"};
    const std::string column = layers ? "layer" : "delta_nats", curve = layers ? by_layer : by_delta;
    const std::string at = layers ? fmt::format(", δ = {:.3g}", shown.delta) : "";
    LineStyle median = line_style(0), minimum = line_style(0);
    minimum.dash = "(2,2)";
    panels.push_back({.title = fmt::format("({}) margin{}", layers ? 'c' : 'a', at),
                      .x = x,
                      .y = {.label = "gap − δ (nats)"},
                      .series = {{.curve = curve,
                                  .title = "median, 5–95 %",
                                  .x = column,
                                  .y = "margin_p50",
                                  .bands = {{"margin_p5", "margin_p95", 0.2}},
                                  .style = median},
                                 {.curve = curve, .title = "least", .x = column, .y = "margin_min", .style = minimum}},
                      .references = {{0, {}}}});
    panels.push_back({.title = fmt::format("({}) within δ{}", layers ? 'd' : 'b', at),
                      .x = x,
                      .y = {.label = "cells (%)", .factor = 100, .low = 0},
                      .series = {}});
    for (const Shown& share : shares)
      panels.back().series.push_back(
          {.curve = curve, .title = share.title, .x = column, .y = share.column, .style = share.style});
  }
  return panels;
}

Finding finding_of(const Row& row) {
  const Gaps& gaps = row.gaps;
  const std::string where = fmt::format("{} at delta {}", row.label(), row.setting_label());
  Finding finding{.text = {},
                  .severity = Severity::good,
                  .number = fmt::format("{:.1f} % broken", 100 * gaps.broken_share()),
                  .place = MapPlace{
                      .metric = "dropped_gap", .selector = row.selector->group.label, .setting = row.setting_label()}};
  if (gaps.dropping == 0) {
    finding.text = fmt::format("{} dropped nothing in any of {} cells.", where, gaps.cells);
    finding.severity = Severity::note;
    finding.number = "0 dropped";
    return finding;
  }
  const double closest = gaps.margins.front() + row.delta;
  if (gaps.broken_share() == 0) {
    finding.text = fmt::format(
        "{} dropped tokens in {} of {} cells, and none within delta of the peak: the closest lies "
        "{:.2f} nats below it.",
        where, gaps.dropping, gaps.cells, closest);
    return finding;
  }
  finding.severity = Severity::warning;
  finding.text = fmt::format(
      "The guarantee that only tokens more than delta below the peak are dropped fails in {:.1f} % of the {} cells "
      "where {} drops any: in {:.1f} % by scan error alone, in {:.1f} % because the pseudo-max exceeds the maximum, in "
      "{:.1f} % by both; the best dropped token lies {:.2f} nats below the peak (weight {:.2g} of the peak's).",
      100 * gaps.broken_share(), gaps.dropping, where, 100 * gaps.share(gaps.broken[kScan]),
      100 * gaps.share(gaps.broken[kExcess]), 100 * gaps.share(gaps.broken[kBoth]), closest, std::exp(-closest));
  return finding;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  std::vector<Row> rows;
  const PooledSelector* first = nullptr;
  for (const PooledSelector* ffd : top_delta_ffds(study)) {
    if (!is_usable(*ffd)) continue;
    const std::vector<Row> own = rows_of(study, *ffd);
    if (std::ranges::all_of(own, [](const Row& r) { return r.gaps.cells == 0; })) continue;
    if (!first) first = ffd;
    rows.insert(rows.end(), own.begin(), own.end());
  }
  if (!first)
    return Unsupported{"needs ffd at a delta in natural or base-2 units, its pseudo-max from sink and local blocks" +
                           left_out_for_settings_file(study),
                       "--selector ffd --delta 1:12:0.5"};
  const auto of_model = [&](const Row& r) { return r.selector == first && !r.layer; };
  const Row* shown = nullptr;  // with dropped tokens; at the papers' delta if it has any
  for (const Row& row : rows)
    if (of_model(row) && row.gaps.dropping > 0 && (!shown || row.setting == shown_delta(first->group))) shown = &row;
  if (!shown)
    return Unsupported{
        fmt::format("{} dropped nothing at any delta: contexts are too short for it", display_name(first->group.label)),
        "--selector ffd --delta 1:12:0.5"};

  ExperimentResult result;
  for (const Row& row : rows)
    if (&row == shown || (of_model(row) && is_paper_setting(first->group, row.setting)))
      result.findings.push_back(finding_of(row));
  result.figures.push_back(
      {.name = "guarantee",
       .caption = fmt::format(
           "Whether FFD ({}) drops only tokens more than delta below the peak. (a, c) How far the best dropped token "
           "lies below m - delta: below 0 the guarantee fails. (b, d) Share of the cells with a dropped token where it "
           "fails, by cause: a scan error, a pseudo-max above the true maximum, or both together; {}; {} cells, of "
           "which {} drop tokens at delta {}.",
           display_name(first->group.label), study.source(), shown->gaps.cells, shown->gaps.dropping,
           shown->setting_label()),
       .data = table_of(rows),
       .columns = 2,
       .panels = panels_of(*shown)});
  return result;
}

}  // namespace guarantee_figure

Experiment guarantee_experiment() {
  return {.name = "guarantee",
          .paper = "Section on top-delta selection: 'guarantees that we discard only tokens' below e^-delta",
          .needs = "ffd (rule=topdelta) with delta_unit=natural or log2",
          .make = guarantee_figure::make};
}

}  // namespace attest
