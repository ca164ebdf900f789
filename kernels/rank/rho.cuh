// Spearman's rho from sums over two sets of centred ranks.
#pragma once

namespace attest {

/// NaN if either set is constant.
__device__ inline float rho_of(long long products, long long squares, long long exact_squares) {
  if (squares == 0 || exact_squares == 0) return __int_as_float(0x7FC00000);
  return static_cast<float>(static_cast<double>(products) / (sqrt(static_cast<double>(squares)) * sqrt(static_cast<double>(exact_squares))));
}

}  // namespace attest
