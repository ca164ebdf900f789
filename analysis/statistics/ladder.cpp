// Ladders by selection: each rung partitions what lies above the rung before it.
#include "analysis/statistics/ladder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analysis/statistics/quantile.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Ascending order of badness.
struct Milder {
  Badness badness;
  bool operator()(float a, float b) const { return badness == Badness::value ? a < b : a > b; }
};

double badness_value(float cell, Badness badness) {
  const auto x = static_cast<double>(cell);
  return badness == Badness::deficit ? 1 - x : x;
}

}  // namespace

std::optional<Badness> badness_of(const MetricInfo& metric) {
  if (metric.better == Better::neither) return std::nullopt;
  if (metric.better == Better::lower) return Badness::value;
  return metric.range.max == 1 ? Badness::deficit : Badness::mirrored;
}

std::string badness_name(const MetricInfo& metric) {
  if (badness_of(metric) != Badness::deficit) return std::string(metric.name);
  if (metric.name == "recall") return "recall deficit";
  if (metric.name == "mass_recall") return "dropped mass";
  return fmt::format("1 - {}", metric.name);
}

std::vector<double> badness_quantiles(std::span<float> cells, std::span<const double> levels, Badness badness) {
  std::vector<double> quantiles;
  auto begin = cells.begin();  // everything before it is milder than what follows
  for (const double level : levels) {
    if (cells.empty()) {
      quantiles.push_back(kNaN);
      continue;
    }
    const QuantilePlace place = quantile_place(cells.size(), level);
    const auto below = cells.begin() + static_cast<std::ptrdiff_t>(place.below);
    if (below >= begin) {
      std::nth_element(begin, below, cells.end(), Milder{badness});
      begin = below + 1;
      // The next order statistic comes first of the rest, where a later level finds it in its place.
      if (begin != cells.end()) std::iter_swap(begin, std::min_element(begin, cells.end(), Milder{badness}));
    }
    const auto above = below + 1 == cells.end() ? below : below + 1;
    quantiles.push_back(interpolated(badness_value(*below, badness), badness_value(*above, badness), place.fraction));
  }
  return quantiles;
}

Ladder ladder(std::vector<float> cells, Badness badness) {
  std::erase_if(cells, [](float x) { return std::isnan(x); });
  double sum = 0;
  for (const float x : cells) sum += badness_value(x, badness);
  constexpr double kLevels[] = {0.5, 0.95, 0.99, 0.999, 1};
  const std::vector<double> rungs = badness_quantiles(cells, kLevels, badness);
  return {.count = static_cast<std::int64_t>(cells.size()),
          .mean = cells.empty() ? rungs[0] : sum / static_cast<double>(cells.size()),
          .median = rungs[0],
          .p95 = rungs[1],
          .p99 = rungs[2],
          .p999 = rungs[3],
          .worst = rungs[4]};
}

Ladder ladder(std::span<const SampleCells> samples, Badness badness) {
  std::size_t size = 0;
  for (const SampleCells& s : samples) size += s.values.size();
  std::vector<float> cells;
  cells.reserve(size);
  for (const SampleCells& s : samples) cells.insert(cells.end(), s.values.begin(), s.values.end());
  return ladder(std::move(cells), badness);
}

}  // namespace attest
