// Figures and tables of span_attribution.
#include "experiments/figures/span_attribution_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "dumps/base/join.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

struct LossRow : QualityRow {
  const SpanLoss* loss;
};

std::vector<LossRow> loss_rows(const std::vector<LossCurve>& curves, bool of_papers) {
  std::vector<LossRow> rows;
  for (const LossCurve& curve : curves) {
    const std::vector<std::size_t> settings = shown_settings(curve.group());
    for (std::size_t i = 0; i < curve.losses.size(); ++i)
      if (!of_papers || std::ranges::count(settings, curve.curve.points[i].setting) > 0)
        rows.push_back({{&curve.curve, &curve.curve.points[i]}, &curve.losses[i]});
  }
  return rows;
}

Table loss_columns(const std::vector<LossRow>& rows) {
  return curves_table<LossRow>(
      rows,
      {{{"io_ratio"}, [](const LossRow& r) { return r.point->io.mean; }},
       {{"keep_ratio"}, [](const LossRow& r) { return r.point->keep.mean; }},
       {{"best_layer_lost_mean"}, [](const LossRow& r) { return r.loss->best_layer.mean; }},
       {{"best_layer_lost_worst"}, [](const LossRow& r) { return r.loss->best_layer.worst; }},
       {{"best_layer_worst_prompt", kText},
        [](const LossRow& r) { return display_name(r.loss->best_layer.worst_prompt); }},
       {{"model_lost_mean"}, [](const LossRow& r) { return r.loss->model.mean; }},
       {{"model_lost_worst"}, [](const LossRow& r) { return r.loss->model.worst; }},
       {{"model_worst_prompt", kText}, [](const LossRow& r) { return display_name(r.loss->model.worst_prompt); }},
       {{"prompts", kNumber, {}, 0}, [](const LossRow& r) { return static_cast<double>(r.loss->best_layer.prompts); }},
       {{"model_prompts", kNumber, {}, 0}, [](const LossRow& r) { return static_cast<double>(r.loss->model.prompts); }},
       {{"default", kNumber, {}, 0}, [](const LossRow& r) { return r.point->is_paper_setting ? 1.0 : 0.0; }}});
}

/// Prompts with spans, and how many of them tell of the whole model.
std::pair<int, int> prompts_of(const std::vector<LossCurve>& curves) {
  int prompts = 0, of_model = 0;
  for (const LossCurve& curve : curves)
    for (const SpanLoss& loss : curve.losses) {
      prompts = std::max(prompts, loss.best_layer.prompts);
      of_model = std::max(of_model, loss.model.prompts);
    }
  return {prompts, of_model};
}

std::string model_note(const std::vector<LossCurve>& curves) {
  const auto [prompts, of_model] = prompts_of(curves);
  if (of_model == prompts) return {};
  const std::string why = fmt::format(
      "of the others the results do not tell: their spans have more than {} tokens, or the file is of an older version",
      kMaxSpanTokens);
  return fmt::format(" The whole model: of {} of the {} prompts; {}.", of_model, prompts, why);
}

/// A selector's name, then the head's rank and place.
std::string head_curve(const HeadCurve& head) {
  return fmt::format("{} {} layer {} head {}", head.of->curve.name, head.rank, head.head.layer, head.head.head);
}

Table head_points(const std::vector<HeadCurve>& heads) {
  struct Row {
    const HeadCurve* head;
    const QualityPoint* point;
    const HeadKeep* keep;
  };
  std::vector<Row> rows;
  for (const HeadCurve& head : heads)
    for (std::size_t i = 0; i < head.points.size(); ++i)
      rows.push_back({&head, &head.of->curve.points[i], &head.points[i]});
  return make_table<Row>(
      rows, {{{kCurveColumn, kText}, [](const Row& r) { return head_curve(*r.head); }},
             {{"label", kText}, [](const Row& r) { return display_name(r.head->of->group().label); }},
             {{"rank"}, [](const Row& r) { return static_cast<double>(r.head->rank); }},
             {{"layer"}, [](const Row& r) { return static_cast<double>(r.head->head.layer); }},
             {{"head"}, [](const Row& r) { return static_cast<double>(r.head->head.head); }},
             {{"setting_label", kText}, [](const Row& r) { return display_name(r.point->setting_label); }},
             {{"setting_value"}, [](const Row& r) { return r.head->of->group().grid[r.point->setting].value; }},
             {{"keep_ratio"}, [](const Row& r) { return r.point->keep.mean; }},
             {{"span_mass_kept"}, [](const Row& r) { return r.keep->mass_kept; }},
             {{"span_mass_kept_worst_prompt"}, [](const Row& r) { return r.keep->worst_prompt; }},
             {{"span_mass_kept_worst_retrieval_prompt"}, [](const Row& r) { return r.keep->worst_retrieval_prompt; }},
             {{"span_keep"}, [](const Row& r) { return r.keep->span_keep; }}});
}

