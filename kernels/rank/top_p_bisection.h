// Top-p threshold search of the released Twilight kernel.
#pragma once

#include <span>

namespace attest {

/// More steps than the bisection takes: weights are at most 1, and each step halves hi - lo, so 1e-5 is reached
/// after 17. The limit ends it on weights that are NaN, too.
inline constexpr int kMaxBisectionSteps = 64;

/// Returns a threshold; weights above it are kept. Bisection in float32 and sums in double, on weights rounded to
/// float32:
///   lo = 0, hi = w[0]
///   repeat at least once, while b - a > 1e-5:
///     mid = (lo + hi) / 2
///     f = sum of all w > mid
///     a = min(hi, smallest w > lo), b = max(lo, largest w <= hi), with lo and hi from before the update
///     if f >= p then lo = mid, else hi = min(mid, b)
/// The upper bound starts at the weight of token 0. If the base did not select token 0 (w[0] = 0), or if w[0] is far
/// below the maximum, much more than p requires is kept. Source: tsinghua-ideal/Twilight csrc/include/sampling.cuh.
float top_p_bisection(std::span<const float> weights, double p);

}  // namespace attest
