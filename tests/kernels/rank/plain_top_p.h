// The second form of Twilight's top-p bisection.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace attest::test {

/// The bisection of the released kernel, with one pass over the weights per step.
inline float plain_threshold(const std::vector<float>& w, double p) {
  float lo = 0, hi = w[0];
  for (;;) {
    const float mid = (lo + hi) / 2;
    double f = 0;
    float min_above = std::numeric_limits<float>::infinity(), max_within = -min_above;
    for (float x : w) {
      if (x > mid) f += static_cast<double>(x);
      if (x > lo) min_above = std::min(min_above, x);
      if (x <= hi) max_within = std::max(max_within, x);
    }
    const float a = std::min(hi, min_above), b = std::max(lo, max_within);
    if (f >= p)
      lo = mid;
    else
      hi = std::min(mid, b);
    if (!(static_cast<double>(b) - static_cast<double>(a) > 1e-5)) return lo;
  }
}

}  // namespace attest::test
