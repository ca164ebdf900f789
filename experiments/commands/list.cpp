// attest list: what can be asked for.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"
#include "experiments/commands/commands.h"
#include "experiments/paper/experiments.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

using json = nlohmann::ordered_json;

std::unique_ptr<Selector> with_defaults(const SelectorInfo& info) {
  const std::string name(info.name);
  return make_selector({name, name, {}});
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

json metric_json(const MetricInfo& info) {
  return {{"name", info.name},
          {"axes", axis_names(info.axes)},
          {"unit", info.unit},
          {"better", text_of(info.better)},
          {"definition", info.definition}};
}

json metric_json(const Metric& metric) {
  json document = metric_json(metric.info);
  document["of"] = metric.of_scores() ? "scores" : "selectors";
  document["needs"] = json::array();
  if (metric.needs.estimate) document["needs"].push_back("estimate");
  if (metric.needs.scores) document["needs"].push_back("scores");
  if (metric.needs.spans) document["needs"].push_back("spans");
  if (metric.needs.sinks) document["needs"].push_back("sinks");
  document["cuda"] = metric.has_cuda_code();
  return document;
}

json metrics_json(std::span<const MetricInfo> metrics) {
  json list = json::array();
  for (const MetricInfo& info : metrics) list.push_back(metric_json(info));
  return list;
}

json list_json() {
  json selectors = json::array();
  for (const SelectorInfo* info : all_selectors()) {
    const std::unique_ptr<Selector> selector = with_defaults(*info);
    json options = json::array();
    for (const OptionValue& option : selector->options())
      options.push_back({{"name", option.name}, {"default", option.value}, {"valid", option.valid}});
    selectors.push_back({{"name", info->name},
                         {"summary", info->summary},
                         {"setting", name_of(selector->setting_kind())},
                         {"oracle", info->oracle},
                         {"options", options},
                         {"metrics", metrics_json(selector->own_metrics())},
                         {"io_bytes", info->io_bytes},
                         {"source", info->source}});
  }
  json figures = json::array();
  for (const Experiment& experiment : experiments())
    figures.push_back({{"name", experiment.name}, {"paper", experiment.paper}, {"needs", experiment.needs}});
  json metrics = json::array();
  for (const Metric& metric : all_metrics()) metrics.push_back(metric_json(metric));
  return {{"selectors", selectors}, {"metrics", metrics}, {"experiments", figures}};
}

std::string metric_line(const MetricInfo& info, const std::string& indent) {
  const std::string_view better = info.better == Better::neither ? "-" : text_of(info.better);
  return fmt::format("{}{:<26} {:<12} {:<7} {}\n", indent, info.name, info.unit, better, info.definition);
}

std::string list_text() {
  std::string text = "Selectors (attest run --selector [LABEL=]NAME[:option=value,...])\n";
  for (const SelectorInfo* info : all_selectors()) {
    const std::unique_ptr<Selector> selector = with_defaults(*info);
    text += fmt::format("\n{}: {}\n  setting  {}\n", info->name, info->summary, name_of(selector->setting_kind()));
    std::size_t width = 0;
    for (const OptionValue& option : selector->options())
      width = std::max(width, option.name.size() + option.value.size() + 1);
    const char* heading = "option ";
    for (const OptionValue& option : selector->options()) {
      text += fmt::format("  {}  {:<{}}  {}\n", heading, option.name + "=" + option.value, width, option.valid);
      heading = "       ";
    }
    text += fmt::format("  reads    {} bytes\n  source   {}\n", info->io_bytes, info->source);
    heading = "metric ";
    for (const MetricInfo& own : selector->own_metrics()) {
      text += fmt::format("  {}  {}: {}\n", heading, own.name, own.definition);
      heading = "       ";
    }
  }
  text += fmt::format("\nMetrics (name, unit, which way is better, definition)\n");
  for (const Metric& metric : all_metrics()) text += metric_line(metric.info, "  ");
  text += "\nExperiments (attest figures RESULTS... -o DIR)\n";
  for (const Experiment& experiment : experiments())
    text += fmt::format("  {}: {}; needs {}\n", experiment.name, experiment.paper, experiment.needs);
  return text;
}

}  // namespace

void add_list(CLI::App& app, const GlobalOptions& global) {
  CLI::App* command =
      app.add_subcommand("list", "Selectors, their options, defaults and sources; metrics; experiments");
  command->callback([&global] { std::cout << (global.json ? list_json().dump(2) + "\n" : list_text()); });
}

}  // namespace attest
