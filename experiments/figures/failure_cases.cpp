// Table "Failure-case profiling": what flat and multi-peaked heads do to keep ratio and hit rate.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace failure_cases_figure {

constexpr double kDelta = kPaperDeltas[0];

struct PairClass {
  const char* name;   ///< in the csv
  const char* title;  ///< in the legend
  std::vector<Pair> FailureCases::*members;
};
constexpr std::array kClasses = {
    PairClass{"regular", "regular", &FailureCases::regular},
    PairClass{"proxy-error", "proxy-error: at or below one limit", &FailureCases::proxy_error},
    PairClass{"high-error", "high-error: at or below both", &FailureCases::high_error}};

/// A metric that is averaged over the pairs of a class. It is not defined where a selector lacks it.
struct ClassMetric {
  const char* metric;
  Column column;
  double factor;
  PairValue reduce = PairValue::mean;
};
const std::vector<ClassMetric>& class_metrics() {
  static const std::vector<ClassMetric> metrics = {
      {"keep_ratio", {"keep_percent", kNumber, "keep (%)", 2}, 100},
      {"salient_hit_rate", {"hit_rate_percent", kNumber, "salient hits (%)", 2}, 100},
      {"missed_salient_mass", {"missed_mass_percent", kNumber, "missed mass (%)", 3}, 100},
      {"lse_error", {"lse_error_max", kNumber, "max LSE error (nats)", 3}, 1, PairValue::max},
      {"pseudo_max_gap_exact", {"pseudo_max_gap_exact", kNumber, "m - m~ (nats)", 3}, 1},
      {"pseudo_max_gap_thumbnail", {"pseudo_max_gap_thumbnail", kNumber, "from thumbnails", 3}, 1}};
  return metrics;
}

constexpr std::string_view kOracle = "oracle";

/// A selector at delta 5.
struct Shown {
  const PooledSelector* selector;
  std::string_view role;                       ///< "ffd", "global pseudo-max", kOracle
  std::vector<std::vector<Pair>> values = {};  ///< [class_metrics()]
};

/// The first ffd with delta 5, the same with the true maximum instead of the pseudo-max, and the top-delta oracle by
/// blocks (under the same GQA policy if there is one): what flat heads keep without a pseudo-max.
std::vector<Shown> shown_selectors(const ModelStudy& study) {
  const PooledSelector* ffd = first_top_delta_ffd(study, [](const PooledSelector& selector) {
    return index_of(selector.group, kDelta) && !has_global_pseudo_max(selector);
  });
  if (!ffd) return {};
  const PooledSelector *global = nullptr, *oracle = nullptr;
  for (const PooledSelector& one : study.selectors()) {
    if (!index_of(one.group, kDelta)) continue;
    if (!global && one.group.name == "ffd" && has_global_pseudo_max(one) &&
        differ_at_most_in(one, *ffd, {"pseudo_max"}))
      global = &one;
    if (one.group.name != "topdelta" || one.option("granularity") != "block") continue;
    if (!oracle || (oracle->option("gqa") != ffd->option("gqa") && one.option("gqa") == ffd->option("gqa")))
      oracle = &one;
  }
  std::vector<Shown> shown = {{ffd, "ffd"}};
  if (global) shown.push_back({global, "global pseudo-max"});
  if (oracle) shown.push_back({oracle, kOracle});
  return shown;
}

void add_values(const ModelStudy& study, const std::set<int>& dense, Shown& shown) {
  const std::size_t setting = index_of(shown.selector->group, kDelta).value();
  for (const ClassMetric& metric : class_metrics()) {
    const auto settings = study.cells(*shown.selector, metric.metric, dense);
    const std::size_t index = settings.size() == 1 ? 0 : setting;  // 1: a metric without settings
    shown.values.push_back(pair_values(settings.at(index), metric.reduce));
  }
}

struct ClassRow {
  const Shown* shown;
  const PairClass* pair_class;
  double pairs = 0, share = 0;
  std::vector<double> means = {};  ///< [class_metrics()]

  double mean(std::string_view metric) const {
    for (std::size_t m = 0; m < means.size(); ++m)
      if (class_metrics()[m].metric == metric) return class_metrics()[m].factor * means[m];
    return kNaN;
  }
};

std::vector<ClassRow> rows_of(const std::vector<Shown>& selectors, const FailureCases& cases) {
  std::vector<ClassRow> rows;
  for (const Shown& shown : selectors)
    for (const PairClass& pair_class : kClasses) {
      const std::vector<Pair>& members = cases.*pair_class.members;
      ClassRow row{&shown, &pair_class, static_cast<double>(members.size()),
                   static_cast<double>(members.size()) / static_cast<double>(cases.total())};
      for (const std::vector<Pair>& values : shown.values) row.means.push_back(mean_over(members, values));
      rows.push_back(std::move(row));
    }
  return rows;
}

