// Reads head weights. The file is untrusted.
#include "analysis/study/head_weights.h"

#include <fmt/core.h>

#include <limits>

#include "dumps/base/json_place.h"
#include "dumps/base/text_parts.h"
#include "dumps/dump_info.h"

namespace attest {
namespace {

int layer_number(const std::string& name, const JsonPlace& at, int num_layers) {
  if (const std::optional<int> number = parse_index(name, num_layers)) return *number;
  throw InputError(fmt::format("{} has no number of a layer from 0 to {} as its name", at.name(), num_layers - 1));
}

}  // namespace

HeadWeights read_head_weights(const std::string& path) {
  const Json json = read_json_object(path, "head weights");
  const JsonPlace document(json, path);
  document["format"].must_be(kHeadWeightsFormat);
  document["format_version"].must_be(kHeadWeightsVersion);
  const auto count = [&](const char* name) { return static_cast<int>(document[name].whole(1, kLargestCount)); };
  HeadWeights found{.path = path,
                    .model = document["model"].text(),
                    .num_layers = count("num_layers"),
                    .num_query_heads = count("num_query_heads"),
                    .prompts = count("prompts"),
                    .layers = {}};
  document["layers"].for_members([&](const std::string& name, const JsonPlace& at) {
    const JsonPlace list = at["weights"];
    const std::vector<double> weights = list.numbers();
    const std::string expected = fmt::format("a list of {} numbers, one of each query head", found.num_query_heads);
    if (weights.size() != static_cast<std::size_t>(found.num_query_heads)) list.refuse(expected);
    std::vector<float>& layer = found.layers[layer_number(name, at, found.num_layers)];
    for (const double weight : weights) {
      if (weight > std::numeric_limits<float>::max()) list.refuse(expected + " that float32 holds");
      layer.push_back(static_cast<float>(weight));
    }
  });
  return found;
}

}  // namespace attest
