// Reads `inputs` of a manifest.
#include "analysis/results/manifest_inputs.h"

#include "dumps/base/json.h"

namespace attest {

std::vector<ManifestInput> manifest_inputs(const std::string& manifest) {
  const Json document = parsed_json(manifest).value_or(nullptr);
  const Json& list = document["inputs"];
  std::vector<ManifestInput> inputs;
  if (!list.is_array()) return inputs;
  for (const Json& input : list.elements())
    inputs.push_back({input["path"].text_or(""), input[kContentHashName].text_or("")});
  return inputs;
}

}  // namespace attest
