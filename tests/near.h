// Comparisons of numbers within a tolerance. NaN and infinite tolerances fail.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace attest::test {

/// Equal (both may be infinite), or at most `tolerance` apart, which must be finite: one that is taken from the numbers
/// compared may not be.
inline testing::AssertionResult near(double found, double expected, double tolerance) {
  const bool finite = std::isfinite(tolerance) && std::isfinite(expected);
  if (found == expected || (finite && std::fabs(found - expected) <= tolerance)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << found << ", expected " << expected << " within " << tolerance;
}

/// The same; `tolerance` is relative to max(1, |expected|).
inline testing::AssertionResult relatively_near(double found, double expected, double tolerance) {
  return near(found, expected, tolerance * std::max(1.0, std::fabs(expected)));
}

/// The same of a metric, which is NaN where it is undefined.
inline testing::AssertionResult near_metric(double found, double expected, double tolerance) {
  if (std::isnan(expected) && std::isnan(found)) return testing::AssertionSuccess();
  return relatively_near(found, expected, tolerance);
}

}  // namespace attest::test
