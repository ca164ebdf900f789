// The ladder of a distribution: mean, median, 95 %, 99 % and 99.9 % quantile and the worst value of how bad cells are,
// the rungs that llama.cpp's llama-perplexity prints for the KL divergence. A mean hides failures; the rungs show where
// they begin.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/statistics/sample_cells.h"
#include "kernels/base/metric_info.h"

namespace attest {

/// Fewer cells have no 1 % or 0.1 % of them: such a quantile is between the worst two.
inline constexpr std::int64_t kMinCellsP99 = 100, kMinCellsP999 = 1000;

/// The number that grows as cell x gets worse, and that quantiles are taken of.
enum class Badness : std::uint8_t {
  value,     ///< x: lower is better
  deficit,   ///< 1 - x: higher is better, and 1 is the best that there is
  mirrored,  ///< x itself, with rungs that descend (the 99 % rung is the 1 % quantile of x): higher is better,
             ///< unbounded
};

/// None if neither direction of the metric is better.
std::optional<Badness> badness_of(const MetricInfo& metric);

/// What is bad about the metric, as a heading: "recall deficit", "dropped mass", "1 - spearman"; else its name.
std::string badness_name(const MetricInfo& metric);

/// Over the cells that are not NaN; all NaN if there are none. Quantiles interpolate linearly (quantile.h).
struct Ladder {
  std::int64_t count = 0;
  double mean = 0, median = 0, p95 = 0, p99 = 0, p999 = 0, worst = 0;
};

/// Copies the cells once.
Ladder ladder(std::span<const SampleCells> samples, Badness badness);
Ladder ladder(std::vector<float> cells, Badness badness);

/// Quantiles at `levels`, ascending in [0, 1], of the badness of `cells`, which must be free of NaN and which are
/// reordered. NaN if there are none. Linear in the number of cells.
std::vector<double> badness_quantiles(std::span<float> cells, std::span<const double> levels, Badness badness);

}  // namespace attest
