// Applies the choice of samples, layers and queries to the dumps.
#include "analysis/study/study_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "dumps/base/error.h"
#include "kernels/selectors/options.h"

namespace attest {
namespace {

void check_sample_names(std::span<const DumpInfo* const> dumps, const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  for (const DumpInfo* dump : dumps)
    for (const SampleInfo& sample : dump->samples) known.push_back(sample.name);
  for (const std::string& name : wanted)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(fmt::format("no dump has a sample '{}'; nearest: {}", name, nearest_names(name, known)));
}

std::vector<int> chosen_layers(const SampleInfo& sample, const std::vector<std::pair<int, int>>& ranges) {
  std::vector<int> layers;
  for (const int layer : sample.layers)
    if (ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const std::pair<int, int>& range) {
          return range.first <= layer && layer <= range.second;
        }))
      layers.push_back(layer);
  return layers;
}

std::vector<std::size_t> chosen_queries(const SampleInfo& sample, const QueryChoice& choice) {
  const std::vector<std::int64_t>& all = sample.query_positions;
  std::vector<std::size_t> indices(all.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  switch (choice.kind) {
    case QueryChoice::Kind::all:
      break;
    case QueryChoice::Kind::last:
      indices.erase(indices.begin(),
                    indices.end() - std::min<std::ptrdiff_t>(choice.last, static_cast<std::ptrdiff_t>(all.size())));
      break;
    case QueryChoice::Kind::positions:
      std::erase_if(indices, [&](std::size_t i) {
        return std::find(choice.positions.begin(), choice.positions.end(), all[i]) == choice.positions.end();
      });
      break;
  }
  return indices;
}

}  // namespace

StudyPlan plan_study(std::span<const DumpInfo* const> dumps, Study& study) {
  const StudyChoice& choice = study.choice;
  check_sample_names(dumps, choice.samples);
  check_sample_names(dumps, choice.left_out);
  const auto names = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  StudyPlan plan;
  study.dumps.clear();
  std::set<std::int64_t> positions_found;
  for (const DumpInfo* info : dumps) {
    const std::size_t number = study.dumps.size();
    StudyDump& dump = study.dumps.emplace_back(info->path, info->model, info->num_layers, info->shape);
    std::vector<PlannedSample>& places = plan.places.emplace_back();
    for (std::size_t index = 0; index < info->samples.size(); ++index) {
      const SampleInfo& sample = info->samples[index];
      if (names(choice.left_out, sample.name) || (!choice.samples.empty() && !names(choice.samples, sample.name)))
        continue;
      StudySample taken{.name = sample.name,
                        .task = sample.task,
                        .num_tokens = sample.num_tokens,
                        .layers = chosen_layers(sample, choice.layers),
                        .query_positions = {},
                        .has_spans = !sample.spans.empty()};
      const std::vector<std::size_t> queries = chosen_queries(sample, choice.queries);
      if (taken.layers.empty() || queries.empty()) continue;
      for (const std::size_t i : queries) taken.query_positions.push_back(sample.query_positions[i]);
      positions_found.insert(taken.query_positions.begin(), taken.query_positions.end());
      for (const int layer : taken.layers) plan.units.push_back({number, dump.samples.size(), layer});
      dump.samples.push_back(std::move(taken));
      places.push_back({index, queries});
    }
  }
  for (const std::int64_t position : choice.queries.positions)
    if (!positions_found.contains(position))
      throw UsageError(fmt::format("no chosen sample has a query at position {}", position));
  if (plan.units.empty())
    throw UsageError(choice.left_out.empty() ? "no dump has any of the chosen layers" : "no sample is left to study");
  for (const auto& [first, last] : choice.layers)  // a range may have gaps
    if (first == last && std::ranges::find(plan.units, first, &UnitKey::layer) == plan.units.end())
      throw UsageError(fmt::format("no chosen sample has layer {}", first));
  return plan;
}

}  // namespace attest
