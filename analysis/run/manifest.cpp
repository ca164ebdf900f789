#include "analysis/run/manifest.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace attest {
namespace {

using json = nlohmann::ordered_json;

/// Paths and names may hold bytes that are no UTF-8, which JSON cannot.
std::string text_of(const json& value) { return value.dump(1, ' ', false, json::error_handler_t::replace); }

/// JSON has no infinity.
json number(double value) {
  if (std::isinf(value)) return "inf";
  return value;
}

json numbers(const std::vector<double>& values) {
  json list = json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

json selector_json(const SelectorGroup& selector) {
  return {{"label", selector.label},
          {"selector", selector.selector},
          {"options", json::parse(selector.options_json)},
          {"setting", selector.setting},
          {"settings", numbers(selector.settings)},
          {"setting_labels", selector.setting_labels}};
}

json dump_json(const StudyDump& dump, const InputStatus& input) {
  json samples = json::array();
  for (const StudySample& sample : dump.samples)
    samples.push_back({{"name", sample.name}, {"layers", sample.layers}, {"query_positions", sample.query_positions}});
  return {{"path", std::filesystem::absolute(input.path).lexically_normal().string()},
          {"bytes", input.bytes},
          {"samples", samples}};
}

}  // namespace

std::string configuration_json(const StudyConfiguration& configuration, const StudyPlan& plan) {
  json selectors = json::array(), dumps = json::array();
  for (const SelectorGroup& selector : configuration.selectors) selectors.push_back(selector_json(selector));
  for (std::size_t d = 0; d < plan.dumps.size(); ++d)
    dumps.push_back(dump_json(plan.dumps[d], configuration.inputs[d]));
  return text_of({{"program", configuration.program},
                  {"git_commit", configuration.git_commit},
                  {"device", configuration.device},
                  {"precision", configuration.precision},
                  {"selectors", selectors},
                  {"salient_delta", number(configuration.salient_delta)},
                  {"lambdas", numbers(configuration.lambdas)},
                  {"skip_bad_layers", configuration.skip_bad_layers},
                  {"dumps", dumps}});
}

std::string manifest_json(const Manifest& manifest, const StudyConfiguration& configuration) {
  json inputs = json::array(), left_out = json::array();
  for (std::size_t i = 0; i < configuration.inputs.size(); ++i)
    inputs.push_back({{"path", configuration.inputs[i].path},
                      {"bytes", configuration.inputs[i].bytes},
                      {kContentHashName, manifest.input_hashes.at(i)}});
  for (const LeftOutLayer& layer : manifest.left_out)
    left_out.push_back({{"dump", layer.dump}, {"sample", layer.sample}, {"layer", layer.layer}});
  return text_of(
      {{"command_line", manifest.command_line},
       {"program", {{"name", "attest"}, {"version", configuration.program}, {"git_commit", configuration.git_commit}}},
       {"device", manifest.device},
       {"precision", configuration.precision},
       {"start_time", manifest.started},
       {"end_time", manifest.ended},
       {"inputs", inputs},
       {"layers_left_out", left_out},
       {"configuration", json::parse(manifest.configuration)}});
}

bool same_study(const std::string& manifest, const std::string& configuration) {
  const json found = json::parse(manifest, nullptr, false);
  return !found.is_discarded() && found.is_object() && found.contains("configuration") &&
         found["configuration"] == json::parse(configuration);
}

}  // namespace attest
