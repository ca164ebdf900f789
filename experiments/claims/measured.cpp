// Pools cells for claims.
#include "experiments/claims/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/paper/selector_choice.h"
#include "experiments/paper/words.h"

namespace attest {

std::string Measured::text(const std::function<std::string(double)>& number) const {
  const std::string mean = number(interval.mean);
  if (is_drawn(interval))
    return fmt::format("{} (approximate 95 % interval {} to {}, {} samples)", mean, number(interval.low),
                       number(interval.high), interval.clusters);
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

Measured share_where(std::vector<SampleCells> cells, const std::function<bool(float)>& holds) {
  for (SampleCells& sample : cells)
    for (float& value : sample.values)
      if (!std::isnan(value)) value = holds(value) ? 1.0F : 0.0F;
  return measure(cells);
}

std::vector<SampleCells> cells_at(const ModelStudy& study, const PooledSelector& selector, std::string_view metric,
                                  std::size_t setting, const std::set<int>& except) {
  auto settings = study.cells(selector, metric, except);
  if (settings.empty()) return {};
  return std::move(settings[settings.size() == 1 ? 0 : setting]);
}

const PooledSelector* ffd_at(const ModelStudy& study, double delta, std::string_view gqa) {
  return first_top_delta_ffd(study, [&](const PooledSelector& selector) {
    return index_of(selector.group, delta) && (gqa.empty() || selector.option("gqa") == gqa);
  });
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string quality(double value) { return fmt::format("{:.4f}", value); }

}  // namespace attest
