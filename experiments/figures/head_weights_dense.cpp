// Which KV heads must stay dense: the weighted error that is left, and the bytes that it takes.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/join.h"
#include "experiments/figures/head_weights_parts.h"
#include "experiments/study_view/kept_dense.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

/// A selector at one setting.
struct Kept {
  const SelectorShares* selector = nullptr;
  std::size_t setting = 0;
  std::vector<DenseCurve> curves;
};

struct Row {
  const Kept* of = nullptr;
  const DenseCurve* curve = nullptr;
  const DensePoint* point = nullptr;

  std::string name() const { return fmt::format("{} {}", of->selector->curve.name, name_of(curve->by)); }
};

std::vector<Kept> kept_of(const ModelStudy& study, const std::vector<SelectorShares>& selectors,
                          const HeadRanking& weights) {
  std::vector<Kept> all;
  for (const SelectorShares& selector : selectors) {
    const std::size_t setting = shown_settings(selector.group()).front();
    Kept kept{&selector, setting, dense_curves(study, *selector.curve.selector, setting, weights)};
    if (!kept.curves.empty() && kept.curves.front().points.front().mean_error > 0) all.push_back(std::move(kept));
  }
  return all;
}

/// "7:1+5:0": the first heads of the curve's order at a point, as the option dense_heads has them.
std::string heads_text(const DenseCurve& curve, const DensePoint& point) {
  std::vector<std::string> heads;
  for (std::size_t i = 0; i < point.count && i < curve.order.size(); ++i)
    heads.push_back(fmt::format("{}:{}", curve.order[i].first, curve.order[i].second));
  return join(heads, "+");
}

std::vector<Row> rows_of(const std::vector<Kept>& all) {
  std::vector<Row> rows;
  for (const Kept& kept : all)
    for (const DenseCurve& curve : kept.curves)
      for (const DensePoint& point : curve.points) rows.push_back({&kept, &curve, &point});
  return rows;
}

Table columns_of(const std::vector<Row>& rows) {
  return make_table<Row>(
      rows,
      {{{kCurveColumn, kText, "curve"}, [](const Row& r) { return r.name(); }},
       {{"label", kText, "selector"}, [](const Row& r) { return display_name(r.of->selector->group().label); }},
       {{"setting", kText}, [](const Row& r) { return setting_in_words(r.of->selector->group(), r.of->setting); }},
       {{"by", kText}, [](const Row& r) { return std::string(name_of(r.curve->by)); }},
       {{"dense_kv_heads", kNumber, "dense KV heads", 0},
        [](const Row& r) { return static_cast<double>(r.point->count); }},
       {{"io_ratio", kNumber, "bytes read"}, [](const Row& r) { return r.point->io; }},
       {{"weighted_error_mean", kNumber, "weighted error, mean", 4}, [](const Row& r) { return r.point->mean_error; }},
       {{"weighted_error_max", kNumber, "max", 4}, [](const Row& r) { return r.point->largest_error; }},
       {{"dense_heads", kText}, [](const Row& r) { return heads_text(*r.curve, *r.point); }}});
}

std::string caption(const ModelStudy& study, const std::vector<Kept>& shown) {
  std::vector<const StudySelector*> groups;
  for (const Kept& kept : shown) groups.push_back(&kept.selector->group());
  return fmt::format(
      "Weighted error that is left, and bytes read, when the first 0, 1, 2, 4, 8, ... KV heads stay dense, by the "
      "order that chooses them: weight, mean output error, exact attention on the evidence, or chance (mean of 50 "
      "draws); each selector at the first of its paper's settings; {}. Chosen and judged on the same prompts.{}",
      study.source(), without_paper_settings(groups, "the first setting is shown"));
}

Figure figure_of(const ModelStudy& study, const std::vector<Kept>& all) {
  const std::vector<Kept> drawn(all.begin(),
                                all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kWeighedPanels)));
  Figure figure{
      .name = "head_weights_dense", .caption = caption(study, drawn), .data = columns_of(rows_of(drawn)), .columns = 2};
  for (const Kept& kept : drawn) {
    const std::string at = kept.selector->group().setting_labels[kept.setting];
    Panel panel{
        .title = panel_title(figure.panels.size(), fmt::format("{}{}{}", legend_title(*kept.selector->curve.selector),
                                                               at.empty() ? "" : ", ", at)),
        .x = {.label = "bytes read (%)", .factor = 100},
        .y = {.label = "weighted error (logits)", .low = 0},
        .series = {}};
    for (const DenseCurve& curve : kept.curves)
      panel.series.push_back({.curve = Row{&kept, &curve, nullptr}.name(),
                              .title = fmt::format("by {}", name_of(curve.by)),
                              .x = "io_ratio",
                              .y = "weighted_error_mean",
                              .style = line_style(static_cast<std::size_t>(curve.by))});
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

/// Says what one more KV head gives, by weight and by output error.
Finding finding_of(const Kept& kept) {
  const DenseCurve& by_weight = kept.curves.front();
  const DensePoint &none = by_weight.points.front(), &one = by_weight.points[1];
  std::string text = fmt::format(
      "{}: keeping the KV head that weighs most dense (dense_heads={}) takes the mean weighted error from {:.3g} "
      "to {:.3g} logits",
      named_setting(kept.selector->group(), kept.setting), heads_text(by_weight, one), none.mean_error, one.mean_error);
  if (!std::isnan(none.io)) text += fmt::format(", and the bytes from {:.1f} to {:.1f} %", 100 * none.io, 100 * one.io);
  const auto other = std::ranges::find(kept.curves, DenseBy::output_error, &DenseCurve::by);
  if (other != kept.curves.end())
    text += fmt::format("; the one of largest output error ({}) to {:.3g}", heads_text(*other, other->points[1]),
                        other->points[1].mean_error);
  return {.text = text + ".", .number = fmt::format("{:.3g} logits", one.mean_error)};
}

}  // namespace

ExperimentResult kept_dense(const ModelStudy& study, const std::vector<SelectorShares>& selectors,
                            const HeadRanking& weights) {
  const std::vector<Kept> all = kept_of(study, selectors, weights);
  if (all.empty()) return {};
  ExperimentResult result{.figures = {figure_of(study, all)},
                          .tables = {{"head_weights_kept_dense", caption(study, all), columns_of(rows_of(all))}}};
  if (all.front().curves.front().points.size() > 1) result.findings.push_back(finding_of(all.front()));
  return result;
}

}  // namespace attest
