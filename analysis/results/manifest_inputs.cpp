// Reads `inputs` of a manifest.
#include "analysis/results/manifest_inputs.h"

#include "dumps/base/json_text.h"

namespace attest {

std::vector<ManifestInput> manifest_inputs(const std::string& manifest) {
  const nlohmann::json json = parse_json(manifest).value_or(nullptr);
  std::vector<ManifestInput> inputs;
  const auto list = json.is_object() ? json.find("inputs") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array()) return inputs;
  const auto text = [](const nlohmann::json& input, const char* key) {
    const auto found = input.is_object() ? input.find(key) : input.end();
    return input.is_object() && found != input.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const nlohmann::json& input : *list) inputs.push_back({text(input, "path"), text(input, kContentHashName)});
  return inputs;
}

}  // namespace attest
