// Applies the choice of samples, layers and queries to the dumps.
#include "analysis/study/study_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/token_spans.h"
#include "kernels/selectors/options.h"

namespace attest {
namespace {

/// `source` begins the message: where the names come from.
void check_sample_names(std::span<const DumpInfo* const> dumps, const std::vector<std::string>& wanted,
                        std::string_view source) {
  std::vector<std::string> known;
  for (const DumpInfo* dump : dumps)
    for (const SampleInfo& sample : dump->samples) known.push_back(sample.name);
  for (const std::string& name : wanted)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(
          fmt::format("{}no dump has a sample '{}'; nearest: {}", source, name, nearest_names(name, known)));
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

/// "0-3, 7"
std::string ranges_text(const std::vector<std::pair<int, int>>& ranges) {
  std::vector<std::string> parts;
  for (const auto& [first, last] : ranges)
    parts.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  return join(parts, ", ");
}

std::vector<std::pair<int, int>> ranges_of(const std::set<int>& numbers) {
  std::vector<std::pair<int, int>> ranges;
  for (const int number : numbers) {
    if (ranges.empty() || number != ranges.back().second + 1) ranges.emplace_back(number, number);
    ranges.back().second = number;
  }
  return ranges;
}

/// Every chosen layer must be in some sample; `known` are the layers of all chosen samples.
void check_layers(const std::set<int>& known, const std::vector<std::pair<int, int>>& chosen) {
  std::vector<std::pair<int, int>> missing;
  for (const auto& [first, last] : chosen) {
    int next = first;
    for (auto at = known.lower_bound(first); at != known.end() && *at <= last; ++at) {
      if (next < *at && last != kOpenEnd) missing.emplace_back(next, *at - 1);
      next = *at + 1;
    }
    if (last == kOpenEnd ? next == first : next <= last) missing.emplace_back(next, last == kOpenEnd ? next : last);
  }
  if (missing.empty()) return;
  const bool one = missing.size() == 1 && missing[0].first == missing[0].second;
  throw UsageError(fmt::format("--layers: no chosen sample has layer{} {}; there is {}", one ? "" : "s",
                               ranges_text(missing), known.empty() ? "none" : ranges_text(ranges_of(known))));
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
  check_sample_names(dumps, choice.samples, "--samples: ");
  check_sample_names(dumps, choice.left_out, "");
  const auto names = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  StudyPlan plan;
  study.dumps.clear();
  std::set<std::int64_t> positions_found;
  std::set<int> layers_known;
  std::vector<std::string> without, with_fewer;
  for (const DumpInfo* info : dumps) {
    const std::size_t number = study.dumps.size();
    StudyDump& dump = study.dumps.emplace_back(info->path, info->model, info->num_layers, info->shape);
    dump.engine = info->engine;
    dump.kv_cache = info->kv_cache;
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
                        .has_spans = !sample.spans.empty(),
                        .span_tokens = span_tokens(sample.spans)};
      if (!sample.document.empty()) taken.attributes["document"] = sample.document;
      if (std::ssize(taken.span_tokens) > kMaxSpanTokens) taken.span_tokens.clear();
      const std::vector<std::size_t> queries = chosen_queries(sample, choice.queries);
      layers_known.insert(sample.layers.begin(), sample.layers.end());
      if (taken.layers.empty() || queries.empty()) {
        without.push_back(fmt::format("'{}'", sample.name));
        continue;
      }
      if (std::cmp_less(queries.size(), choice.queries.last))
        with_fewer.push_back(fmt::format("'{}' ({})", sample.name, queries.size()));
      for (const std::size_t i : queries) taken.query_positions.push_back(sample.query_positions[i]);
      if (!sample.margin.empty())
        for (const std::size_t i : queries) taken.margin.push_back(sample.margin[i]);
      positions_found.insert(taken.query_positions.begin(), taken.query_positions.end());
      for (const int layer : taken.layers) plan.units.push_back({number, dump.samples.size(), layer});
      dump.samples.push_back(std::move(taken));
      places.push_back({index, queries});
    }
  }
  for (const std::int64_t position : choice.queries.positions)
    if (!positions_found.contains(position))
      throw UsageError(fmt::format("--queries: no chosen sample has a query at position {}", position));
  check_layers(layers_known, choice.layers);
  if (plan.units.empty()) throw UsageError("no sample is left to study");
  if (!without.empty())
    plan.notices.push_back(
        fmt::format("samples without any of the chosen layers or queries are left out: {}", first_few(without, 3)));
  if (!with_fewer.empty())
    plan.notices.push_back(fmt::format("--queries last:{}: all queries are taken of the samples that have fewer: {}",
                                       choice.queries.last, first_few(with_fewer, 3)));
  return plan;
}

}  // namespace attest