/// Index in `points` of the i-th setting of the methods' papers, in the order of tokens kept.
std::optional<std::size_t> paper_point(const HeadCurve& head, std::size_t i) {
  for (std::size_t p = 0; p < head.points.size(); ++p)
    if (head.of->curve.points[p].is_paper_setting && i-- == 0) return p;
  return std::nullopt;
}

std::string label_at(const HeadCurve& head, std::optional<std::size_t> point) {
  return point ? display_name(head.of->curve.points[*point].setting_label) : "";
}

double mass_at(const HeadCurve& head, std::optional<std::size_t> point) {
  return point ? head.points[*point].mass_kept : kNaN;
}

}  // namespace

std::optional<std::size_t> HeadCurve::min_point(bool retrieval_prompts) const {
  for (std::size_t i = 0; i < points.size(); ++i)
    if ((retrieval_prompts ? points[i].worst_retrieval_prompt : points[i].worst_prompt) >= kKeptMass) return i;
  return std::nullopt;
}

std::string head_in_words(const RetrievalHead& head) { return head_in_words(head.layer, head.head); }

Figure losses_figure(const ModelStudy& study, const std::vector<LossCurve>& curves, const std::set<int>& dense) {
  struct Shown {
    const char *column, *label;
  };
  std::vector<Shown> shown = {{"best_layer_lost_mean", "best layer, mean (%)"},
                              {"best_layer_lost_worst", "best layer, worst (%)"}};
  if (prompts_of(curves).second > 0) {
    shown.push_back({"model_lost_mean", "all layers, mean (%)"});
    shown.push_back({"model_lost_worst", "all layers, worst (%)"});
  }
  Figure figure{.name = "span_attribution",
                .note = "share of the evidence tokens that no head keeps",
                .ring_title = "settings of the papers",
                .data = loss_columns(loss_rows(curves, false)),
                .columns = 2};
  std::vector<QualityCurve> quality;
  for (const LossCurve& curve : curves)
    if (!curve.curve.whole_model) quality.push_back(curve.curve);
  for (const Shown& panel : shown) {
    Axis x = bytes_axis(quality);
    x.label = "bytes read (%)";
    figure.panels.push_back({.title = panel_title(figure.panels.size(), panel.label),
                             .x = x,
                             .y = {.label = {}, .factor = 100, .low = 0},
                             .series = {},
                             .show_x = figure.panels.size() + 2 >= shown.size()});
    for (const LossCurve& curve : curves)
      if (!curve.curve.whole_model)
        figure.panels.back().series.push_back(curve_series(study, curve.curve, panel.column));
  }
  figure.caption = fmt::format(
      "Evidence tokens that no query head keeps, against bytes; {}. Best layer: the one that loses least, for each "
      "query. All layers: no head of any of them keeps the token. A prompt's value is the mean over its queries; mean "
      "and worst over {}.{}{}",
      study.source(), counted(prompts_of(curves).first, "prompt"), without_dense(dense), model_note(curves));
  return figure;
}

Figure map_figure(const ModelStudy& study, const RetrievalRanking& ranking) {
  std::vector<RetrievalHead> heads = ranking.heads;
  std::ranges::sort(heads, {}, [](const RetrievalHead& h) { return std::pair(h.layer, h.head); });
  double maximum = 0;
  for (const RetrievalHead& head : heads) maximum = std::max(maximum, head.mass);
  Figure figure{.name = "span_attribution_map",
                .data = make_table<RetrievalHead>(
                    heads, {{{kCurveColumn, kText}, [](const RetrievalHead&) { return kMapCurve; }},
                            {{"layer"}, [](const RetrievalHead& h) { return static_cast<double>(h.layer); }},
                            {{"head"}, [](const RetrievalHead& h) { return static_cast<double>(h.head); }},
                            {{"span_mass"}, [](const RetrievalHead& h) { return h.mass; }}})};
  figure.panels = {
      {.title = "attention on the evidence (%)",
       .x = {.label = "layer", .whole_numbers = true},
       .y = {.label = "head", .whole_numbers = true},
       .series =
           {{.curve = kMapCurve, .title = {}, .x = "layer", .y = "head", .mark = Mark::cells, .value = "span_mass"}},
       .colour = Axis{.label = {}, .factor = 100, .low = 0, .high = std::max(1.0, 100 * maximum)}}};
  figure.caption = fmt::format(
      "Exact attention mass on the evidence spans of every head of every layer, mean over queries and samples: the "
      "retrieval heads stand out; {}, {} heads.",
      study.source(), heads.size());
  return figure;
}

