// The JSON of a study's configuration and of its manifest.
#include "analysis/run/manifest.h"

#include <filesystem>

#include "analysis/results/study_difference.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"

namespace attest {
namespace {

Json selector_json(const StudySelector& selector) {
  std::vector<double> settings;
  for (const Setting& setting : selector.grid) settings.push_back(setting.value);
  return {{"label", selector.label},
          {"selector", selector.name},
          {"options", parse_json(selector.options_json)},
          {"setting", name_of(selector.kind)},
          {"settings", list_of_numbers(settings)},
          {"setting_labels", selector.setting_labels}};
}

Json dump_json(const StudyDump& dump, const InputStatus& input, const std::string& sampled) {
  Json samples = Json::array();
  for (const StudySample& sample : dump.samples)
    samples.push_back({{"name", sample.name}, {"layers", sample.layers}, {"query_positions", sample.query_positions}});
  return {{"path", std::filesystem::absolute(input.path).lexically_normal().string()},
          {"bytes", input.bytes},
          {kSampledHashName, sampled},
          {"samples", samples}};
}

}  // namespace

std::string configuration_json(const Study& study, const Provenance& provenance) {
  Json selectors = Json::array(), dumps = Json::array();
  for (const StudySelector& selector : study.selectors) selectors.push_back(selector_json(selector));
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    dumps.push_back(dump_json(study.dumps[d], provenance.inputs[d], provenance.sampled[d]));
  Json document = {{"program", provenance.program},
                   {"git_commit", provenance.git_commit},
                   {"device", provenance.device},
                   {"precision", provenance.precision},
                   {"selectors", selectors},
                   {"salient_delta", number_or_text(study.salient_delta)},
                   {"lambdas", list_of_numbers(study.lambdas)},
                   {"dumps", dumps}};
  if (!provenance.head_weights.empty()) document["head_weights"] = "from the last file";
  for (std::size_t i = study.dumps.size(); i < provenance.inputs.size(); ++i) {
    const InputStatus& input = provenance.inputs[i];
    document["files"].push_back({{"path", std::filesystem::absolute(input.path).lexically_normal().string()},
                                 {"bytes", input.bytes},
                                 {kSampledHashName, provenance.sampled[i]}});
  }
  return document.dump(1);
}

std::string manifest_json(const Study& study, const Provenance& provenance, const std::string& configuration,
                          const RunRecord& record) {
  Json inputs = Json::array(), left_out = Json::array();
  for (std::size_t i = 0; i < provenance.inputs.size(); ++i)
    inputs.push_back({{"path", provenance.inputs[i].path},
                      {"bytes", provenance.inputs[i].bytes},
                      {kContentHashName, record.input_hashes.at(i)}});
  for (const UnitKey& unit : record.left_out)
    left_out.push_back(
        {{"dump", unit.dump}, {"sample", study.dumps[unit.dump].samples[unit.sample].name}, {"layer", unit.layer}});
  Json manifest = {
      {"command_line", record.command_line},
      {"program", {{"name", "attest"}, {"version", provenance.program}, {"git_commit", provenance.git_commit}}},
      {"device", record.device},
      {"precision", provenance.precision},
      {"start_time", record.started},
      {"end_time", record.ended},
      {"inputs", inputs},
      {"skip_bad_layers", study.skip_bad_layers},
      {"layers_left_out", left_out},
      {"configuration", parse_json(configuration)}};
  if (!provenance.head_weights.empty()) manifest["head_weights"] = provenance.head_weights;
  return manifest.dump(1);
}

bool same_study(const std::string& manifest, const std::string& configuration, bool skip_bad_layers) {
  const Json found = parsed_json(manifest).value_or(nullptr);
  if (!found.contains("configuration") || !is_same_study(found["configuration"], parse_json(configuration)))
    return false;
  return skip_bad_layers || found["layers_left_out"].empty();
}

std::string kind_of_other_study(const std::string& manifest, const std::string& configuration) {
  const Json found = parsed_json(manifest).value_or(nullptr);
  if (!found.contains("configuration")) return "";
  const std::string kind = kind_of_difference(found["configuration"], parse_json(configuration));
  return kind.empty() && !found["layers_left_out"].empty() ? "without layers that this command studies" : kind;
}

}  // namespace attest
