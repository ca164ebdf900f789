// Figure "Comparison of top-k, top-p and top-delta": kept sets and recall over distributions of different entropy.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/figures/figures.h"
#include "experiments/study_view/matched_rules.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace rule_comparison_figure {

constexpr std::size_t kBins = 10;

/// One rule over the cells of a bin, or over all.
struct Row {
  const RuleFamily* family = nullptr;
  std::size_t rule = 0;
  double matched_keep = 0;
  std::string matched_on = {};  ///< whose mean keep ratio it is
  std::string low = {}, high = {};
  double weight = 0;
  double bin = kNaN;  ///< from 0; NaN: all cells
  Moments entropy = {}, keep = {}, recall = {};
  double keep_p5 = kNaN, keep_p95 = kNaN, recall_p1 = kNaN;

  const PooledSelector& selector() const { return *family->rules[rule]; }
  std::string curve() const {
    return curve_name(selector().group.label) + " on " + matched_on + (std::isnan(bin) ? " over all cells" : "");
  }
};

struct Target {
  double keep = 0;
  std::string name = {};
};

/// The mean keep ratios at which all three rules can be compared: those of top-delta at 5 and 7; else the middle of the
/// range that they share, if there is one.
std::vector<Target> targets_of(const RuleCells& cells) {
  double low = 0, high = std::numeric_limits<double>::infinity();
  for (const std::vector<RuleCells::Setting>& settings : cells.rules) {
    low = std::max(low, settings.front().mean_keep);
    high = std::min(high, settings.back().mean_keep);
  }
  std::vector<Target> targets;
  for (const double papers : kPaperDeltas)
    for (const RuleCells::Setting& setting : cells.rules[2])
      if (setting.delta == papers && low <= setting.mean_keep && setting.mean_keep <= high)
        targets.push_back({setting.mean_keep, fmt::format("delta {:g}", papers)});
  if (targets.empty() && low <= high) targets.push_back({std::sqrt(low * high), "common range"});
  return targets;
}

/// Bin of each cell: tenths of the cells by entropy; equal entropies stay together.
std::vector<std::size_t> bins_of(const std::vector<float>& entropy) {
  std::vector<double> sorted(entropy.begin(), entropy.end());
  std::ranges::sort(sorted);
  std::vector<double> edges;
  for (std::size_t i = 1; i < kBins; ++i)
    edges.push_back(quantile_of_sorted(sorted, static_cast<double>(i) / static_cast<double>(kBins)));
  std::vector<std::size_t> bins;
  for (const float value : entropy)
    bins.push_back(
        static_cast<std::size_t>(std::ranges::lower_bound(edges, static_cast<double>(value)) - edges.begin()));
  return bins;
}

void describe_cells(Row& row, const RuleCells& cells, const MatchedRule& rule,
                    const std::vector<std::size_t>& members) {
  std::vector<double> entropy, keep, recall;
  for (const std::size_t i : members) {
    entropy.push_back(static_cast<double>(cells.entropy[i]));
    keep.push_back(rule.keep[i]);
    recall.push_back(rule.recall[i]);
  }
  row.entropy = describe(entropy);
  row.keep = describe(keep);
  row.recall = describe(recall);
  row.keep_p5 = quantile(keep, 0.05);
  row.keep_p95 = quantile(std::move(keep), 0.95);
  row.recall_p1 = quantile(std::move(recall), 0.01);
}

std::vector<Row> rows_of(const RuleFamily& family, const RuleCells& cells) {
  const std::vector<std::size_t> bins = bins_of(cells.entropy);
  std::vector<std::vector<std::size_t>> members(kBins + 1);  // the last: all
  for (std::size_t i = 0; i < bins.size(); ++i) {
    members[bins[i]].push_back(i);
    members[kBins].push_back(i);
  }
  std::vector<Row> rows;
  for (const Target& target : targets_of(cells))
    for (std::size_t r = 0; r < family.rules.size(); ++r) {
      const std::optional<MatchedRule> rule = matched(cells.rules[r], target.keep);
      if (!rule) continue;  // beyond its grid by rounding
      for (std::size_t b = 0; b <= kBins; ++b) {
        if (members[b].empty()) continue;
        Row row{.family = &family,
                .rule = r,
                .matched_keep = target.keep,
                .matched_on = target.name,
                .low = rule->low,
                .high = rule->high,
                .weight = rule->weight,
                .bin = b < kBins ? static_cast<double>(b) : kNaN};
        describe_cells(row, cells, *rule, members[b]);
        rows.push_back(std::move(row));
      }
    }
  return rows;
}