Figure heads_figure(const ModelStudy& study, const std::vector<HeadCurve>& heads, const std::string& shown,
                    const ExperimentOptions& options) {
  constexpr std::size_t kDrawn = 5;
  Figure figure{.name = "span_attribution_curves", .data = head_points(heads), .columns = 2};
  const auto of = std::ranges::find(heads, shown, [](const HeadCurve& h) { return h.of->group().label; });
  const bool by_delta = of->of->group().kind == SettingKind::delta;
  for (const bool tokens : {false, true}) {
    Panel panel{.title = tokens ? "(b) span tokens kept" : "(a) span mass kept",
                .x = {.label = by_delta ? "δ" : "tokens kept (%)"},
                .y = tokens ? Axis{.label = {}, .low = 0, .high = 1.05} : quality_axis({}, options),
                .series = {}};
    if (!by_delta) panel.x.factor = 100;
    if (!tokens && !options.linear_axes) panel.y.floor = kMinSpanDeficit;
    for (const HeadCurve& head : heads)
      if (head.of->group().label == shown && head.rank <= kDrawn)
        panel.series.push_back({.curve = head_curve(head),
                                .title = head_in_words(head.head),
                                .x = by_delta ? "setting_value" : "keep_ratio",
                                .y = tokens ? "span_keep" : "span_mass_kept",
                                .style = line_style(head.rank - 1)});
    figure.panels.push_back(std::move(panel));
  }
  figure.caption = fmt::format(
      "What {} keeps of the evidence in the {} heads that put most exact attention on it; {}. (a) Part of their mass "
      "on the spans, over all prompts; (b) part of the spans' tokens, mean over prompts and queries.",
      display_name(shown), figure.panels[0].series.size(), study.source());
  return figure;
}

NamedTable losses_table(const ModelStudy& study, const std::vector<LossCurve>& curves) {
  std::vector<const StudySelector*> groups;
  for (const LossCurve& curve : curves) groups.push_back(&curve.group());
  return {
      "span_attribution_settings",
      fmt::format("Share of the evidence tokens that no query head keeps at the settings of the methods' papers: in "
                  "the layer that loses least, and in all layers together; mean over prompts and worst prompt; {}.{}{}",
                  study.source(), model_note(curves), without_paper_settings(groups, "all settings are shown")),
      loss_columns(loss_rows(curves, true))};
}

NamedTable heads_table(const ModelStudy& study, const RetrievalRanking& ranking, const std::vector<HeadCurve>& heads) {
  const auto count = [](const char* name, const char* heading) { return Column{name, kNumber, heading, 0}; };
  const auto prompts = static_cast<double>(ranking.prompts);
  using Row = HeadCurve;
  Table table = make_table<Row>(
      heads,
      {{{"label", kText, "selector"}, [](const Row& r) { return display_name(r.of->group().label); }},
       {count("rank", "rank"), [](const Row& r) { return static_cast<double>(r.rank); }},
       {count("layer", "layer"), [](const Row& r) { return static_cast<double>(r.head.layer); }},
       {count("head", "head"), [](const Row& r) { return static_cast<double>(r.head.head); }},
       {count("kv_head", "KV head"), [](const Row& r) { return static_cast<double>(r.head.kv_head); }},
       {{"dense", kText}, [](const Row& r) { return r.dense ? "yes" : ""; }},
       {{"span_mass", kNumber, "span mass"}, [](const Row& r) { return r.head.mass; }},
       {{"retrieval_share", kNumber, "prompts"},
        [](const Row& r) { return static_cast<double>(r.head.retrieval_prompts) / r.head.prompts; }},
       {{"covered_share", kNumber, "prompts so far"}, [=](const Row& r) { return r.head.covered_prompts / prompts; }},
       {{"cumulative_mass", kNumber, "mass so far"}, [](const Row& r) { return r.head.cumulative_mass; }},
       {{"paper_setting_1", kText, "setting"}, [](const Row& r) { return label_at(r, paper_point(r, 0)); }},
       {{"mass_kept_1", kNumber, "mass kept"}, [](const Row& r) { return mass_at(r, paper_point(r, 0)); }},
       {{"paper_setting_2", kText, "setting"}, [](const Row& r) { return label_at(r, paper_point(r, 1)); }},
       {{"mass_kept_2", kNumber, "mass kept"}, [](const Row& r) { return mass_at(r, paper_point(r, 1)); }},
       {{"least_setting_99", kText, "99 % everywhere"}, [](const Row& r) { return label_at(r, r.min_point(false)); }},
       {{"least_setting_99_retrieval", kText, "99 % where it retrieves"},
        [](const Row& r) { return label_at(r, r.min_point(true)); }}});
  return {
      "span_attribution_heads",
      fmt::format(
          "The {} heads that put most exact attention on the evidence spans, and what each selector keeps of it; {}. "
          "Prompts: share in which a query of the head puts {:g} or more on the span; so far: in which this head or "
          "one ranked before it does, and their share of the span mass of all heads. Mass kept: at settings of the "
          "methods' papers. The smallest setting that keeps 99 % of the span mass on every prompt, and on those in "
          "which the head puts {:g} or more on it; empty: none of the grid, or not measured.",
          std::min(kTopHeads, ranking.heads.size()), study.source(), kRetrievalMass, kRetrievalMass),
      std::move(table)};
}

}  // namespace attest
