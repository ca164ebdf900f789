// Ratio of two counts, as the metrics' kernels write it.
#pragma once

#include "kernels/device/not_defined.cuh"

namespace attest {

/// NaN if the denominator is 0.
__device__ inline float ratio(int numerator, int denominator) {
  return denominator > 0 ? static_cast<float>(static_cast<double>(numerator) / denominator) : not_defined();
}

}  // namespace attest
