// Pairs the cells of one prompt, metric by metric.
#include "experiments/compare/prompt_differences.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

std::optional<MetricArray> read_series(const ResultsFile& file, SamplePlace place, std::optional<std::size_t> selector,
                                       const MetricStatistic& metric) {
  if (!selector) return file.read_scores(place.dump, place.sample, metric.metric);
  std::optional<MetricArray> cells = file.read(place.dump, place.sample, *selector, metric.stored_metric());
  if (!cells || metric.metric != kSpanRecallMetric) return cells;
  const std::optional<MetricArray> mass = file.read_scores(place.dump, place.sample, "span_mass");
  if (!mass) return std::nullopt;
  keep_retrieval_cells(*cells, *mass);
  return cells;
}

/// The cells of `from` that are defined.
std::span<float> defined_cells(std::span<const float> from, std::vector<float>& memory) {
  memory.resize(from.size());
  const auto end = std::ranges::copy_if(from, memory.begin(), [](float x) { return !std::isnan(x); }).out;
  return {memory.begin(), end};
}

void reduce(const Comparison& comparison, const CellSeries& series, const std::vector<int>& layers,
            PromptDifferences& out) {
  std::vector<float> memory[2];
  const std::size_t count = out.cells.cells();
  for (std::size_t s = 0; s < series.settings.size(); ++s) {
    const std::span<float> first = defined_cells(std::span(out.cells.first).subspan(s * count, count), memory[0]);
    const std::span<float> second = defined_cells(std::span(out.cells.second).subspan(s * count, count), memory[1]);
    for (const std::size_t row : series.settings[s].rows) {
      out.first[row] = statistic_of(first, comparison.rows[row].metric);
      out.second[row] = statistic_of(second, comparison.rows[row].metric);
      out.equal[row] = out.cells.equal[s];
    }
  }
  const std::vector<double> means = head_differences(out.cells);
  const std::size_t places = layers.size() * out.cells.heads;
  for (std::size_t s = 0; s < series.settings.size(); ++s) {
    const auto begin = means.begin() + static_cast<std::ptrdiff_t>(s * places);
    out.heads[series.settings[s].heads] = {
        .layers = layers,
        .heads = out.cells.heads,
        .mean = std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(places))};
  }
}

}  // namespace

std::vector<int> layers_not_done(const ResultsFile& first, const ResultsFile& second, const MatchedPrompt& prompt,
                                 const MatchedSelector& pair) {
  const std::vector<std::uint8_t>& done_first = first.done(prompt.first.dump, prompt.first.sample, pair.first);
  const std::vector<std::uint8_t>& done_second = second.done(prompt.second.dump, prompt.second.sample, pair.second);
  std::vector<int> missing;
  for (std::size_t y = 0; y < prompt.layers.size(); ++y)
    if (done_first[prompt.layer_index[y].first] == 0 || done_second[prompt.layer_index[y].second] == 0)
      missing.push_back(prompt.layers[y]);
  return missing;
}

void difference_prompt(const ResultsFile& first, const ResultsFile& second, const Comparison& comparison,
                       const std::vector<CellSeries>& series, const MatchedPrompt& prompt, PromptDifferences& out) {
  out.first.assign(comparison.rows.size(), kNaN);
  out.second.assign(comparison.rows.size(), kNaN);
  out.equal.assign(comparison.rows.size(), 1);
  out.heads.assign(comparison.heads.size(), {});
  for (const CellSeries& one : series) {
    const std::vector<MatchedSelector>& pairs = comparison.selectors.pairs;
    const auto a =
        read_series(first, prompt.first, one.pair ? std::optional(pairs[*one.pair].first) : std::nullopt, one.metric);
    const auto b = read_series(second, prompt.second, one.pair ? std::optional(pairs[*one.pair].second) : std::nullopt,
                               one.metric);
    if (!a || !b) continue;
    if (a->axes != one.metric.info.axes || b->axes != one.metric.info.axes)
      throw InputError(fmt::format("{}: prompt '{}': '{}' has other axes than the metric of that name",
                                   a->axes != one.metric.info.axes ? first.path() : second.path(), excerpt(prompt.name),
                                   one.metric.stored_metric()));
    // Scores do not depend on the selector: a layer without them was left out for all.
    std::set<int> missing;
    for (std::size_t p = 0; p < pairs.size(); ++p)
      if (!one.pair || *one.pair == p)
        for (const int layer : layers_not_done(first, second, prompt, pairs[p])) missing.insert(layer);
    std::vector<int> layers;
    std::vector<IndexPair> index, settings;
    for (std::size_t y = 0; y < prompt.layers.size(); ++y)
      if (!missing.contains(prompt.layers[y])) {
        layers.push_back(prompt.layers[y]);
        index.push_back(prompt.layer_index[y]);
      }
    for (const SeriesSetting& setting : one.settings) settings.push_back(setting.setting);
    pair_cells(*a, *b, index, settings, out.cells);
    reduce(comparison, one, layers, out);
  }
}

}  // namespace attest
