// Quotients of counts as metrics write them.
#pragma once

namespace attest {

/// NaN where there is nothing to be a part of.
__device__ inline float ratio(int numerator, int denominator) {
  return denominator > 0 ? static_cast<float>(static_cast<double>(numerator) / denominator)
                         : __int_as_float(0x7FC00000);
}

}  // namespace attest
