// The range of normal float32 numbers.
#include "dumps/score_factor.h"

#include <fmt/core.h>

#include <limits>

namespace attest {

std::string fault_of_score_factor(double value) {
  constexpr double kMin = std::numeric_limits<float>::min(), kMax = std::numeric_limits<float>::max();
  if (value >= kMin && value <= kMax) return {};
  return fmt::format("is {:g}, expected a number that float32 holds, {:.2g} to {:.2g}", value, kMin, kMax);
}

}  // namespace attest
