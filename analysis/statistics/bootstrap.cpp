// Studentized bootstrap over clusters of cells.
#include "analysis/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "analysis/statistics/quantile.h"
#include "kernels/base/not_defined.h"

namespace attest {

namespace {

/// Sums over drawn clusters, each as its distance from the mean over all: s = sum - mean count, c = count.
struct Drawn {
  double s = 0, c = 0, ss = 0, sc = 0, cc = 0;

  void add(const ClusterSum& cluster, double mean) {
    const auto count = static_cast<double>(cluster.count);
    const double distance = cluster.sum - mean * count;
    s += distance;
    c += count;
    ss += distance * distance;
    sc += distance * count;
    cc += count * count;
  }
  double shift() const { return s / c; }  ///< of the mean from that over all
  /// Of a ratio of sums over n clusters, linearized.
  double standard_error(double n) const {
    const double squares = ss - 2 * shift() * sc + shift() * shift() * cc;
    return std::sqrt(std::max(0.0, squares) * n / (n - 1)) / c;
  }
};

}  // namespace

Interval bootstrap_mean(std::span<const ClusterSum> clusters, ClusterKind kind, const BootstrapOptions& options) {
  std::vector<ClusterSum> filled;
  std::copy_if(clusters.begin(), clusters.end(), std::back_inserter(filled),
               [](const ClusterSum& c) { return c.count > 0; });
  Interval interval{.mean = kNaN, .low = kNaN, .high = kNaN, .clusters = filled.size(), .kind = kind};
  if (filled.empty()) return interval;
  ClusterSum all;
  for (const ClusterSum& c : filled) {
    all.sum += c.sum;
    all.count += c.count;
  }
  interval.mean = all.sum / static_cast<double>(all.count);
  if (filled.size() < kFewestClusters || !std::isfinite(interval.mean) || options.resamples == 0) return interval;

  const auto n = static_cast<double>(filled.size());
  Drawn observed;
  for (const ClusterSum& c : filled) observed.add(c, interval.mean);
  const double error = observed.standard_error(n);
  // std::uniform_int_distribution is not used: its algorithm differs between standard libraries, so intervals would
  // differ between machines.
  std::mt19937_64 random(options.seed);
  std::vector<double> distances;
  for (int r = 0; r < options.resamples; ++r) {
    Drawn drawn;
    for (std::size_t i = 0; i < filled.size(); ++i)
      drawn.add(filled[static_cast<std::size_t>(random() % filled.size())], interval.mean);
    // One cluster drawn n times has no error: of five clusters in one of 625 draws.
    const double own = drawn.standard_error(n);
    if (own > 1e-9 * error) distances.push_back(drawn.shift() / own);
  }
  interval.low = interval.high = interval.mean;
  if (distances.empty()) return interval;  // all clusters are the same
  std::ranges::sort(distances);
  const double tail = (1 - options.confidence) / 2;
  interval.low =
      std::clamp(interval.mean - quantile_of_sorted(distances, 1 - tail) * error, options.minimum, options.maximum);
  interval.high =
      std::clamp(interval.mean - quantile_of_sorted(distances, tail) * error, options.minimum, options.maximum);
  return interval;
}

}  // namespace attest
