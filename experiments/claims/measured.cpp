// Pools cells for claims.
#include "experiments/claims/measured.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {

std::string Measured::text(const std::function<std::string(double)>& number) const {
  const std::string mean = number(interval.mean);
  if (is_drawn(interval))
    return fmt::format("{} (95 % interval {} to {}, {} samples)", mean, number(interval.low), number(interval.high),
                       interval.clusters);
  if (interval.kind == ClusterKind::sample && interval.clusters > 1)
    return fmt::format("{} ({} samples, from {} to {})", mean, interval.clusters, number(lowest_sample),
                       number(highest_sample));
  return fmt::format("{} (one sample: no interval)", mean);
}

Measured measure(std::span<const SampleCells> cells) {
  Measured measured{.interval = mean_interval(cells),
                    .lowest_sample = std::numeric_limits<double>::infinity(),
                    .highest_sample = -std::numeric_limits<double>::infinity()};
  for (const SampleCells& sample : cells) {
    const Moments moments = describe(std::span(&sample, 1));
    if (moments.count == 0) continue;
    measured.lowest_sample = std::min(measured.lowest_sample, moments.mean);
    measured.highest_sample = std::max(measured.highest_sample, moments.mean);
  }
  return measured;
}

SampleNumbers sample_means(std::span<const SampleCells> cells) {
  SampleNumbers means;
  for (const SampleCells& sample : cells)
    if (const Moments moments = describe(std::span(&sample, 1)); moments.count > 0)
      means[key_of(sample)] = moments.mean;
  return means;
}

SampleNumbers differences(const SampleNumbers& a, const SampleNumbers& b) {
  SampleNumbers found;
  for (const auto& [sample, x] : a)
    if (const auto other = b.find(sample); other != b.end()) found[sample] = x - other->second;
  return found;
}

Measured measure(const SampleNumbers& numbers, double confidence) {
  std::vector<ClusterSum> clusters;
  Measured measured{.interval = {},
                    .lowest_sample = std::numeric_limits<double>::infinity(),
                    .highest_sample = -std::numeric_limits<double>::infinity()};
  for (const auto& [sample, x] : numbers) {
    clusters.push_back({x, 1});
    measured.lowest_sample = std::min(measured.lowest_sample, x);
    measured.highest_sample = std::max(measured.highest_sample, x);
  }
  measured.interval = bootstrap_mean(clusters, ClusterKind::sample, {.confidence = confidence});
  return measured;
}

Verdict judged(const Interval& interval, double low, double high) {
  if (!is_drawn(interval) || std::isnan(interval.low)) return Verdict::cannot_tell;
  if (interval.low >= low && interval.high <= high) return Verdict::holds;
  return interval.high < low || interval.low > high ? Verdict::does_not_hold : Verdict::cannot_tell;
}

JudgedParts judged_parts(std::span<const SampleNumbers> parts) {
  JudgedParts judgement{.parts = parts.size()};
  for (const SampleNumbers& part : parts) {
    judgement.hold += judged(measure(part).interval, 0) == Verdict::holds ? 1 : 0;
    const double confidence = 1 - 0.05 / static_cast<double>(parts.size());
    judgement.refuted += judged(measure(part, confidence).interval, 0) == Verdict::does_not_hold ? 1 : 0;
  }
  if (judgement.refuted > 0)
    judgement.verdict = Verdict::does_not_hold;
  else if (judgement.parts > 0 && judgement.hold == judgement.parts)
    judgement.verdict = Verdict::holds;
  return judgement;
}

std::string JudgedParts::text() const {
  return fmt::format("over the samples clearly so at {} of {}, clearly not at {}", hold, parts, refuted);
}

Verdict judged_universal(bool counterexample, std::size_t samples) {
  if (counterexample) return Verdict::does_not_hold;
  return samples >= kFewestClusters ? Verdict::holds : Verdict::cannot_tell;
}

Measured share_where(std::vector<SampleCells> cells, const std::function<bool(float)>& holds) {
  for (SampleCells& sample : cells) {
    sample.range = {.min = 0, .max = 1};
    for (float& value : sample.values)
      if (!std::isnan(value)) value = holds(value) ? 1.0F : 0.0F;
  }
  return measure(cells);
}

std::vector<SampleCells> complement(std::vector<SampleCells> cells) {
  for (SampleCells& sample : cells) {
    sample.range = {.min = 1 - sample.range.max, .max = 1 - sample.range.min};
    for (float& value : sample.values) value = 1 - value;
  }
  return cells;
}

std::string subject_of(const PooledSelector& selector, std::size_t setting, std::span<const SampleCells> cells) {
  std::set<int> layers;
  for (const int layer : layers_of(cells)) layers.insert(layer);
  std::string text = selector.group.label;
  if (const std::string words = setting_in_words(selector.group, setting); !words.empty()) text += " at " + words;
  if (const std::string gqa = selector.option("gqa"); !gqa.empty()) text += fmt::format(" (gqa={})", gqa);
  return layers.empty() ? text : fmt::format("{}, {}", text, layers_in_words(layers));
}

SampleNumbers class_differences(std::span<const SampleCells> cells, const FailureCases& cases) {
  SampleNumbers found;
  for (const SampleCells& sample : cells) {
    const auto pairs = pair_values(std::span(&sample, 1));
    const double difference = mean_over(cases.proxy_error, pairs) - mean_over(cases.regular, pairs);
    if (!std::isnan(difference)) found[key_of(sample)] = difference;
  }
  return found;
}

std::vector<SampleCells> cells_at(const ModelStudy& study, const PooledSelector& selector, std::string_view metric,
                                  std::size_t setting, const std::set<int>& except) {
  auto settings = study.cells(selector, metric, except);
  return std::move(settings.at(settings.size() == 1 ? 0 : setting));  // 1: a metric without settings
}

const PooledSelector* ffd_at(const ModelStudy& study, double delta, std::string_view gqa) {
  return first_top_delta_ffd(study, [&](const PooledSelector& selector) {
    return index_of(selector.group, delta) && nats_per_delta(selector) == 1.0 &&
           (gqa.empty() || selector.option("gqa") == gqa);
  });
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string quality(double value) { return fmt::format("{:.4f}", value); }

}  // namespace attest
