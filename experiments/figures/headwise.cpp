// Table "Head-wise variation under fixed delta", and maps of layers and heads.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/study_view/head_means.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace headwise_figure {

constexpr double kDelta = kPaperDeltas[0];
constexpr const char* kAllSamples = "all";

/// The cells of one selector at delta 5.
struct Policy {
  const PooledSelector* selector = nullptr;
  std::vector<SampleCells> keep, recall, hits;

  std::string gqa() const { return selector->option("gqa"); }
};

/// A row of the table: the pairs of one sample, or those of all samples.
struct Row {
  const Policy* policy = nullptr;
  std::string sample, task;
  Moments keep, hits;
};

std::vector<double> pairs_of(const SampleCells& sample) {
  std::vector<double> values;
  for (const Pair& pair : pair_values({&sample, 1})) values.push_back(pair.value);
  return values;
}

std::vector<Policy> policies_of(const ModelStudy& study) {
  std::vector<Policy> policies;
  const auto has_delta = [](const PooledSelector& s) { return index_of(s.group, kDelta).has_value(); };
  for (const PooledSelector* selector : gqa_policies(study, has_delta)) {
    const std::size_t setting = index_of(selector->group, kDelta).value();
    const std::set<int> dense = study.dense_layers({selector->group.label});
    const auto at_setting = [&](const char* metric) { return study.cells(*selector, metric, dense).at(setting); };
    policies.push_back({selector, at_setting("keep_ratio"), at_setting("recall"), at_setting("salient_hit_rate")});
  }
  return policies;
}

/// Pairs are (sample, layer, head) with the mean over the sample's queries. Samples are not averaged: that would hide
/// how far the same head differs between them.
std::vector<Row> rows_of(const ModelStudy& study, const Policy& policy) {
  std::vector<Row> rows;
  std::vector<double> all_keep, all_hits;
  for (const SampleCells& of : policy.keep) {
    const SampleKey sample = key_of(of);
    const auto found = std::ranges::find(policy.hits, sample, key_of);
    const std::vector<double> keep = pairs_of(of);
    const std::vector<double> hits = found != policy.hits.end() ? pairs_of(*found) : std::vector<double>{};
    all_keep.insert(all_keep.end(), keep.begin(), keep.end());
    all_hits.insert(all_hits.end(), hits.begin(), hits.end());
    const std::string& title = study.sample_title(sample);
    if (!keep.empty())
      rows.push_back({&policy, apart_from(kAllSamples, "sample", title), of.task, describe(keep), describe(hits)});
  }
  if (!rows.empty()) rows.push_back({&policy, kAllSamples, "", describe(all_keep), describe(all_hits)});
  return rows;
}

Table table_of(const std::vector<Row>& rows) {
  const auto percent = [](const char* name, const char* heading) { return Column{name, kNumber, heading, 2}; };
  const auto label = [](const Row& r) { return display_name(r.policy->selector->group.label); };
  return make_table<Row>(
      rows,
      {{{"label", kText, "selector"}, label},
       {{"gqa", kText, "GQA"}, [](const Row& r) { return r.policy->gqa(); }},
       {{"sample", kText, "sample"}, [](const Row& r) { return display_name(r.sample); }},
       {{"task", kText, "task"}, [](const Row& r) { return display_name(r.task); }},
       {{"pairs", kNumber, "pairs", 0}, [](const Row& r) { return static_cast<double>(r.keep.count); }},
       {percent("keep_percent_mean", "keep, mean (%)"), [](const Row& r) { return 100 * r.keep.mean; }},
       {percent("keep_percent_std", "std"), [](const Row& r) { return 100 * r.keep.std; }},
       {percent("keep_percent_min", "min"), [](const Row& r) { return 100 * r.keep.min; }},
       {percent("keep_percent_max", "max"), [](const Row& r) { return 100 * r.keep.max; }},
       {percent("hit_rate_percent_mean", "salient hits, mean (%)"), [](const Row& r) { return 100 * r.hits.mean; }},
       {percent("hit_rate_percent_min", "min"), [](const Row& r) { return 100 * r.hits.min; }}});
}

struct Map {
  std::map<HeadPlace, Mean> keep, recall, hits;

