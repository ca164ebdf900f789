// The released Twilight kernel's search for a top-p threshold.
#pragma once

#include <span>

namespace attest {

/// Weights above the returned value are kept. Bisection in float32, sums in double, on weights rounded to float32:
///   lo = 0, hi = w[0]; repeat mid = (lo + hi) / 2, f = sum of w > mid;
///   from lo, hi before the update a = min(hi, smallest w > lo), b = max(lo, largest w <= hi);
///   if f >= p then lo = mid else hi = min(mid, b); while b - a > 1e-5, at least once.
/// It starts from the weight of token 0, so where that token was not selected by the base (w[0] = 0), or is far below
/// the maximum, far more than p asks for is kept. Source: tsinghua-ideal/Twilight csrc/include/sampling.cuh.
float top_p_bisection(std::span<const float> weights, double p);

}  // namespace attest
