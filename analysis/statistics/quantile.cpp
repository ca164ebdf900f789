// Quantiles by linear interpolation.
#include "analysis/statistics/quantile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest {

double quantile_of_sorted(std::span<const double> sorted, double p) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double low = sorted[below];
  const double high = sorted[std::min(below + 1, sorted.size() - 1)];
  // Equal neighbours may both be infinite, and inf - inf is NaN.
  return low == high ? low : low + (position - static_cast<double>(below)) * (high - low);
}

double quantile(std::vector<double> values, double p) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, p);
}

}  // namespace attest