  explicit Map(const Policy& policy)
      : keep(head_means(policy.keep, MeanOver::samples)),
        recall(head_means(policy.recall, MeanOver::samples)),
        hits(head_means(policy.hits, MeanOver::samples)) {}
};

Table map_table(const Policy& policy, const Map& map) {
  using Cell = std::pair<const HeadPlace, Mean>;
  const auto of = [](const std::map<HeadPlace, Mean>& values, const HeadPlace& head) {
    const auto found = values.find(head);
    return found == values.end() ? kNaN : found->second.value();
  };
  const std::vector<Cell> cells(map.keep.begin(), map.keep.end());
  return make_table<Cell>(cells,
                          {{{kCurveColumn, kText}, [](const Cell&) { return kMapCurve; }},
                           {{"label", kText}, [&](const Cell&) { return display_name(policy.selector->group.label); }},
                           {{"gqa", kText}, [&](const Cell&) { return policy.gqa(); }},
                           {{"layer"}, [](const Cell& c) { return static_cast<double>(c.first.first); }},
                           {{"head"}, [](const Cell& c) { return static_cast<double>(c.first.second); }},
                           {{"keep_ratio"}, [](const Cell& c) { return c.second.value(); }},
                           {{"recall"}, [&](const Cell& c) { return of(map.recall, c.first); }},
                           {{"salient_hit_rate"}, [&](const Cell& c) { return of(map.hits, c.first); }}});
}

double extreme(const std::map<HeadPlace, Mean>& values, bool largest, double if_none) {
  if (values.empty()) return if_none;
  const auto [minimum, maximum] =
      std::ranges::minmax_element(values, {}, [](const auto& entry) { return entry.second.value(); });
  return (largest ? maximum : minimum)->second.value();
}

/// The colours of shares kept: up to 100 %, down to half of it at least, so that a map of one value has a scale.
Axis keep_colours(const Map& map, const ExperimentOptions& options) {
  if (options.linear_axes) return {.label = {}, .factor = 100, .low = 0, .high = 100};
  const double minimum = std::max(100 * extreme(map.keep, false, 1), 1e-3);
  const double decade = std::pow(10, std::floor(std::log10(minimum)));
  const double digit = minimum >= 5 * decade ? 5 : minimum >= 2 * decade ? 2 : 1;
  return {.label = {}, .factor = 100, .scale = Scale::logarithmic, .low = std::min(50.0, digit * decade), .high = 100};
}

/// The colours of a quality. What misses less than 1e-4 looks the same.
Axis quality_colours(const std::map<HeadPlace, Mean>& values, const ExperimentOptions& options) {
  const double minimum = extreme(values, false, 1);
  if (options.linear_axes) return {.label = {}, .low = std::min(0.5, minimum), .high = 1};
  constexpr double kFirstColour = 1e-4, kUsualDeficit = 0.1;
  return {.label = {},
          .scale = Scale::deficit,
          .low = kFirstColour,
          .high = std::max(kUsualDeficit, 1 - minimum),
          .floor = kFirstColour};
}

Figure map_figure(const ModelStudy& study, const Policy& policy, const Map& map, const ExperimentOptions& options) {
  Figure figure{.name = "headwise_" + slug(policy.gqa()), .data = map_table(policy, map)};
  figure.caption = fmt::format(
      "Every head of every layer under {} (gqa={}) at delta {:g}: tokens kept, recall, salient tokens kept; {}. Means "
      "over queries and samples, {} heads.",
      display_name(policy.selector->group.label), policy.gqa(), kDelta, study.source(), map.keep.size());
  if (!options.linear_axes) figure.note = "yellow: most is kept (a), most is missing (b, c)";
  struct Colour {
    const char* title;
    const char* column;
    Axis axis;
  };
  const std::array colours = {Colour{"(a) tokens kept (%)", "keep_ratio", keep_colours(map, options)},
                              Colour{"(b) recall", "recall", quality_colours(map.recall, options)},
                              Colour{"(c) salient hit rate", "salient_hit_rate", quality_colours(map.hits, options)}};
  for (const Colour& colour : colours)
    figure.panels.push_back({.title = colour.title,
                             .x = {.label = "layer", .whole_numbers = true},
                             .y = {.label = "head", .whole_numbers = true},
                             .series = {{.curve = kMapCurve,
                                         .title = {},
                                         .x = "layer",
                                         .y = "head",
                                         .mark = Mark::cells,
                                         .value = colour.column}},
                             .show_x = &colour == &colours.back(),
                             .colour = colour.axis});
  return figure;
}

