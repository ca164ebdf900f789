// Draws single settings.
#include "experiments/validation/setting_figure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/study_view/words.h"
#include "experiments/validation/evidence_plot.h"

namespace attest {
namespace {

constexpr const char* kCurve = "settings";

/// The settings from the safest to the one that passed, where these are several.
std::vector<ShadedRange> passed_range(const Judgement& judgement, const std::vector<EvidenceRow>& points) {
  if (!judgement.single.passed) return {};
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t i = 0; i <= *judgement.single.passed; ++i)
    if (std::isfinite(points[i].value)) {
      low = std::min(low, points[i].value);
      high = std::max(high, points[i].value);
    }
  if (!(low < high)) return {};
  return {{low, high}};
}

Panel cost_panel(const std::vector<Series>& evidence) {
  Panel panel{.title = {}, .x = {}, .y = {.label = "of dense (%)", .factor = 100, .low = 0}, .series = {}};
  struct Cost {
    const char *column, *title;
  };
  std::size_t style = 4;
  for (const Cost cost : {Cost{"keep_ratio", "tokens kept"}, Cost{"io_ratio", "bytes read"}})
    panel.series.push_back({.curve = evidence.front().curve,
                            .title = cost.title,
                            .x = "value",
                            .y = cost.column,
                            .style = line_style(style++),
                            .ring = "answer"});
  return panel;
}

std::string setting_caption(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  std::string what = fmt::format("share of prompts that violate, with its exact two-sided {:.6g} % interval",
                                 guarantee.confidence * 100);
  if (guarantee.kind == GuaranteeKind::prompts)
    what += fmt::format(
        "; dotted, the largest share that the prompts do not exclude at {:.6g} % confidence, which the "
        "verdict compares with the allowed one",
        guarantee.confidence * 100);
  if (guarantee.kind == GuaranteeKind::observed) what = "share of these prompts that violate";
  if (guarantee.kind == GuaranteeKind::mean) what = "mean over prompts of the deficit, not clipped";
  std::string budgets = std::ranges::any_of(judgement.set.selector.grid, &Setting::percent)
                            ? " Budgets in per cent are drawn as tokens of the longest prompt."
                            : "";
  const Validation& single = judgement.single;
  const bool certifies = guarantee.certifies();
  const std::string verdict =
      fmt::format("{} {}: {}",
                  !single.passed ? "Not shown at"
                  : certifies    ? "Certified"
                                 : "Shown at",
                  judgement.setting_text(single.about().setting), guarantee_sentence(judgement));
  return fmt::format("{}: {}; below, tokens kept and bytes read (means over prompts).{} {}. {}.",
                     display_name(judgement.set.selector.label), what, budgets, verdict, source_text(judgement));
}

}  // namespace

std::optional<Figure> setting_figure(const Judgement& judgement) {
  const std::vector<EvidenceRow> points = single_points(judgement);
  if (!judgement.set.has_choice() ||
      std::ranges::none_of(points, [](const EvidenceRow& row) { return std::isfinite(row.value); }))
    return std::nullopt;
  const Guarantee& guarantee = judgement.request.guarantee;
  const std::vector<EvidenceRow> rows = rows_of_curves(judgement, kCurve, points);
  Figure figure{
      .name = "validation", .caption = setting_caption(judgement), .data = evidence_table(judgement, rows, false)};
  const std::vector<ShadedRange> passed = passed_range(judgement, points);
  const std::string word = guarantee.certifies() ? "certified" : "shown";

  Panel evidence = evidence_panel(judgement, rows);
  evidence.series = evidence_series(
      judgement, kCurve, guarantee.kind == GuaranteeKind::mean ? "mean deficit" : "violating prompts", "value", 0);
  if (guarantee.kind == GuaranteeKind::prompts) {
    Series bound = evidence.series.front();
    bound.title = fmt::format("at most ({:.6g} % confidence)", guarantee.confidence * 100);
    bound.y = "share_at_most";
    bound.bands.clear();
    bound.ring.clear();
    bound.style.dash = "(1,2)";
    bound.style.point_size = 0.2;
    evidence.series.push_back(std::move(bound));
  }
  figure.panels.push_back(std::move(evidence));
  const auto has = [&](double EvidenceRow::*cost) {
    return std::ranges::any_of(points, [=](const EvidenceRow& row) { return std::isfinite(row.*cost); });
  };
  if (has(&EvidenceRow::keep) || has(&EvidenceRow::io)) figure.panels.push_back(cost_panel(figure.panels[0].series));
  for (Panel& panel : figure.panels) {
    panel.x = setting_axis(judgement);
    panel.shaded = passed;
    panel.show_x = &panel == &figure.panels.back();
  }
  figure.note = evidence_note(judgement);
  const auto add = [&](const std::string& text) { figure.note += "; " + text; };
  if (!passed.empty()) add("shaded: " + word);
  if (judgement.single.passed)
    figure.ring_title = judgement.setting_text(judgement.single.about().setting) + ", " + word;
  else
    add("nothing " + word);
  return figure;
}

}  // namespace attest
