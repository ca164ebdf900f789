// Describes selectors, metrics and experiments as JSON. What depends on an option is found by trying every value.
#include "experiments/list/catalogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "experiments/report/all_experiments.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// A selector with one option set to another value than its default; "" and the defaults come first.
struct Variant {
  std::string when;  ///< "rule=topk"
  std::unique_ptr<Selector> selector;
};

std::vector<Variant> variants_of(const SelectorInfo& info) {
  const std::string name(info.name);
  std::vector<Variant> variants;
  variants.push_back({"", make_selector({name, name, {}})});
  const std::vector<OptionValue> options = variants.front().selector->options();
  for (const OptionValue& option : options) {
    for (const std::string& value : option.alternatives) {
      if (value == option.value) continue;
      try {
        variants.push_back(
            {fmt::format("{}={}", option.name, value), make_selector({name, name, {{option.name, value}}})});
      } catch (const UsageError&) {  // the value needs another option, too
      }
    }
  }
  return variants;
}

bool has_metric(const Selector& selector, const MetricNeeds& needs) {
  return (!needs.estimate || selector.has_estimate()) && (!needs.scores || selector.estimates_scores());
}

std::string_view text_of(Better better) {
  switch (better) {
    case Better::higher:
      return "higher";
    case Better::lower:
      return "lower";
    case Better::neither:
      break;
  }
  return "neither";
}

std::string text_of(const MetricRange& range) {
  std::string text = "any";
  if (std::isfinite(range.min) && std::isfinite(range.max))
    text = fmt::format("{:g} to {:g}", range.min, range.max);
  else if (std::isfinite(range.min))
    text = fmt::format("{:g} or more", range.min);
  if (range.may_be_infinite) text += ", also infinite";
  return range.may_be_nan ? text + ", or NaN: not defined" : text;
}

Json metric_json(const MetricInfo& info) {
  return {{"name", info.name},
          {"axes", axis_names(info.axes)},
          {"unit", info.unit},
          {"better", text_of(info.better)},
          {"range", text_of(info.range)},
          {"definition", info.definition},
          {"source", info.source}};
}

/// The names of the selectors that have the metric: "ffd", "imported (not with units=ranks)".
Json selectors_with(const MetricNeeds& needs) {
  Json names = Json::array();
  for (const SelectorInfo* info : all_selectors()) {
    std::vector<std::string> without;
    for (const Variant& variant : variants_of(*info))
      if (!has_metric(*variant.selector, needs)) without.push_back(variant.when);
    if (without.empty())
      names.push_back(info->name);
    else if (!without.front().empty())
      names.push_back(fmt::format("{} (not with {})", info->name, join(without, " or ")));
  }
  return names;
}

Json metric_json(const Metric& metric) {
  Json document = metric_json(metric.info);
  document["of"] = metric.of_scores() ? "scores" : "selectors";
  document["needs"] = Json::array();
  if (metric.needs.estimate) document["needs"].push_back("estimate");
  if (metric.needs.scores) document["needs"].push_back("scores");
  if (metric.needs.spans) document["needs"].push_back("spans");
  if (metric.needs.few_span_tokens) document["needs"].push_back("few span tokens");
  if (metric.needs.weights) document["needs"].push_back("head gradients");
  if (metric.needs.gradients) document["needs"].push_back("output gradients");
  if (metric.needs.sinks) document["needs"].push_back("sinks");
  document["selectors"] = metric.of_scores() ? Json::array() : selectors_with(metric.needs);
  document["cuda"] = metric.has_cuda_code();
  return document;
}

Json option_json(const OptionValue& option) {
  Json document = {
      {"name", option.name}, {"default", option.value}, {"valid", option.valid}, {"meaning", option.text.meaning}};
  if (!option.text.unit.empty()) document["unit"] = option.text.unit;
  return document;
}

Json formats_json(const SelectorInfo& info) {
  Json formats = Json::array();
  for (const KvFormat* format : info.formats)
    formats.push_back({{"name", format->name},
                       {"bytes", format->bytes_text},
                       {"rule", format->rule},
                       {"scale", format->scale_divisor > 0},
                       {"of_values", format->of_values},
                       {"source", format->source}});
  return formats;
}

