// Confidence intervals by the cluster bootstrap: whole samples are drawn with replacement, since heads, layers and
// queries of one prompt are not independent of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace attest {

/// What one cluster (a sample, or a layer-head pair) brings to a mean over cells.
struct ClusterSum {
  double sum = 0;
  std::int64_t count = 0;  ///< cells that are not NaN
};

/// The unit that was drawn.
enum class ClusterKind : std::uint8_t { sample, pair };

/// A mean over cells and its percentile interval; all NaN when there are no cells, low = mean = high for one cluster.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
  std::size_t clusters = 0;  ///< with at least one cell
  ClusterKind kind = ClusterKind::sample;
};

struct BootstrapOptions {
  int resamples = 2000;
  double confidence = 0.95;
  std::uint64_t seed = 20250711;  ///< fixed, so that a report is repeatable
};

/// Percentile interval of sum / count over `clusters` drawn with replacement. The same on every machine.
Interval bootstrap_mean(std::span<const ClusterSum> clusters, ClusterKind kind, const BootstrapOptions& options = {});

}  // namespace attest
