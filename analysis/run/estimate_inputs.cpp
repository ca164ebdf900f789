// The selectors' input files, and readers for estimates that come from files.
#include "analysis/run/estimate_inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "dumps/base/error.h"

namespace attest {
namespace {

template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

std::vector<EstimatedLayer> layers_of(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
                                      const std::string& label) {
  std::map<std::string, std::size_t> dump_of_sample;
  std::vector<EstimatedLayer> layers;
  for (const UnitKey& unit : plan.units) {
    const SampleInfo& sample = dumps[unit.dump].info().samples[plan.places[unit.dump][unit.sample].index];
    const auto [place, is_new] = dump_of_sample.emplace(sample.name, unit.dump);
    if (place->second != unit.dump)
      throw UsageError(
          fmt::format("selector '{}': its file names samples, and '{}' and '{}' both have a sample '{}'; "
                      "study one dump at a time",
                      label, study.dumps[place->second].path, study.dumps[unit.dump].path, sample.name));
    layers.push_back({.sample = sample.name,
                      .layer = unit.layer,
                      .shape = study.dumps[unit.dump].shape,
                      .num_queries = static_cast<std::int64_t>(sample.query_positions.size()),
                      .num_tokens = sample.num_tokens});
  }
  return layers;
}

}  // namespace

std::vector<std::string> input_files(const Study& study) {
  std::vector<std::string> files;
  for (const StudySelector& chosen : study.selectors)
    for (const std::string& file : chosen.selector->input_files()) add_once(files, file);
  return files;
}

std::vector<EstimateReader> open_estimates(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
                                           std::uint64_t allowed_memory) {
  std::vector<EstimateSource> sources;
  std::vector<EstimateReader> readers;
  for (const StudySelector& chosen : study.selectors) {
    for (const EstimateSource& source : chosen.selector->estimate_sources()) {
      if (std::ranges::find(sources, source) != sources.end()) continue;
      sources.push_back(source);
      readers.emplace_back(source, layers_of(study, plan, dumps, chosen.label), allowed_memory);
    }
  }
  return readers;
}

}  // namespace attest
