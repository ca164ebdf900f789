// Draws the settings of units.
#include "experiments/validation/unit_figure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "experiments/study_view/words.h"
#include "experiments/validation/evidence_plot.h"
#include "experiments/validation/verdict_sentences.h"

namespace attest {
namespace {

constexpr const char* kUnits = "units";
constexpr const char* kFamily = "family";
constexpr const char* kSingle = "one for all";

/// The units of the shown assignment: those with a number as the setting, then those without by what they have instead.
std::vector<EvidenceRow> unit_rows(const Judgement& judgement, std::vector<std::string>& without_number) {
  const UnitValidation& units = *judgement.units;
  std::vector<EvidenceRow> rows;
  std::map<std::string, std::vector<EvidenceRow>> others;
  for (std::size_t u = 0; u < units.units.size(); ++u) {
    const std::size_t setting = units.about().assignment[u];
    EvidenceRow row{.curve = kUnits,
                    .setting = judgement.label(setting),
                    .value = setting_value(judgement, setting),
                    .layer = judgement.set.layers[units.units[u].row]};
    if (units.kind == UnitKind::kv_head) row.kv_head = units.units[u].kv_head;
    if (std::isfinite(row.value)) {
      rows.push_back(std::move(row));
    } else {
      row.curve = curve_name(row.setting);
      others[row.curve].push_back(std::move(row));
    }
  }
  for (auto& [curve, list] : others) {
    without_number.push_back(curve);
    rows.insert(rows.end(), list.begin(), list.end());
  }
  return rows;
}

/// Lowest and highest finite setting of the grid, so that colours mean the same in every figure of a study.
std::pair<double, double> grid_range(const Judgement& judgement) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t s = 0; s < judgement.set.selector.grid.size(); ++s)
    if (const double value = setting_value(judgement, s); std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  return low < high ? std::pair{low, high} : std::pair{low, low + 1};
}

Series marked(const std::string& curve, const std::string& x, const std::string& y) {
  LineStyle style{.colour = kInk, .dash = "solid", .point_type = 2, .line_width = 0.6, .point_size = 0.3};
  return {.curve = curve, .title = curve, .x = x, .y = y, .style = style, .mark = Mark::points};
}

Panel head_map(const Judgement& judgement, const std::vector<std::string>& without_number) {
  const Axis setting = setting_axis(judgement);
  const auto [low, high] = grid_range(judgement);
  Panel panel{
      .title = fmt::format("(a) {} by head",
                           judgement.set.candidates.empty() ? name_of(judgement.set.selector.kind) : "candidate"),
      .x = {.label = "KV head", .whole_numbers = true},
      .y = {.label = "layer", .whole_numbers = true},
      .series = {{.curve = kUnits, .title = {}, .x = "kv_head", .y = "layer", .mark = Mark::cells, .value = "value"}},
      .colour = Axis{.label = {}, .scale = setting.scale, .low = low, .high = high}};
  for (const std::string& curve : without_number) panel.series.push_back(marked(curve, "kv_head", "layer"));
  panel.x.low = -0.5;
  panel.x.high = static_cast<double>(judgement.set.shape.num_kv_heads) - 0.5;
  panel.y.low = judgement.set.layers.front() - 0.5;
  panel.y.high = judgement.set.layers.back() + 0.5;
  return panel;
}

Panel layer_points(const Judgement& judgement, const std::vector<std::string>& without_number) {
  Panel panel{.title = "(a) by layer",
              .x = {.label = "layer", .whole_numbers = true},
              .y = setting_axis(judgement),
              .series = {{.curve = kUnits,
                          .title = "chosen",
                          .x = "layer",
                          .y = "value",
                          .style = line_style(0),
                          .mark = Mark::points}}};
  for (const std::string& curve : without_number) {
    panel.series.push_back(marked(curve, "layer", "value"));
    panel.series.back().style.point_size = 0.5;
  }
  return panel;
}

std::vector<EvidenceRow> family_rows(const Judgement& judgement) {
  const UnitValidation& units = *judgement.units;
  std::vector<EvidenceRow> points;
  for (std::size_t m = 0; m < units.members.size(); ++m) {
    const JudgedAssignment& member = units.members[m];
    points.push_back({.curve = {},
                      .evidence = &member.evidence,
                      .keep = member.keep,
                      .io = member.io,
                      .answer = units.passed == m,
                      .slack = units.allocation ? std::nan("") : member.slack});
  }
  return rows_of_curves(judgement, kFamily, points);
}

std::string unit_caption(const Judgement& judgement) {
  const UnitValidation& units = *judgement.units;
  const std::string unit = units.kind == UnitKind::layer ? "layer" : "KV head";
  return fmt::format(
      "(a) the setting of each {} of {}, chosen on {} prompts{}; (b) the {} on {} other prompts, and one setting for "
      "all on all prompts: what violates against bytes read. {}: {}. {}.",
      unit, display_name(judgement.set.selector.label), units.choosing.size(),
      units.kind == UnitKind::layer ? ", with dense layers at the safest setting of the grid" : "",
      units.allocation ? "assignment within the io budget" : "family, from the safest member on",
      units.certifying.size(),
      capitalized(std::string(name_of(units.certainty))) +
          (units.passed || units.allocation ? "" : " even of the safest member"),
      guarantee_sentence(judgement), source_text(judgement));
}

}  // namespace

Figure unit_figure(const Judgement& judgement) {
  const UnitValidation& units = *judgement.units;
  std::vector<std::string> without_number;
  std::vector<EvidenceRow> rows = unit_rows(judgement, without_number);
  const auto [low, high] = grid_range(judgement);
  const double edge =
      judgement.set.selector.kind == SettingKind::factor || !judgement.set.candidates.empty() ? low : high;
  if (units.kind == UnitKind::layer)  // their marks need a place
    for (EvidenceRow& row : rows)
      if (!std::isfinite(row.value)) row.value = edge;
  const std::vector<EvidenceRow> family = family_rows(judgement),
                                 single = rows_of_curves(judgement, kSingle, single_points(judgement));
  std::vector<EvidenceRow> evidence = family;
  evidence.insert(evidence.end(), single.begin(), single.end());

  Panel way = evidence_panel(judgement, evidence);
  way.title = "(b) what it buys";
  way.x = {.label = "bytes read (% of dense)", .factor = 100};
  const std::size_t curves =
      judgement.request.guarantee.kind == GuaranteeKind::mean ? judgement.request.targets.size() : 1;
  way.series = evidence_series(judgement, kSingle, kSingle, "io_ratio", curves);
  for (Series& series : way.series) series.bands.clear();
  for (Series& series :
       evidence_series(judgement, kFamily, units.allocation ? "within the budget" : "family", "io_ratio", 0))
    way.series.push_back(std::move(series));
  rows.insert(rows.end(), evidence.begin(), evidence.end());
  Figure figure{.name = "validation_units",
                .caption = unit_caption(judgement),
                .ring_title = units.passed              ? std::string(name_of(units.certainty))
                              : judgement.single.passed ? std::string(name_of(judgement.single.certainty))
                                                        : "",
                .data = evidence_table(judgement, rows, true),
                .columns = 2,
                .panel_height_in = 1.4};
  figure.panels.push_back(units.kind == UnitKind::layer ? layer_points(judgement, without_number)
                                                        : head_map(judgement, without_number));
  figure.panels.push_back(std::move(way));
  figure.note = evidence_note(judgement);
  if (!units.passed) figure.note += fmt::format("; the {} did not pass", units.allocation ? "assignment" : "family");
  return figure;
}

}  // namespace attest
