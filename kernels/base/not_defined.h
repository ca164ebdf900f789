// The value of a number that is not defined, such as the mean of nothing.
#pragma once

#include <limits>

namespace attest {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace attest
