// Compares head weights with the layers of a study.
#include "analysis/study/weights_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

void check_model(const HeadWeights& weights, const StudyDump& dump) {
  const auto describe = [](const std::string& model, int layers, int heads) {
    return fmt::format("'{}' with {} layers of {} query heads", excerpt(model), layers, heads);
  };
  if (weights.model != dump.model || weights.num_layers != dump.num_layers ||
      weights.num_query_heads != dump.shape.num_query_heads)
    throw InputError(fmt::format("{}: has weights of the model {}, expected those of {}, {}", weights.path,
                                 describe(weights.model, weights.num_layers, weights.num_query_heads), dump.path,
                                 describe(dump.model, dump.num_layers, dump.shape.num_query_heads)));
}

}  // namespace

std::vector<std::string> head_weights_notices(const Study& study, const StudyPlan& plan,
                                              std::span<const DumpReader> dumps, const HeadWeights* weights) {
  std::vector<std::string> notices;
  std::size_t own_in_all = 0;
  for (std::size_t d = 0; d < study.dumps.size(); ++d) {
    const StudyDump& dump = study.dumps[d];
    if (weights != nullptr) check_model(*weights, dump);
    std::size_t layers_in_dump = 0, own_in_dump = 0, fewest_layers = 0;
    for (std::size_t s = 0; s < dump.samples.size(); ++s) {
      const std::vector<int>& layers = dump.samples[s].layers;
      layers_in_dump += layers.size();
      fewest_layers = s == 0 ? layers.size() : std::min(fewest_layers, layers.size());
      for (const int layer : layers) {
        if (!dumps[d].layer_info(plan.places[d][s].index, layer).head_gradient.empty())
          ++own_in_dump;
        else if (weights != nullptr && !weights->layers.contains(layer))
          throw InputError(fmt::format("{}: has no weights of layer {}, which {} has without head gradients",
                                       weights->path, layer, dump.path));
      }
    }
    own_in_all += own_in_dump;
    if (weights == nullptr && own_in_dump == 0) continue;
    if (weights == nullptr && own_in_dump < layers_in_dump)
      notices.push_back(fmt::format(
          "{}: {} of {} layers of its samples have no head gradients; weighted_error is not defined in a sample that "
          "lacks some, unless --weights has them",
          dump.path, layers_in_dump - own_in_dump, layers_in_dump));
    if (fewest_layers < static_cast<std::size_t>(dump.num_layers))
      notices.push_back(fmt::format("{}: weighted_error is of {} of the model's {} layers", dump.path, fewest_layers,
                                    dump.num_layers));
  }
  if (weights != nullptr && own_in_all > 0)
    notices.push_back(fmt::format("{} of {} layers have head gradients of their own, for which {} is not used",
                                  own_in_all, plan.units.size(), weights->path));
  return notices;
}

}  // namespace attest
