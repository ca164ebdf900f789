// Quantiles by linear interpolation between order statistics (type 7 of Hyndman and Fan, the default of NumPy).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace attest {

/// Where the quantile of `count` > 0 values lies: at `below` (counted from 0, ascending), `fraction` of the way to the
/// next one.
struct QuantilePlace {
  std::size_t below = 0;
  double fraction = 0;
};
QuantilePlace quantile_place(std::size_t count, double p);

/// `low` <= `high`, neither NaN; `low` if it is infinite.
double interpolated(double low, double high, double fraction);

/// `sorted` must be ascending and free of NaN; `p` in [0, 1]. NaN if `sorted` is empty.
double quantile_of_sorted(std::span<const double> sorted, double p);

/// NaN values are left out. NaN if no value is left.
double quantile(std::vector<double> values, double p);

}  // namespace attest
