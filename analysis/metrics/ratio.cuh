// Ratio of two counts, as the metrics' kernels write it.
#pragma once

namespace attest {

/// NaN if the denominator is 0.
__device__ inline float ratio(int numerator, int denominator) {
  return denominator > 0 ? static_cast<float>(static_cast<double>(numerator) / denominator)
                         : __int_as_float(0x7FC00000);
}

}  // namespace attest
