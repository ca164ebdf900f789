// Twilight's top-p bisection. Each step is a binary search in the sorted weights and a look-up in their suffix sums.
#include "kernels/rank/top_p_bisection.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace attest {

float top_p_bisection(std::span<const float> weights, double p) {
  std::vector<float> sorted(weights.begin(), weights.end());
  // By their bits, which have the order of numbers that are not negative and an order for NaN, too.
  std::ranges::sort(sorted, {}, [](float weight) { return std::bit_cast<std::uint32_t>(weight); });
  std::vector<double> mass_from(sorted.size() + 1, 0.0);  // sum of sorted[i ..]
  for (std::size_t i = sorted.size(); i-- > 0;) mass_from[i] = mass_from[i + 1] + static_cast<double>(sorted[i]);
  const auto above = [&](float x) {
    return static_cast<std::size_t>(std::upper_bound(sorted.begin(), sorted.end(), x) - sorted.begin());
  };

  float lo = 0, hi = weights[0], a = 0, b = 0;
  for (int step = 0; step == 0 || (static_cast<double>(b) - static_cast<double>(a) > 1e-5 && step < kMaxBisectionSteps);
       ++step) {
    const float mid = (lo + hi) / 2;
    const double mass = mass_from[above(mid)];
    const std::size_t next = above(lo), beyond = above(hi);
    a = next < sorted.size() ? std::min(hi, sorted[next]) : hi;
    b = beyond > 0 ? std::max(lo, sorted[beyond - 1]) : lo;
    if (mass >= p)
      lo = mid;
    else
      hi = std::min(mid, b);
  }
  return lo;
}

}  // namespace attest
