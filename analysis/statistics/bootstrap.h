// Confidence intervals by the cluster bootstrap. Whole samples are drawn with replacement, because the heads, layers
// and queries of one prompt are not independent of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace attest {

/// Sum and number of the cells of one cluster (a sample, or a layer-head pair).
struct ClusterSum {
  double sum = 0;
  std::int64_t count = 0;  ///< cells that are not NaN
};

/// The unit that the bootstrap draws.
enum class ClusterKind : std::uint8_t { sample, pair };

/// A mean over cells and its percentile interval. All are NaN if there are no cells; low = mean = high for one cluster.
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
};

/// Percentile interval of sum / count over `clusters` drawn with replacement. The same on every machine.
Interval bootstrap_mean(std::span<const ClusterSum> clusters, ClusterKind kind, const BootstrapOptions& options = {});

}  // namespace attest
