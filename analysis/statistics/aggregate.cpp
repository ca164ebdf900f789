// Aggregates over cells: moments, pair values, intervals, span recall, failure cases.
#include "analysis/statistics/aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

using PairKey = std::tuple<int, int, int>;  // dump, layer, head
PairKey key_of(const Pair& pair) { return {pair.dump, pair.layer, pair.head}; }

template <class Visit>
void each_cell(std::span<const SampleCells> samples, Visit visit) {
  for (const SampleCells& s : samples)
    for (const float value : s.values)
      if (!std::isnan(value)) visit(static_cast<double>(value));
}

/// Calls visit(key, value) for every cell that is not NaN.
template <class Visit>
void each_pair_cell(const SampleCells& s, Visit visit) {
  std::size_t i = 0;
  for (const int layer : s.layers)
    for (std::int64_t query = 0; query < s.num_queries; ++query)
      for (int head = 0; head < s.num_heads; ++head, ++i)
        if (!std::isnan(s.values[i])) visit(PairKey{s.dump, layer, head}, static_cast<double>(s.values[i]));
}

/// each(visit) calls visit(value) for each value. It is called twice and must give the same values both times.
template <class Each>
Moments moments(Each each) {
  Moments m;
  double sum = 0;
  m.min = std::numeric_limits<double>::infinity();
  m.max = -m.min;
  each([&](double v) {
    ++m.count;
    sum += v;
    m.min = std::min(m.min, v);
    m.max = std::max(m.max, v);
  });
  if (m.count == 0) return {0, kNaN, kNaN, kNaN, kNaN};
  m.mean = sum / static_cast<double>(m.count);
  double squares = 0;
  each([&](double v) { squares += (v - m.mean) * (v - m.mean); });
  m.std = std::sqrt(squares / static_cast<double>(m.count));
  return m;
}

std::vector<ClusterSum> sums_of_samples(std::span<const SampleCells> samples) {
  std::vector<ClusterSum> sums;
  for (const SampleCells& s : samples) {
    ClusterSum sum;
    each_cell({&s, 1}, [&](double v) {
      sum.sum += v;
      ++sum.count;
    });
    if (sum.count > 0) sums.push_back(sum);
  }
  return sums;
}

std::map<PairKey, ClusterSum> sums_of_pairs(std::span<const SampleCells> samples) {
  std::map<PairKey, ClusterSum> sums;
  for (const SampleCells& s : samples)
    each_pair_cell(s, [&](const PairKey& key, double v) {
      sums[key].sum += v;
      ++sums[key].count;
    });
  return sums;
}

Pair pair_of(const PairKey& key, double value) { return {std::get<0>(key), std::get<1>(key), std::get<2>(key), value}; }

}  // namespace

Moments describe(std::span<const double> values) {
  return moments([&](auto visit) {
    for (const double v : values)
      if (!std::isnan(v)) visit(v);
  });
}

Moments describe(std::span<const float> values) {
  return moments([&](auto visit) {
    for (const float v : values)
      if (!std::isnan(v)) visit(static_cast<double>(v));
  });
}

Moments describe(std::span<const SampleCells> samples) {
  return moments([&](auto visit) { each_cell(samples, visit); });
}

double quantile(std::span<const SampleCells> samples, double p) {
  std::vector<double> values;
  each_cell(samples, [&](double v) { values.push_back(v); });
  return quantile(std::move(values), p);
}

std::vector<Pair> pair_values(std::span<const SampleCells> samples, PairValue reduce) {
  std::vector<Pair> pairs;
  if (reduce == PairValue::mean) {
    for (const auto& [key, sum] : sums_of_pairs(samples))
      pairs.push_back(pair_of(key, sum.sum / static_cast<double>(sum.count)));
    return pairs;
  }
  std::map<PairKey, double> largest;
  for (const SampleCells& s : samples)
    each_pair_cell(s, [&](const PairKey& key, double v) {
      const auto [at, is_new] = largest.emplace(key, v);
      if (!is_new) at->second = std::max(at->second, v);
    });
  for (const auto& [key, value] : largest) pairs.push_back(pair_of(key, value));
  return pairs;
}

Interval mean_interval(std::span<const SampleCells> samples, BootstrapOptions options) {
  if (!samples.empty()) {
    options.minimum = samples.front().range.min;
    options.maximum = samples.front().range.max;
  }
  const std::vector<ClusterSum> by_sample = sums_of_samples(samples);
  if (by_sample.size() != 1) return bootstrap_mean(by_sample, ClusterKind::sample, options);
  std::vector<ClusterSum> by_pair;
  for (const auto& [key, sum] : sums_of_pairs(samples)) by_pair.push_back(sum);
  return bootstrap_mean(by_pair, ClusterKind::pair, options);
}

SpanRecall span_recall(std::span<const SampleCells> recall, std::span<const SampleCells> span_mass, double threshold) {
  std::map<std::tuple<int, std::string_view, int>, std::span<const float>> mass_of;
  for (const SampleCells& s : span_mass)
    for (std::size_t y = 0; y < s.layers.size(); ++y) mass_of[{s.dump, s.sample, s.layers[y]}] = s.layer(y);

  std::vector<double> retrieval;
  for (const SampleCells& s : recall)
    for (std::size_t y = 0; y < s.layers.size(); ++y) {
      const auto mass = mass_of.find({s.dump, s.sample, s.layers[y]});
      if (mass == mass_of.end()) continue;
      const std::span<const float> values = s.layer(y);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (mass->second[i] >= threshold) retrieval.push_back(values[i]);
    }
  const Moments m = describe(retrieval);
  return {m.count, m.min, m.mean};
}

HeadwiseVariation headwise_variation(std::span<const SampleCells> keep_ratio, std::span<const SampleCells> hit_rate) {
  const auto values_of = [](std::span<const SampleCells> samples) {
    std::vector<double> values;
    for (const Pair& pair : pair_values(samples)) values.push_back(pair.value);
    return values;
  };
  return {describe(values_of(keep_ratio)), describe(values_of(hit_rate)).mean};
}

FailureCases failure_cases(std::span<const SampleCells> top1_top2_gap, std::span<const SampleCells> score_std,
                           double quantile_level) {
  std::map<PairKey, double> std_of;
  for (const Pair& pair : pair_values(score_std)) std_of[key_of(pair)] = pair.value;
  std::vector<Pair> gaps = pair_values(top1_top2_gap);
  std::erase_if(gaps, [&](const Pair& pair) { return !std_of.contains(key_of(pair)); });

  std::vector<double> gap_values, std_values;
  for (const Pair& pair : gaps) {
    gap_values.push_back(pair.value);
    std_values.push_back(std_of.at(key_of(pair)));
  }
  FailureCases cases{.gap_limit = quantile(gap_values, quantile_level),
                     .std_limit = quantile(std_values, quantile_level)};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const bool small_gap = gap_values[i] <= cases.gap_limit;
    const bool flat = std_values[i] <= cases.std_limit;
    const Pair member = pair_of(key_of(gaps[i]), kNaN);
    (small_gap || flat ? cases.proxy_error : cases.regular).push_back(member);
    if (small_gap && flat) cases.high_error.push_back(member);
  }
  return cases;
}

double mean_over(std::span<const Pair> members, std::span<const Pair> pairs) {
  std::map<PairKey, double> value_of;
  for (const Pair& pair : pairs) value_of[key_of(pair)] = pair.value;
  std::vector<double> values;
  for (const Pair& member : members)
    if (const auto at = value_of.find(key_of(member)); at != value_of.end()) values.push_back(at->second);
  return describe(values).mean;
}

}  // namespace attest
