// Adds up head weights over prompts, and orders heads by them.
#include "experiments/weights/averaged_weights.h"

#include <fmt/core.h>

#include <ranges>
#include <utility>

#include "analysis/metrics/output_fidelity.h"
#include "analysis/run/input_hashes.h"
#include "analysis/study/head_weights.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/cli/output/aligned_text.h"
#include "experiments/cli/process/version.h"

namespace attest {
namespace {

void require_same_model(const DumpInfo& first, const DumpInfo& other) {
  const auto describe = [](const DumpInfo& dump) {
    return fmt::format("'{}' with {} layers of {} query heads", excerpt(dump.model), dump.num_layers,
                       dump.shape.num_query_heads);
  };
  if (first.model != other.model || first.num_layers != other.num_layers ||
      first.shape.num_query_heads != other.shape.num_query_heads)
    throw InputError(fmt::format("{}: is of {}, expected the model of {}, {}", other.path, describe(other), first.path,
                                 describe(first)));
}

}  // namespace

void LayerSums::add(const std::vector<double>& more) {
  weights.resize(more.size());
  for (std::size_t h = 0; h < more.size(); ++h) weights[h] += more[h];
  ++prompts;
}

std::map<HeadPlace, double> AveragedWeights::means() const {
  std::map<HeadPlace, double> found;
  for (const auto& [layer, sums] : layers)
    for (std::size_t h = 0; h < sums.weights.size(); ++h) found[{layer, static_cast<int>(h)}] = sums.mean(h);
  return found;
}

AveragedWeights averaged_weights(const std::vector<DumpReader>& dumps, const StudyPlan& plan) {
  AveragedWeights found{.model = &dumps.front().info()};
  for (std::size_t d = 0; d < dumps.size(); ++d) require_same_model(*found.model, dumps[d].info());
  for (std::size_t d = 0; d < dumps.size(); ++d)
    for (const PlannedSample& sample : plan.places[d]) {
      bool counts = false;
      for (const int layer : dumps[d].info().samples[sample.index].layers) {
        const std::vector<float>& gradient = dumps[d].layer_info(sample.index, layer).head_gradient;
        if (gradient.empty()) continue;
        found.layers[layer].add(head_weights(gradient, found.model->shape.num_query_heads));
        counts = true;
      }
      found.prompts += counts ? 1 : 0;
    }
  if (found.layers.empty())
    throw InputError(
        fmt::format("{}: no layer has head gradients, which 'attest capture --head-weights' adds", found.model->path));
  return found;
}

Json document_of(const AveragedWeights& found, const std::vector<std::string>& paths,
                 const std::vector<std::string>& hashes) {
  Json layers = Json::object(), inputs = Json::array();
  for (const auto& [layer, sums] : found.layers) {
    Json weights = Json::array();
    for (std::size_t h = 0; h < sums.weights.size(); ++h) weights.push_back(sums.mean(h));
    layers[std::to_string(layer)] = {{"prompts", sums.prompts}, {"weights", weights}};
  }
  for (std::size_t i = 0; i < paths.size(); ++i) inputs.push_back({{"path", paths[i]}, {kContentHashName, hashes[i]}});
  return {{"format", kHeadWeightsFormat},
          {"format_version", kHeadWeightsVersion},
          {"model", found.model->model},
          {"num_layers", found.model->num_layers},
          {"num_query_heads", found.model->shape.num_query_heads},
          {"prompts", found.prompts},
          {"layers", layers},
          {"program", program_version().program},
          {"inputs", inputs}};
}

std::string heaviest_text(const AveragedWeights& found) {
  constexpr std::size_t kMax = 8;
  const std::map<HeadPlace, double> weights = found.means();
  double sum = 0;
  for (const auto& [place, weight] : weights) sum += weight;
  std::vector<std::vector<std::string>> lines{{"layer", "head", "weight", "of all"}};
  for (const HeadPlace& place : in_falling_order(weights) | std::views::take(kMax))
    lines.push_back({std::to_string(place.first), std::to_string(place.second),
                     fmt::format("{:.4g}", weights.at(place)),
                     sum > 0 ? fmt::format("{:.1f}%", 100 * weights.at(place) / sum) : "-"});
  return aligned_text(lines, 0);
}

std::string dense_heads_text(const AveragedWeights& found, int count) {
  const std::map<HeadPlace, double> squares = squared_kv_weights(found.means(), found.model->shape.group());
  if (std::cmp_less(squares.size(), count))
    throw UsageError(
        fmt::format("--keep-dense is {}, and the dumps have weights of {} KV heads", count, squares.size()));
  std::vector<std::string> places;
  for (const HeadPlace& place : in_falling_order(squares))
    places.push_back(fmt::format("{}:{}", place.first, place.second));
  places.resize(static_cast<std::size_t>(count));
  return join(places, "+");
}

}  // namespace attest
