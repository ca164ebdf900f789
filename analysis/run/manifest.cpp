// The JSON of a study's configuration and of its manifest.
#include "analysis/run/manifest.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dumps/base/json_text.h"

namespace attest {
namespace {

using json = nlohmann::ordered_json;

/// Paths and names may contain bytes that are not UTF-8. JSON cannot represent them, so they are replaced.
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

json selector_json(const StudySelector& selector) {
  std::vector<double> settings;
  for (const Setting& setting : selector.grid) settings.push_back(setting.value);
  return {{"label", selector.label},
          {"selector", selector.name},
          {"options", json::parse(selector.options_json)},
          {"setting", name_of(selector.kind)},
          {"settings", numbers(settings)},
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

std::string configuration_json(const Study& study, const Provenance& provenance) {
  json selectors = json::array(), dumps = json::array();
  for (const StudySelector& selector : study.selectors) selectors.push_back(selector_json(selector));
  for (std::size_t d = 0; d < study.dumps.size(); ++d) dumps.push_back(dump_json(study.dumps[d], provenance.inputs[d]));
  json document = {{"program", provenance.program},
                   {"git_commit", provenance.git_commit},
                   {"device", provenance.device},
                   {"precision", provenance.precision},
                   {"selectors", selectors},
                   {"salient_delta", number(study.salient_delta)},
                   {"lambdas", numbers(study.lambdas)},
                   {"dumps", dumps}};
  for (std::size_t i = study.dumps.size(); i < provenance.inputs.size(); ++i) {
    const InputStatus& input = provenance.inputs[i];
    document["files"].push_back(
        {{"path", std::filesystem::absolute(input.path).lexically_normal().string()}, {"bytes", input.bytes}});
  }
  return text_of(document);
}

std::string manifest_json(const Study& study, const Provenance& provenance, const std::string& configuration,
                          const RunRecord& record) {
  json inputs = json::array(), left_out = json::array();
  for (std::size_t i = 0; i < provenance.inputs.size(); ++i)
    inputs.push_back({{"path", provenance.inputs[i].path},
                      {"bytes", provenance.inputs[i].bytes},
                      {kContentHashName, record.input_hashes.at(i)}});
  for (const UnitKey& unit : record.left_out)
    left_out.push_back(
        {{"dump", unit.dump}, {"sample", study.dumps[unit.dump].samples[unit.sample].name}, {"layer", unit.layer}});
  return text_of(
      {{"command_line", record.command_line},
       {"program", {{"name", "attest"}, {"version", provenance.program}, {"git_commit", provenance.git_commit}}},
       {"device", record.device},
       {"precision", provenance.precision},
       {"start_time", record.started},
       {"end_time", record.ended},
       {"inputs", inputs},
       {"skip_bad_layers", study.skip_bad_layers},
       {"layers_left_out", left_out},
       {"configuration", json::parse(configuration)}});
}

bool same_study(const std::string& manifest, const std::string& configuration, bool skip_bad_layers) {
  const std::optional<nlohmann::json> found = parse_json(manifest);
  if (!found || !found->is_object() || !found->contains("configuration") ||
      found->at("configuration") != nlohmann::json::parse(configuration))
    return false;
  return skip_bad_layers || found->value("layers_left_out", nlohmann::json::array()).empty();
}

}  // namespace attest