Table table_of(const std::vector<Row>& rows) {
  return make_table<Row>(rows, {{{kCurveColumn, kText}, [](const Row& r) { return r.curve(); }},
                                {{"family", kText}, [](const Row& r) { return r.family->name; }},
                                {{"rule", kText}, [](const Row& r) { return kRuleNames[r.rule]; }},
                                {{"label", kText}, [](const Row& r) { return display_name(r.selector().group.label); }},
                                {{"matched_on", kText}, [](const Row& r) { return r.matched_on; }},
                                {{"matched_keep_ratio"}, [](const Row& r) { return r.matched_keep; }},
                                {{"setting_low", kText}, [](const Row& r) { return display_name(r.low); }},
                                {{"setting_high", kText}, [](const Row& r) { return display_name(r.high); }},
                                {{"weight_of_high"}, [](const Row& r) { return r.weight; }},
                                {{"bin"}, [](const Row& r) { return r.bin; }},
                                {{"entropy_low"}, [](const Row& r) { return r.entropy.min; }},
                                {{"entropy_mean"}, [](const Row& r) { return r.entropy.mean; }},
                                {{"entropy_high"}, [](const Row& r) { return r.entropy.max; }},
                                {{"keep_mean"}, [](const Row& r) { return r.keep.mean; }},
                                {{"keep_std"}, [](const Row& r) { return r.keep.std; }},
                                {{"keep_p5"}, [](const Row& r) { return r.keep_p5; }},
                                {{"keep_p95"}, [](const Row& r) { return r.keep_p95; }},
                                {{"recall_mean"}, [](const Row& r) { return r.recall.mean; }},
                                {{"recall_p1"}, [](const Row& r) { return r.recall_p1; }},
                                {{"recall_min"}, [](const Row& r) { return r.recall.min; }},
                                {{"cells"}, [](const Row& r) { return static_cast<double>(r.recall.count); }}});
}