Table table_of(const std::vector<ClassRow>& rows) {
  std::vector<ColumnOf<ClassRow>> columns = {
      {{"label", kText, "selector"}, [](const ClassRow& r) { return legend_title(*r.shown->selector); }},
      {{"role", kText, "role"}, [](const ClassRow& r) { return std::string(r.shown->role); }},
      {{"class", kText, "pairs"}, [](const ClassRow& r) { return r.pair_class->name; }},
      {{"pairs", kNumber, "number", 0}, [](const ClassRow& r) { return r.pairs; }},
      {{"share_percent", kNumber, "share (%)", 2}, [](const ClassRow& r) { return 100 * r.share; }}};
  for (std::size_t m = 0; m < class_metrics().size(); ++m)
    columns.push_back(
        {class_metrics()[m].column, [m](const ClassRow& r) { return class_metrics()[m].factor * r.means[m]; }});
  return make_table<ClassRow>(rows, columns);
}

/// A pair in the scatter: under its narrowest class.
struct Dot {
  const char* pair_class;
  Pair gap;
  double score_std = kNaN, keep = kNaN, hits = kNaN;
};

Figure scatter_of(const ModelStudy& study, const Shown& ffd, const FailureCases& cases, const std::vector<Pair>& gaps,
                  const std::vector<Pair>& score_stds) {
  using Key = std::array<int, 3>;
  const auto key = [](const Pair& p) { return Key{p.dump, p.layer, p.head}; };
  const auto by_key = [&](const std::vector<Pair>& pairs) {
    std::map<Key, double> values;
    for (const Pair& p : pairs) values[key(p)] = p.value;
    return values;
  };
  const auto gap = by_key(gaps), score_std = by_key(score_stds), keep = by_key(ffd.values[0]),
             hits = by_key(ffd.values[1]);
  const auto of = [&](const std::map<Key, double>& values, const Pair& p) {
    const auto found = values.find(key(p));
    return found == values.end() ? kNaN : found->second;
  };
  std::set<Key> high;
  for (const Pair& p : cases.high_error) high.insert(key(p));
  std::vector<Dot> dots;
  for (const PairClass& pair_class : kClasses)
    for (const Pair& p : cases.*pair_class.members)
      if (pair_class.members != &FailureCases::proxy_error || !high.contains(key(p)))
        dots.push_back(
            {pair_class.name, {p.dump, p.layer, p.head, of(gap, p)}, of(score_std, p), of(keep, p), of(hits, p)});

  Figure figure{
      .name = "failure_cases",
      .data = make_table<Dot>(dots, {{{kCurveColumn, kText}, [](const Dot& d) { return d.pair_class; }},
                                     {{"dump"}, [](const Dot& d) { return static_cast<double>(d.gap.dump); }},
                                     {{"layer"}, [](const Dot& d) { return static_cast<double>(d.gap.layer); }},
                                     {{"head"}, [](const Dot& d) { return static_cast<double>(d.gap.head); }},
                                     {{"top1_top2_gap"}, [](const Dot& d) { return d.gap.value; }},
                                     {{"score_std"}, [](const Dot& d) { return d.score_std; }},
                                     {{"keep_ratio"}, [](const Dot& d) { return d.keep; }},
                                     {{"salient_hit_rate"}, [](const Dot& d) { return d.hits; }}})};
  figure.caption = fmt::format(
      "The two proxies of hard heads: {} pairs of dump, layer and head; {}. Dashed: the 10 % quantiles ({:.3g} and "
      "{:.3g} nats), at or below which a pair counts as proxy-error.",
      cases.total(), study.source(), cases.gap_limit, cases.std_limit);
  figure.panel_height_in = 1.9;
  constexpr double kSmallestGap = 1e-3;  // ties, and what no estimate resolves
  const bool has_ties = std::ranges::any_of(dots, [](const Dot& d) { return d.gap.value < kSmallestGap; });
  Panel panel{
      .title = {},
      .x = {.label = "gap between the two largest scores (nats)",
            .scale = Scale::logarithmic,
            .floor = has_ties ? std::optional(kSmallestGap) : std::nullopt},
      .y = {.label = "score std (nats)", .scale = Scale::logarithmic},
      .series = {},
      .references = {{.at = std::max(cases.gap_limit, kSmallestGap), .vertical = true}, {.at = cases.std_limit}}};
  for (std::size_t c = 0; c < kClasses.size(); ++c) {
    LineStyle style = line_style(c);
    style.point_size = c == 0 ? 0.2 : 0.35;
    style.opacity = c == 0 ? 0.6 : 1;
    panel.series.push_back({.curve = kClasses[c].name,
                            .title = kClasses[c].title,
                            .x = "top1_top2_gap",
                            .y = "score_std",
                            .style = style,
                            .mark = Mark::points});
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

std::vector<Finding> findings_of(const std::vector<ClassRow>& rows) {
  constexpr double kClearlyMore = 1.1;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i + 1 < rows.size(); i += kClasses.size()) {
    const ClassRow &regular = rows[i], &hard = rows[i + 1];
    const auto both = [&](std::string_view metric) {  // classes may be empty, and results lack a metric
      return !std::isnan(regular.mean(metric)) && !std::isnan(hard.mean(metric));
    };
    if (!both("keep_ratio")) continue;
    const StudySelector& group = regular.shown->selector->group;
    const std::string label = display_name(group.label);
    const std::string hits = both("salient_hit_rate")
                                 ? fmt::format("; their salient hit rates are {:.2f} and {:.2f} %",
                                               regular.mean("salient_hit_rate"), hard.mean("salient_hit_rate"))
                                 : "";
    findings.push_back(
        {.text =
             fmt::format("{} at delta {:g} keeps {:.2f} % of the tokens of regular pairs and {:.2f} % of proxy-error "
                         "pairs ({:.1f} % of all){}.",
                         label, kDelta, regular.mean("keep_ratio"), hard.mean("keep_ratio"), 100 * hard.share, hits),
         .number = fmt::format("{:.2f} % kept", hard.mean("keep_ratio")),
         .place = MapPlace{.metric = "keep_ratio",
                           .selector = group.label,
                           .setting = group.setting_labels[index_of(group, kDelta).value()]}});
    if (i == 0) {
      if (!both("pseudo_max_gap_exact")) continue;
      const double low = regular.mean("pseudo_max_gap_exact"), high = hard.mean("pseudo_max_gap_exact");
      findings.push_back(
          {.text = fmt::format("The pseudo-max of {} falls short of the true maximum by {:.3f} nats on average on "
                               "regular pairs and {:.3f} on proxy-error pairs: the paper explains what "
                               "the latter keep by this gap{}.",
                               label, low, high, high > low ? "" : ", which is not the larger one here"),
           .severity = high > low ? Severity::note : Severity::warning,
           .number = fmt::format("{:.3f} nats short", high),
           .place = {}});
    } else if (hard.mean("keep_ratio") > kClearlyMore * regular.mean("keep_ratio")) {
      findings.push_back(
          {.text =
               fmt::format("{} needs no pseudo-max and keeps {:.2f} times as much of proxy-error pairs as of regular "
                           "ones ({:.2f} times for {}).",
                           label, hard.mean("keep_ratio") / regular.mean("keep_ratio"),
                           rows[1].mean("keep_ratio") / rows[0].mean("keep_ratio"),
                           display_name(rows[0].shown->selector->group.label)),
           .severity = Severity::warning,
           .number = fmt::format("{:.2f} times as much", hard.mean("keep_ratio") / regular.mean("keep_ratio")),
           .place = {}});
    }
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  std::vector<Shown> shown = shown_selectors(study);
  const std::string run =
      "--selector ffd --selector global=ffd:pseudo_max=global --selector topdelta:granularity=block --delta 5";
  if (shown.empty()) return Unsupported{"needs ffd with delta 5 in its grid" + left_out_for_settings_file(study), run};
  std::vector<std::string> labels;
  for (const Shown& one : shown) labels.push_back(one.selector->group.label);
  const std::set<int> dense = study.dense_layers(labels);
  const std::vector<SampleCells> gap = study.score_cells(*shown[0].selector, "top1_top2_gap", dense);
  const std::vector<SampleCells> score_std = study.score_cells(*shown[0].selector, "score_std", dense);
  const FailureCases cases = failure_cases(gap, score_std);
  if (cases.total() == 0) return Unsupported{"needs top1_top2_gap and score_std of some layer in the results", run};
  for (Shown& one : shown) add_values(study, dense, one);

  const std::vector<ClassRow> rows = rows_of(shown, cases);
  ExperimentResult result{.findings = findings_of(rows)};
  result.figures.push_back(scatter_of(study, shown[0], cases, pair_values(gap), pair_values(score_std)));
  result.tables.push_back(
      {"failure_cases_table",
       fmt::format(
           "Pairs of dump, layer and head, all dumps pooled, by the 10 % quantiles of the gap between the two "
           "largest scores and of the scores' standard deviation, at delta {:g}; {}. High-error pairs are a part "
           "of the proxy-error ones. LSE error: mean over pairs of each pair's largest. The paper (3392 pairs of "
           "two models): regular 80.84, keep 2.43, hits 63.74; proxy-error 19.16, 13.15, 74.67.",
           kDelta, study.source()),
       table_of(rows)});
  const bool has_oracle = std::ranges::find(shown, kOracle, &Shown::role) != shown.end();
  if (shown.size() < 3)
    result.findings.push_back({fmt::format("What heads keep {} is not in the results: attest run {}",
                                           has_oracle ? "with a global pseudo-max" : "without a pseudo-max", run)});
  return result;
}

}  // namespace failure_cases_figure

Experiment failure_cases_experiment() {
  return {.name = "failure_cases",
          .paper = "Table 'Failure-case profiling'",
          .needs = "ffd with delta 5; beside it ffd with pseudo_max=global and topdelta with granularity=block",
          .make = failure_cases_figure::make};
}

}  // namespace attest
