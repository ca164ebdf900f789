// Chooses layers that kernels can work on, and reads them.
#include "experiments/bench/kernel/kernel_layers.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/study/study_plan.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

/// Why kernels cannot work on a layer; empty if they can.
std::string obstacle(const DumpInfo& dump, const LayerInfo& layer) {
  if (layer.element_type == ElementType::float32) return "its keys are float32, the kernels take 16 bits";
  if (layer.sliding_window > 0) return fmt::format("it has a sliding window of {} tokens", layer.sliding_window);
  if (dump.logit_softcap > 0) return fmt::format("its scores have a soft-cap of {}", dump.logit_softcap);
  if (!layer.sinks.empty()) return "it has learned sinks, which LibTorch's attention does not take";
  return {};
}

std::string longest_sample(const DumpInfo& dump) {
  if (dump.samples.empty()) throw InputError(fmt::format("{}: holds no sample", dump.path));
  return std::ranges::max_element(dump.samples, {}, &SampleInfo::num_tokens)->name;
}

}  // namespace

BenchedLayers benched_layers(const DumpReader& dump, const KernelBenchOptions& options) {
  const DumpInfo& info = dump.info();
  const DumpInfo* const infos[] = {&info};
  Study study;
  study.choice.samples = options.samples.empty() ? std::vector<std::string>{longest_sample(info)} : options.samples;
  study.choice.layers = options.layers;
  study.choice.queries = {.kind = QueryChoice::Kind::last, .last = 1, .positions = {}};
  const StudyPlan plan = plan_study(infos, study);
  BenchedLayers chosen;
  for (const UnitKey& unit : plan.units) {
    const PlannedSample& place = plan.places[0][unit.sample];
    const LayerInfo& layer = dump.layer_info(place.index, unit.layer);
    std::string reason = obstacle(info, layer);
    if (reason.empty() && !chosen.layers.empty() && layer.element_type != chosen.element_type)
      reason = fmt::format("it is {}, the first one {}", name_of(layer.element_type), name_of(chosen.element_type));
    if (reason.empty()) {
      chosen.element_type = layer.element_type;
      chosen.layers.push_back({.sample = place.index, .query = place.query_indices[0], .layer = unit.layer});
    } else {
      chosen.left_out.push_back(
          {.method = "all",
           .reason = fmt::format("layer {} of sample '{}': {}", unit.layer, info.samples[place.index].name, reason)});
    }
  }
  if (chosen.layers.empty())
    throw InputError(fmt::format("{}: no layer that the kernels can work on; {}", info.path,
                                 chosen.left_out.empty() ? "no layer was chosen" : chosen.left_out[0].reason));
  return chosen;
}

void read_benched_layer(const DumpReader& dump, const BenchedLayer& which, int threads, AttentionLayer& layer) {
  dump.check_memory(which.sample, which.layer);
  if (!dump.read_layer(which.sample, which.layer, layer, threads))
    throw InputError(fmt::format("{}: layer {} of sample '{}' has NaN or Inf", dump.info().path, which.layer,
                                 dump.info().samples[which.sample].name));
  const std::size_t queries[] = {which.query};
  select_queries(layer, queries);
}

}  // namespace attest