std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<Row>& rows, const ExperimentOptions& options) {
  struct Shown {
    const char *title, *label, *column;
  };
  const std::array all = {Shown{"(a) kept", "tokens (%)", "keep_mean"},
                          Shown{"(b) spread of kept", "std of tokens (%)", "keep_std"},
                          Shown{"(c) mean", "recall", "recall_mean"}, Shown{"(d) worst cell", "recall", "recall_min"}};
  std::vector<Panel> panels;
  for (const Shown& shown : all) {
    Panel panel{.title = shown.title, .x = {.label = "entropy (nats)"}, .y = {.label = shown.label}, .series = {}};
    const bool kept = panels.size() < 2;
    panel.show_x = !kept;
    if (kept) panel.y.factor = 100;
    if (!options.linear_axes && panels.empty()) panel.y.scale = Scale::logarithmic;
    if (!options.linear_axes && !kept) {
      panel.y.scale = Scale::deficit;
      panel.y.floor = kMinDeficit;
    }
    for (const Row& row : rows) {
      // A row of each rule of the first family at the first target stands for its curve.
      const bool first = row.family == rows.front().family && row.matched_on == rows.front().matched_on;
      if (!first || std::isnan(row.bin)) continue;
      if (!panel.series.empty() && panel.series.back().curve == row.curve()) continue;
      panel.series.push_back({.curve = row.curve(),
                              .title = legend_title(row.selector()),
                              .x = "entropy_mean",
                              .y = shown.column,
                              .style = study.style(row.selector())});
      if (panels.empty()) panel.series.back().bands = {{"keep_p5", "keep_p95", 0.15}};
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

std::vector<Finding> findings_of(const std::vector<Row>& rows) {
  std::vector<Finding> findings;
  for (const Row& all : rows) {
    if (!std::isnan(all.bin) || all.rule != 0) continue;
    std::string kept, recalls;
    for (std::size_t r = 0; r < kRuleNames.size(); ++r) {
      const auto of_rule = [&](const Row& row) {
        return row.family == all.family && row.matched_on == all.matched_on && row.rule == r;
      };
      const auto first = std::ranges::find_if(rows, of_rule);
      if (first == rows.end()) continue;
      auto last = first;  // the bin of the highest entropy
      const Row* whole = nullptr;
      for (auto row = first; row != rows.end() && of_rule(*row); ++row)
        std::isnan(row->bin) ? void(whole = &*row) : void(last = row);
      const char* separator = r == 0 ? "" : ", ";
      kept += fmt::format("{}{} from {:.2f} to {:.2f} %", separator, kRuleNames[r], 100 * first->keep.mean,
                          100 * last->keep.mean);
      recalls += fmt::format("{}{:.4f} ({:.3f})", separator, whole->recall.mean, whole->recall.min);
    }
    findings.push_back(
        {.text = fmt::format(
             "Where the rules ({}) keep {:.2f} % of the tokens in the mean (that of {}), the kept share from "
             "the tenth of cells with the lowest entropy to that with the highest goes: {}; mean (worst) "
             "recall in the same order {}.",
             all.family->name, 100 * all.matched_keep, all.matched_on, kept, recalls),
         .number = fmt::format("recall {:.4f}", all.recall.mean),
         .place = MapPlace{.metric = "recall", .selector = all.selector().group.label, .setting = all.high}});
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::string run_options = "--selector topk --selector topp --selector topdelta";
  const std::vector<RuleFamily> families = rule_families(study);
  if (families.empty())
    return Unsupported{"needs top-k, top-p and top-delta: the three oracles, or ffd with the three values of rule",
                       run_options};
  std::vector<Row> rows;
  for (const RuleFamily& family : families) {
    std::vector<std::string> labels;
    for (const PooledSelector* rule : family.rules) labels.push_back(rule->group.label);
    const std::optional<RuleCells> cells = rule_cells(study, family, study.dense_layers(labels));
    if (!cells) continue;
    const std::vector<Row> own = rows_of(family, *cells);
    rows.insert(rows.end(), own.begin(), own.end());
  }
  if (rows.empty())
    return Unsupported{"top-k, top-p and top-delta share no cells, or no mean keep ratio within their grids",
                       run_options + " --budget 0.1%,1%,10%,50% --p 0.5,0.9,0.99,0.999 --delta 1:12:0.5"};

  ExperimentResult result{.findings = findings_of(rows)};
  const auto whole = std::ranges::find_if(rows, [](const Row& r) { return std::isnan(r.bin); });
  result.figures.push_back({.name = "rule_comparison",
                            .caption = fmt::format("Top-k, top-p and top-delta at the same mean share of tokens "
                                                   "({:.2f} %, that of {}) over cells in tenths by the entropy of "
                                                   "their scores; {}; {} cells (layer, query, head). Settings between "
                                                   "two of the grid are interpolated cell by cell.",
                                                   100 * rows.front().matched_keep, rows.front().matched_on,
                                                   study.source(), whole->recall.count),
                            .note = fmt::format("all keep {:.2f} % in the mean; bands: 5–95 % of the cells",
                                                100 * rows.front().matched_keep),
                            .data = table_of(rows),
                            .columns = 2,
                            .panels = panels_of(study, rows, options)});
  return result;
}

}  // namespace rule_comparison_figure

Experiment rule_comparison_experiment() {
  return {.name = "rule_comparison",
          .paper = "Figure 'Comparison of top-k, top-p and top-delta'",
          .needs = "topk, topp and topdelta, or ffd with rule=topk, topp and topdelta",
          .make = rule_comparison_figure::make};
}

}  // namespace attest
