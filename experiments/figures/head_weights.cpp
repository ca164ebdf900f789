// Which heads the answer depends on, and how much of a selector's error is theirs.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/figures/head_weights_parts.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace head_weights_figure {

constexpr std::size_t kDrawnHeads = 5, kListedHeads = 8;

std::string head_text(const HeadPlace& place) { return head_in_words(place.first, place.second); }

std::vector<SelectorShares> selector_shares(const ModelStudy& study) {
  std::vector<SelectorShares> all;
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name == "exact") continue;
    const std::vector<HeadShares> of_settings = head_shares(study, selector);
    if (of_settings.empty()) continue;
    SelectorShares made{.curve = quality_curve(study, selector, {}, {}, kNoIntervals), .shares = {}};
    for (const QualityPoint& point : made.curve.points) made.shares.push_back(of_settings[point.setting]);
    if (!made.shares.empty()) all.push_back(std::move(made));
  }
  std::ranges::stable_partition(all, [](const SelectorShares& s) { return !s.curve.selector->is_oracle(); });
  return all;
}

Table heads_columns(const std::vector<WeighedHead>& heads, int group) {
  using Row = WeighedHead;
  const auto count = [](const char* name, const char* heading) { return Column{name, kNumber, heading, 0}; };
  return make_table<Row>(
      heads, {{{kCurveColumn, kText, "map"}, [](const Row&) { return kMapCurve; }},
              {count("rank", "rank"), [&](const Row& r) { return static_cast<double>(&r - heads.data() + 1); }},
              {count("layer", "layer"), [](const Row& r) { return static_cast<double>(r.place.first); }},
              {count("head", "head"), [](const Row& r) { return static_cast<double>(r.place.second); }},
              {count("kv_head", "KV head"), [=](const Row& r) { return static_cast<double>(r.place.second / group); }},
              {{"weight", kNumber, "weight", 4}, [](const Row& r) { return r.weight; }},
              {{"of_all", kNumber, "of all"}, [](const Row& r) { return r.of_all; }},
              {{"so_far", kNumber, "so far"}, [](const Row& r) { return r.so_far; }},
              {{"span_mass", kNumber, "span mass"}, [](const Row& r) { return r.span_mass; }}});
}

Figure map_figure(const ModelStudy& study, const HeadRanking& ranking, int group) {
  Figure figure{.name = "head_weights", .data = heads_columns(ranking.heads, group)};
  const bool spans = std::ranges::any_of(ranking.heads, [](const WeighedHead& h) { return !std::isnan(h.span_mass); });
  figure.caption = fmt::format(
      "(a) Weight of each head, the root mean square of the gradient of the answer's margins by its output, mean over "
      "{}{}; {}.",
      counted(ranking.prompts, "prompt"),
      spans ? "; (b) its exact attention mass on the evidence spans, mean over prompts and queries" : "",
      study.source());
  const auto add = [&](const char* title, const char* column, Axis colour) {
    figure.panels.push_back(
        {.title = title,
         .x = {.label = "layer", .whole_numbers = true},
         .y = {.label = "head", .whole_numbers = true},
         .series = {{.curve = kMapCurve, .title = {}, .x = "layer", .y = "head", .mark = Mark::cells, .value = column}},
         .show_x = !spans || figure.panels.size() == 1,
         .colour = std::move(colour)});
  };
  add("(a) weight (logits per unit of output)", "weight", {.label = {}, .low = 0});
  if (spans) add("(b) attention on the evidence", "span_mass", {.label = {}, .low = 0});
  return figure;
}

/// A head at a setting of a selector.
struct ShareRow : QualityRow {
  const HeadShares* shares;
  HeadPlace place;
  std::string name;  ///< of its curve

  double share() const { return shares->of(place); }
};