void add_findings(const Policy& policy, const std::vector<Row>& rows, const Map& map, std::vector<Finding>& findings) {
  const StudySelector& group = policy.selector->group;
  const std::string& label = group.label;
  const auto place = [&](const char* metric) {
    return MapPlace{
        .metric = metric, .selector = label, .setting = group.setting_labels[index_of(group, kDelta).value()]};
  };
  const Row& all = rows.back();
  findings.push_back(
      {.text = fmt::format("At delta {:g} {} (gqa={}) keeps {:.2f} % of the tokens of a layer-head pair on average "
                           "(std {:.2f}, from {:.2f} to {:.2f} %) over {} pairs of {}; the mean salient hit rate is "
                           "{:.2f} %.",
                           kDelta, display_name(label), policy.gqa(), 100 * all.keep.mean, 100 * all.keep.std,
                           100 * all.keep.min, 100 * all.keep.max, all.keep.count,
                           counted(static_cast<std::int64_t>(rows.size()) - 1, "sample"), 100 * all.hits.mean),
       .number = fmt::format("{:.2f} % kept", 100 * all.keep.mean),
       .place = place("keep_ratio")});
  if (!(extreme(map.hits, false, 1) < 1)) return;
  constexpr double kSeriousHitRate = 0.5;
  const auto worst = std::ranges::min_element(map.hits, {}, [](const auto& entry) { return entry.second.value(); });
  const double hits = worst->second.value();
  MapPlace head = place("salient_hit_rate");
  head.layer = worst->first.first;
  head.head = worst->first.second;
  findings.push_back(
      {.text = fmt::format("The head of {} with the lowest salient hit rate is head {} of layer {}: {:.1f} %.",
                           display_name(label), *head.head, *head.layer, 100 * hits),
       .severity = hits < kSeriousHitRate ? Severity::warning : Severity::note,
       .number = fmt::format("{:.1f} % hit", 100 * hits),
       .place = head});
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::vector<Policy> policies = policies_of(study);
  if (policies.empty())
    return Unsupported{"needs ffd with delta 5 in its grid" + left_out_for_settings_file(study),
                       "--selector ffd --delta 5"};
  ExperimentResult result;
  std::vector<Row> table;
  for (const Policy& policy : policies) {
    const std::vector<Row> rows = rows_of(study, policy);
    if (rows.empty()) continue;
    const Map map(policy);
    table.insert(table.end(), rows.begin(), rows.end());
    result.figures.push_back(map_figure(study, policy, map, options));
    add_findings(policy, rows, map, result.findings);
  }
  if (table.empty()) return Unsupported{"every layer is dense in ffd", "--selector ffd --delta 5"};
  if (policies.size() == 1) {
    const bool is_union = policies[0].gqa() == "union";
    result.findings.push_back(
        {fmt::format("The results hold gqa={} only; the paper does not say which it used. attest "
                     "run with --selector {} gives the other.",
                     policies[0].gqa(), is_union ? "heads=ffd:gqa=per_head" : "union=ffd")});
  }
  result.tables.push_back(
      {"headwise_table",
       fmt::format(
           "Tokens kept and salient tokens kept by layer-head pair at delta {:g}; {}. A pair is a head of a layer "
           "of one sample, the mean over its queries; samples are not averaged. The paper, one LongBench sample "
           "on Llama-3.1-8B: mean 6.42, std 14.14, min 0.62, max 100.0; hits 87.45.",
           kDelta, study.source()),
       table_of(table)});
  return result;
}

}  // namespace headwise_figure

Experiment headwise_experiment() {
  return {.name = "headwise",
          .paper = "Table 'Head-wise variation statistics'",
          .needs = "ffd with delta 5; gqa=union and gqa=per_head for both policies",
          .make = headwise_figure::make};
}

}  // namespace attest
