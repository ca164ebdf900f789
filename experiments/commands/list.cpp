// attest list: what can be asked for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/metrics/metric.h"
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

/// Metrics that a selector defines for itself, with those of every selector before them.
std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const SelectorMetric& metric : selector_metrics()) names.emplace_back(metric.name);
  names.insert(names.end(), {"io_ratio", "recall_layer"});
  return names;
}

std::vector<std::string> own_metrics(const Selector& selector) {
  std::vector<std::string> names = selector.row_metrics();
  const std::vector<std::string> others = selector.setting_metrics();
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

std::vector<std::string> score_metric_names() {
  std::vector<std::string> names;
  for (const ScoreMetric& metric : score_metrics()) names.emplace_back(metric.name);
  return names;
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
                         {"oracle", selector->oracle()},
                         {"options", options},
                         {"metrics", own_metrics(*selector)},
                         {"io_bytes", info->io_bytes},
                         {"source", info->source}});
  }
  json figures = json::array();
  for (const Experiment& experiment : experiments())
    figures.push_back({{"name", experiment.name}, {"paper", experiment.paper}, {"needs", experiment.needs}});
  return {{"selectors", selectors},
          {"metrics", metric_names()},
          {"score_metrics", score_metric_names()},
          {"experiments", figures}};
}

/// Words joined by commas, broken into lines of at most `width` characters that start with `indent`.
std::string wrapped(const std::vector<std::string>& words, const std::string& indent, std::size_t width) {
  std::string text, line = indent;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? ", " : "");
    if (line.size() > indent.size() && line.size() + word.size() > width) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = indent;
    }
    line += word;
  }
  return text + line + "\n";
}

std::string list_text() {
  constexpr std::size_t kWidth = 100;
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
  }
  text += "\nMetrics of every selector\n" + wrapped(metric_names(), "  ", kWidth);
  text += "Metrics of the exact scores\n" + wrapped(score_metric_names(), "  ", kWidth);
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