std::vector<ColumnOf<ShareRow>> share_columns() {
  using Row = ShareRow;
  return {{{"layer", kNumber, "layer", 0}, [](const Row& r) { return static_cast<double>(r.place.first); }},
          {{"head", kNumber, "head", 0}, [](const Row& r) { return static_cast<double>(r.place.second); }},
          {{"share", kNumber, "share"}, [](const Row& r) { return r.share(); }},
          {{"weighted_error", kNumber, "weighted error", 4}, [](const Row& r) { return r.shares->mean_error; }},
          {{"io_ratio", kNumber, "bytes read"}, [](const Row& r) { return r.point->io.mean; }}};
}

/// One panel per selector: the shares of the heads that weigh most.
Figure shares_figure(const ModelStudy& study, const std::vector<SelectorShares>& all, const HeadRanking& ranking) {
  const std::size_t drawn = std::min(all.size(), kWeighedPanels);
  const std::size_t heads = std::min(kDrawnHeads, ranking.heads.size());
  std::vector<ShareRow> rows;
  std::vector<Panel> panels;
  for (const SelectorShares& selector : std::span(all).first(drawn)) {
    Panel panel{.title = panel_title(panels.size(), legend_title(*selector.curve.selector)),
                .x = {.label = "bytes read (%)", .factor = 100, .scale = Scale::logarithmic},
                .y = {.label = "share (%)", .factor = 100, .low = 0, .high = 100},
                .series = {}};
    for (std::size_t h = 0; h < heads; ++h) {
      const HeadPlace place = ranking.heads[h].place;
      const std::string name = fmt::format("{} {}", selector.curve.name, head_text(place));
      for (std::size_t i = 0; i < selector.shares.size(); ++i)
        rows.push_back({{&selector.curve, &selector.curve.points[i]}, &selector.shares[i], place, name});
      panel.series.push_back(
          {.curve = name, .title = head_text(place), .x = "io_ratio", .y = "share", .style = line_style(h)});
    }
    panels.push_back(std::move(panel));
  }
  std::vector<ColumnOf<ShareRow>> columns{
      {{kCurveColumn, kText}, [](const ShareRow& r) { return r.name; }},
      {{"label", kText}, [](const ShareRow& r) { return r.group().label; }},
      {{"setting_label", kText}, [](const ShareRow& r) { return r.point->setting_label; }}};
  for (const ColumnOf<ShareRow>& column : share_columns()) columns.push_back(column);
  Figure figure{.name = "head_weights_error", .data = make_table<ShareRow>(rows, columns), .columns = 2};
  figure.panels = std::move(panels);
  figure.caption = fmt::format(
      "Share of the weighted error that each of the {} heads that weigh most has, against the bytes read at each "
      "setting{}; {}.",
      heads, all.size() > drawn ? fmt::format(" of {} of {} selectors", drawn, all.size()) : "", study.source());
  return figure;
}

NamedTable shares_table(const ModelStudy& study, const std::vector<SelectorShares>& all) {
  std::vector<ShareRow> rows;
  for (const SelectorShares& selector : all)
    for (std::size_t i = 0; i < selector.shares.size(); ++i) {
      const auto ranked = selector.shares[i].ranked();
      for (std::size_t h = 0; h < std::min(kListedHeads, ranked.size()); ++h)
        rows.push_back({{&selector.curve, &selector.curve.points[i]}, &selector.shares[i], ranked[h].first, {}});
    }
  std::vector<ColumnOf<ShareRow>> columns{
      {{"label", kText, "selector"}, [](const ShareRow& r) { return display_name(r.group().label); }},
      {{"setting", kText}, [](const ShareRow& r) { return display_name(r.point->setting_label); }}};
  for (const ColumnOf<ShareRow>& column : share_columns()) columns.push_back(column);
  return {
      "head_weights_errors",
      fmt::format("The {} heads with the largest shares of each selector's weighted error at each setting, and the "
                  "mean weighted error of the model, in logits; {}. A head's part of its layer is the square of its "
                  "error over the layer's root of the sum of squares.",
                  kListedHeads, study.source()),
      make_table<ShareRow>(rows, columns)};
}

