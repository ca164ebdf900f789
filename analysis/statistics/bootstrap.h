// Confidence intervals by the studentized cluster bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap,
// section 12.5). Whole samples are drawn with replacement, because the heads, layers and queries of one prompt are not
// independent of each other. How often it covers the mean of skewed numbers: analysis/README.md, "Aggregates".
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace attest {

/// Sum and number of the cells of one cluster (a sample, or a layer-head pair).
struct ClusterSum {
  double sum = 0;
  std::int64_t count = 0;  ///< cells that are not NaN
};

/// The unit that the bootstrap draws.
enum class ClusterKind : std::uint8_t { sample, pair };

/// Of fewer clusters no bootstrap knows how far their mean may be off.
inline constexpr std::size_t kFewestClusters = 5;

/// A mean over cells and its interval. All are NaN if there are no cells; low and high also for fewer clusters than
/// kFewestClusters.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
  std::size_t clusters = 0;  ///< number of clusters with at least one cell
  ClusterKind kind = ClusterKind::sample;
};

struct BootstrapOptions {
  int resamples = 2000;
  double confidence = 0.95;
  std::uint64_t seed = 20250711;  ///< fixed, so that a report is repeatable
  /// Between which a cell can lie at all: the interval does not leave it.
  double minimum = -std::numeric_limits<double>::infinity(), maximum = std::numeric_limits<double>::infinity();
};

/// Interval of sum / count: the quantiles of (mean - all) / standard error over `clusters` drawn with replacement, as
/// distances from `all` in its own standard error. The same on every machine.
Interval bootstrap_mean(std::span<const ClusterSum> clusters, ClusterKind kind, const BootstrapOptions& options = {});

}  // namespace attest
