// Quantiles by linear interpolation.
#include "analysis/statistics/quantile.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/not_defined.h"

namespace attest {

QuantilePlace quantile_place(std::size_t count, double p) {
  const double position = p * static_cast<double>(count - 1);
  const auto below = static_cast<std::size_t>(position);
  return {below, position - static_cast<double>(below)};
}

double interpolated(double low, double high, double fraction) {
  // Neighbours may be infinite: inf - inf, 0 * inf and -inf + inf are NaN.
  return low == high || fraction == 0 || std::isinf(low) ? low : low + fraction * (high - low);
}

double quantile_of_sorted(std::span<const double> sorted, double p) {
  if (sorted.empty()) return kNaN;
  const QuantilePlace place = quantile_place(sorted.size(), p);
  return interpolated(sorted[place.below], sorted[std::min(place.below + 1, sorted.size() - 1)], place.fraction);
}

double quantile(std::vector<double> values, double p) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, p);
}

}  // namespace attest