Finding heads_finding(const HeadRanking& ranking, const std::string& label) {
  const WeighedHead& first = ranking.heads.front();
  std::string text = fmt::format(
      "The answer listens most to {}: {:.1f} % of the sum of all weights over {}; {} of {} heads have half of it.",
      head_text(first.place), 100 * first.of_all, counted(ranking.prompts, "prompt"), ranking.half(),
      ranking.heads.size());
  const auto maximum = std::ranges::max_element(
      ranking.heads, {}, [](const WeighedHead& h) { return std::isnan(h.span_mass) ? -1 : h.span_mass; });
  if (!std::isnan(maximum->span_mass))
    text += fmt::format(" The head with most attention on the evidence, {}, is number {} of them.",
                        head_text(maximum->place), maximum - ranking.heads.begin() + 1);
  return {.text = std::move(text),
          .number = fmt::format("{:.1f} % of weight", 100 * first.of_all),
          .place = MapPlace{.metric = "head_weight",
                            .selector = label,
                            .setting = {},
                            .layer = first.place.first,
                            .head = first.place.second}};
}

/// Where a selector's weighted error is, at the first of the shown settings. Nothing if there is no error.
std::optional<Finding> error_finding(const SelectorShares& selector) {
  const std::size_t setting = shown_settings(selector.group()).front();
  const auto point = std::ranges::find(selector.curve.points, setting, &QualityPoint::setting);
  if (point == selector.curve.points.end()) return std::nullopt;
  const HeadShares& shares = selector.shares[static_cast<std::size_t>(point - selector.curve.points.begin())];
  const auto ranked = shares.ranked();
  if (ranked.empty()) return std::nullopt;
  double sum = 0;
  std::size_t half = 0;
  while (half < ranked.size() && sum < 0.5) sum += ranked[half++].second;
  return Finding{.text = fmt::format("{}: weighted error {:.3g} logits on average, half of it in {}; most in {}, "
                                     "{:.1f} %.",
                                     named_setting(selector.group(), setting), shares.mean_error,
                                     counted(static_cast<std::int64_t>(half), "head"), head_text(ranked.front().first),
                                     100 * ranked.front().second),
                 .number = fmt::format("{:.3g} logits", shares.mean_error),
                 .place = MapPlace{.metric = "weighted_error_head",
                                   .selector = selector.group().label,
                                   .setting = point->setting_label,
                                   .layer = ranked.front().first.first,
                                   .head = ranked.front().first.second}};
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  const HeadRanking ranking = rank_by_weight(study);
  if (ranking.heads.empty())
    return Unsupported{
        "needs head weights: dumps of attest capture --head-weights, or attest run --weights; results of "
        "older versions lack them"};
  const PlacedSample first = study.samples().front();
  const int group = first.study_dump().shape.group();
  ExperimentResult result;
  result.findings.push_back(heads_finding(ranking, study.selectors().front().group.label));
  result.figures.push_back(map_figure(study, ranking, group));
  const std::vector<SelectorShares> all = selector_shares(study);
  for (const SelectorShares& selector : all)
    if (!selector.curve.selector->is_oracle())
      if (auto finding = error_finding(selector)) result.findings.push_back(std::move(*finding));
  if (all.empty()) return result;
  result.figures.push_back(shares_figure(study, all, ranking));
  result.tables.push_back(shares_table(study, all));
  ExperimentResult dense = kept_dense(study, all, ranking);
  std::ranges::move(dense.figures, std::back_inserter(result.figures));
  std::ranges::move(dense.tables, std::back_inserter(result.tables));
  std::ranges::move(dense.findings, std::back_inserter(result.findings));
  return result;
}

}  // namespace head_weights_figure

Experiment head_weights_experiment() {
  return {.name = "head_weights",
          .paper = "Which heads matter to the answer, and which errors do",
          .needs = "head weights",
          .make = head_weights_figure::make};
}

}  // namespace attest
