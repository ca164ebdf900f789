// Tests of a mean of losses in [0, 1] that hold for few observations and skewed losses, and the bootstrap, which does
// not.
#pragma once

#include <cstdint>
#include <span>

#include "dumps/base/enum_names.h"

namespace attest {

enum class MeanBound : std::uint8_t {
  /// Hoeffding-Bentkus: p = min(e P(Bin(n, a) <= ceil(n r)), exp(-n KL(min(r, a), a))), r the observed mean.
  /// Angelopoulos et al., Learn then Test, Annals of Applied Statistics 2025, section 3.1.
  hb,
  /// Betting: p = 1 / max_i K_i, where K_i is the capital after i bets against "the mean exceeds a", which can grow to
  /// 1/p with probability p at most. Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting,
  /// JRSS B 2023.
  wsr,
  /// The share of 2000 resamples whose mean exceeds a. Approximate: too small a p for skewed losses.
  bootstrap,
};
inline constexpr EnumName<MeanBound> kBoundNames[] = {
    {MeanBound::hb, "hb"}, {MeanBound::wsr, "wsr"}, {MeanBound::bootstrap, "bootstrap"}};

/// NaN for no losses.
double mean_loss(std::span<const double> losses);

/// p-value of the hypothesis that the expected loss exceeds `allowed`, which is in (0, 1). `losses` are in [0, 1] and
/// in an order that does not depend on their values: `wsr` bets in that order, the others do not know it. `alpha` is
/// the level at which the p-value will be used; it tunes the bets of `wsr`, whose p-value is valid at any level. `seed`
/// is of the bootstrap's draws. 1 for no losses.
double mean_p_value(MeanBound bound, std::span<const double> losses, double allowed, double alpha, std::uint64_t seed);

}  // namespace attest