/// The grids that the selector takes, the default one first, each with the option values that call for it.
Json settings_json(const std::vector<Variant>& variants) {
  Json settings = Json::array();
  for (const Variant& variant : variants) {
    const SettingKindInfo& kind = info_of(variant.selector->setting_kind());
    const auto listed = std::ranges::find_if(settings, [&](const Json& s) { return s["setting"] == kind.name; });
    if (listed != settings.end()) continue;
    Json entry = {{"setting", kind.name}};
    if (kind.kind != SettingKind::none)
      entry.update(
          {{"option", fmt::format("--{}", kind.name)}, {"valid", kind.valid}, {"default_grid", kind.default_grid}});
    if (!variant.when.empty()) entry["when"] = variant.when;
    settings.push_back(std::move(entry));
  }
  return settings;
}

Json notes_json(const SelectorInfo& info, const std::vector<Variant>& variants) {
  Json notes = Json::array();
  const Selector& standard = *variants.front().selector;
  if (info.studied_by_default) notes.push_back("studied when no --selector is given");
  if (info.oracle) notes.push_back("an oracle: it chooses by exact scores, whose cost is not counted");
  if (!standard.has_estimate()) notes.push_back("has no estimate: correlations and scan errors are not defined");
  if (!standard.counts_scan()) notes.push_back("the cost of its estimate is not counted by default");
  if (standard.dense_layers() > 0)
    notes.push_back(fmt::format("the first {} layers are dense by default", standard.dense_layers()));
  for (const Variant& variant : variants) {
    if (!variant.selector->monotone())
      notes.push_back(fmt::format("{}: a larger setting does not always keep more; each setting is evaluated by itself",
                                  variant.when));
    if (variant.selector->has_estimate() && !variant.selector->estimates_scores())
      notes.push_back(fmt::format("{}: scan errors are not defined", variant.when));
  }
  try {
    standard.check({128, 128});
  } catch (const UsageError& error) {
    notes.push_back(fmt::format("needs options: {}", error.what()));
  }
  return notes;
}

Json selector_json(const SelectorInfo& info) {
  const std::vector<Variant> variants = variants_of(info);
  const Selector& standard = *variants.front().selector;
  Json options = Json::array(), metrics = Json::array(), undefined = Json::array();
  for (const OptionValue& option : standard.options()) options.push_back(option_json(option));
  for (const MetricInfo& own : standard.own_metrics()) metrics.push_back(metric_json(own));
  for (const Metric& metric : all_metrics())
    if (!metric.of_scores() && !has_metric(standard, metric.needs)) undefined.push_back(metric.info.name);
  return {{"name", info.name},
          {"summary", info.summary},
          {"setting", name_of(standard.setting_kind())},
          {"settings", settings_json(variants)},
          {"oracle", info.oracle},
          {"options", options},
          {"formats", formats_json(info)},
          {"takes_cache", info.takes_cache},
          {"metrics", metrics},
          {"metrics_not_defined", undefined},
          {"io_bytes", info.io_bytes},
          {"notes", notes_json(info, variants)},
          {"source", info.source}};
}

Json experiments_json() {
  Json all = Json::array();
  for (const ExperimentInfo& experiment : all_experiments())
    all.push_back({{"name", experiment.name}, {"paper", experiment.paper}, {"needs", experiment.needs}});
  return all;
}

}  // namespace

Json catalogue() {
  Json selectors = Json::array(), metrics = Json::array();
  for (const SelectorInfo* info : all_selectors()) selectors.push_back(selector_json(*info));
  for (const Metric& metric : all_metrics()) metrics.push_back(metric_json(metric));
  return {{"selectors", selectors}, {"metrics", metrics}, {"experiments", experiments_json()}};
}

std::vector<std::string> experiment_names() {
  std::vector<std::string> names;
  for (const ExperimentInfo& experiment : all_experiments()) names.push_back(experiment.name);
  return names;
}

Json catalogue_entry(const Json& catalogue, std::string_view name) {
  std::vector<std::string> known;
  const auto with_kind = [](const char* kind, const Json& entry) {
    Json document = {{"kind", kind}};
    document.update(entry);
    return document;
  };
  for (const auto& [list, kind] :
       {std::pair("selectors", "selector"), {"metrics", "metric"}, {"experiments", "experiment"}}) {
    for (const Json& entry : catalogue[list]) {
      if (entry["name"] == name) return with_kind(kind, entry);
      known.push_back(entry["name"].text());
      if (!entry.contains("metrics")) continue;
      for (const Json& own : entry["metrics"]) {
        known.push_back(own["name"].text());
        if (own["name"] != name) continue;
        Json metric = with_kind("metric", own);
        metric["of"] = "selectors";
        metric["selectors"] = Json::array({entry["name"]});
        return metric;
      }
    }
  }
  throw UsageError(
      fmt::format("no selector, metric or experiment is named '{}'; nearest: {}", name, nearest_names(name, known)));
}

}  // namespace attest
