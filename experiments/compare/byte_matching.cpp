// Pairs settings by the bytes that they read.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "analysis/study/typed_setting.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/compare/prompt_differences.h"
#include "experiments/compare/selector_matching.h"

namespace attest {
namespace {

/// The prompts without the layers that one of the studies did not compute for the pair.
std::vector<MatchedPrompt> computed_parts(const ResultsFile& first, const ResultsFile& second,
                                          const MatchedPrompts& prompts, const MatchedSelector& pair) {
  std::vector<MatchedPrompt> parts = prompts.prompts;
  for (MatchedPrompt& part : parts) {
    const std::vector<int> missing = layers_not_done(first, second, part, pair);
    std::vector<IndexPair> computed;
    for (std::size_t y = 0; y < part.layers.size(); ++y)
      if (std::ranges::count(missing, part.layers[y]) == 0) computed.push_back(part.layer_index[y]);
    part.layer_index = std::move(computed);
  }
  return parts;
}

/// [setting] io_ratio as in the rows of the comparison: the mean over prompts of their means over cells.
std::vector<double> io_of(const ResultsFile& file, std::size_t selector, const std::vector<MatchedPrompt>& prompts,
                          SamplePlace MatchedPrompt::*place, std::size_t IndexPair::*layer) {
  const std::size_t settings = file.study().selectors[selector].grid.size();
  std::vector<double> means(settings), counts(settings);
  for (const MatchedPrompt& prompt : prompts) {
    const SamplePlace& at = prompt.*place;
    const std::optional<MetricArray> io = file.read(at.dump, at.sample, selector, "io_ratio");
    if (!io)
      throw InputError(fmt::format("--same-bytes: {}: the results have no io_ratio of '{}'", file.path(),
                                   printable(file.study().selectors[selector].label)));
    const std::size_t cells = io->values.size() / static_cast<std::size_t>(io->num_layers()) / settings;
    for (std::size_t s = 0; s < settings; ++s) {
      double sum = 0, count = 0;
      for (const IndexPair& own : prompt.layer_index)
        for (std::size_t c = 0; c < cells; ++c)
          if (const float x = io->values[(own.*layer * cells + c) * settings + s]; !std::isnan(x)) {
            sum += static_cast<double>(x);
            ++count;
          }
      if (count == 0) continue;
      means[s] += sum / count;
      ++counts[s];
    }
  }
  for (std::size_t s = 0; s < settings; ++s) means[s] /= counts[s];
  return means;
}

}  // namespace

void match_bytes(const ResultsFile& first, const ResultsFile& second, const MatchedPrompts& prompts,
                 const std::vector<std::string>& settings, std::vector<MatchedSelector>& pairs) {
  bool any = false;
  std::set<std::string> found;
  std::vector<std::string> names;
  for (MatchedSelector& pair : pairs) {
    const StudySelector &a = first.study().selectors[pair.first], &b = second.study().selectors[pair.second];
    names.push_back(pair.name());
    const std::vector<MatchedPrompt> parts = computed_parts(first, second, prompts, pair);
    const std::vector<double> reads = io_of(first, pair.first, parts, &MatchedPrompt::first, &IndexPair::first),
                              other = io_of(second, pair.second, parts, &MatchedPrompt::second, &IndexPair::second);
    for (std::size_t s = 0; s < a.grid.size(); ++s) {
      bool chosen = settings.empty();
      for (const std::string& typed : settings)
        if (is_setting(a, s, typed)) {
          found.insert(typed);
          chosen = true;
        }
      if (!chosen) continue;
      std::optional<std::size_t> matched;
      for (std::size_t o = 0; o < b.grid.size(); ++o)
        if (other[o] <= reads[s] && (!matched || other[o] > other[*matched])) matched = o;
      if (!matched) {
        pair.only_first.push_back(a.setting_labels[s]);
        continue;
      }
      pair.settings.push_back({s, *matched});
      pair.io.emplace_back(reads[s], other[*matched]);
      any = true;
    }
  }
  for (const std::string& typed : settings)
    if (!found.contains(typed))
      throw UsageError(printable(
          fmt::format("--settings: no selector that is compared was studied at '{}' in {}", typed, first.path())));
  if (!any)
    throw InputError(
        printable(fmt::format("--same-bytes: {} has no setting that is known to read as little as one of {}, for {}",
                              second.path(), first.path(), join(names, ", "))));
}

}  // namespace attest
