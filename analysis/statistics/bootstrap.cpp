// Percentile bootstrap over clusters of cells.
#include "analysis/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "analysis/statistics/quantile.h"

namespace attest {

Interval bootstrap_mean(std::span<const ClusterSum> clusters, ClusterKind kind, const BootstrapOptions& options) {
  std::vector<ClusterSum> filled;
  std::copy_if(clusters.begin(), clusters.end(), std::back_inserter(filled),
               [](const ClusterSum& c) { return c.count > 0; });
  Interval interval{.clusters = filled.size(), .kind = kind};
  if (filled.empty()) {
    interval.mean = interval.low = interval.high = std::numeric_limits<double>::quiet_NaN();
    return interval;
  }
  ClusterSum all;
  for (const ClusterSum& c : filled) {
    all.sum += c.sum;
    all.count += c.count;
  }
  interval.mean = all.sum / static_cast<double>(all.count);

  // std::uniform_int_distribution is not used: its algorithm differs between standard libraries, so intervals would
  // differ between machines.
  std::mt19937_64 random(options.seed);
  const auto draw = [&] { return static_cast<std::size_t>(random() % filled.size()); };
  std::vector<double> means(static_cast<std::size_t>(options.resamples));
  for (double& mean : means) {
    ClusterSum drawn;
    for (std::size_t i = 0; i < filled.size(); ++i) {
      const ClusterSum& c = filled[draw()];
      drawn.sum += c.sum;
      drawn.count += c.count;
    }
    mean = drawn.sum / static_cast<double>(drawn.count);
  }
  // Cells of both infinities: there is no order of NaN, and no interval.
  if (std::ranges::any_of(means, [](double mean) { return std::isnan(mean); })) {
    interval.low = interval.high = std::numeric_limits<double>::quiet_NaN();
    return interval;
  }
  std::sort(means.begin(), means.end());
  const double tail = (1 - options.confidence) / 2;
  interval.low = quantile_of_sorted(means, tail);
  interval.high = quantile_of_sorted(means, 1 - tail);
  return interval;
}

}  // namespace attest
