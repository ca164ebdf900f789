// Quantiles by linear interpolation between order statistics: Hyndman and Fan's type 7, NumPy's default.
#pragma once

#include <span>
#include <vector>

namespace attest {

/// `sorted` ascending, without NaN; `p` in [0, 1]. NaN when empty.
double quantile_of_sorted(std::span<const double> sorted, double p);

/// NaN values are left out; NaN when nothing is left.
double quantile(std::vector<double> values, double p);

}  // namespace attest
